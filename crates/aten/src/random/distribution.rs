use spyre_artifact::Lane;
use spyre_numerics::DType;

use crate::dtypes::lane;
use crate::generated::{Generated, Text, row_index};

/// Distribution of elements that are computed from random bits.
///
/// Its lines know `w0` and `w1` (32 bits each), `u` (from 0 to less than 1, as many bits as the lane
/// has), `v` (more than 0, up to 1) and `z` (normal), all in the lane that is computed in, or in double.
#[derive(Debug)]
pub(super) struct Distribution {
    /// Its place in the list of all.
    pub(super) number: u32,
    /// Names of the tensors that it reads.
    given: &'static [&'static str],
    /// Its parameters, and their lanes; without one, the one that it computes in.
    parameters: &'static [(&'static str, Option<Lane>)],
    /// Expressions of its results; `{T}` is the dtype of the first, `{L}` the lane that it computes in.
    results: &'static [&'static str],
}

const fn floats(
    number: u32,
    parameters: &'static [(&'static str, Option<Lane>)],
    results: &'static [&'static str],
) -> Distribution {
    Distribution { number, given: &[], parameters, results }
}

const WIDE: Option<Lane> = Some(Lane::F64);

pub(super) static UNIFORM: Distribution = floats(
    0,
    &[("from", None), ("to", None)],
    // Rounding must not bring up the end, which is not to be drawn.
    &["where(round<{T}>(u * (to - from) + from) < to, u * (to - from) + from, from)"],
);
pub(super) static NORMAL: Distribution =
    floats(1, &[("mean", None), ("deviation", None)], &["z * deviation + mean"]);
pub(super) static LOG_NORMAL: Distribution =
    floats(2, &[("mean", None), ("deviation", None)], &["exp(z * deviation + mean)"]);
pub(super) static CAUCHY: Distribution = floats(
    3,
    &[("median", None), ("sigma", None)],
    &["median + sigma * tan(3.141592653589793 * (u - 0.5))"],
);
// Nothing is drawn that a division by it would make infinite.
pub(super) static EXPONENTIAL: Distribution =
    floats(4, &[("lambda", None)], &["max(-log(v), 5.960464477539063e-8) / lambda"]);
pub(super) static GEOMETRIC: Distribution =
    floats(5, &[("rate", WIDE)], &["max(ceil(log(f64(v)) / rate), 1)"]);
pub(super) static BERNOULLI: Distribution = floats(6, &[("p", WIDE)], &["share < p"]);
pub(super) static BERNOULLI_OF: Distribution =
    Distribution { given: &["p"], ..floats(7, &[], &["share < f64(p)"]) };
// Of 63 bits; a range that is not said is all of them.
pub(super) static WHOLE: Distribution = floats(
    8,
    &[("from", Some(Lane::I64)), ("count", Some(Lane::I64))],
    &["from + where(count == 0, wide, wide % where(count == 0, 1, count))"],
);
pub(super) static DROPOUT: Distribution = Distribution {
    given: &["x"],
    ..floats(
        9,
        &[("left", WIDE), ("scale", None)],
        &["where(share < left, x * scale, 0)", "share < left"],
    )
};

/// Normal numbers whose means, deviations or both are tensors.
pub(super) static NORMAL_OF: [Distribution; 3] = [
    Distribution { given: &["mean"], ..floats(10, &[("deviation", None)], OF_BOTH) },
    Distribution { given: &["deviation"], ..floats(11, &[("mean", None)], OF_BOTH) },
    Distribution { given: &["mean", "deviation"], ..floats(12, &[], OF_BOTH) },
];
const OF_BOTH: &[&str] = &["z * {L}(deviation) + {L}(mean)"];
/// Arrivals at the rates of the elements that it reads: the first ones are samples that do not repeat.
pub(super) static ARRIVALS: Distribution = Distribution {
    given: &["rate"],
    ..floats(13, &[], &["{L}(rate) / max(-log(v), 5.960464477539063e-8)"])
};

fn all() -> [&'static Distribution; 14] {
    [
        &UNIFORM,
        &NORMAL,
        &LOG_NORMAL,
        &CAUCHY,
        &EXPONENTIAL,
        &GEOMETRIC,
        &BERNOULLI,
        &BERNOULLI_OF,
        &WHOLE,
        &DROPOUT,
        &NORMAL_OF[0],
        &NORMAL_OF[1],
        &NORMAL_OF[2],
        &ARRIVALS,
    ]
}

/// Bits of a float's whole numbers that have no gaps.
pub(super) fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::Float16 => 11,
        DType::BFloat16 => 8,
        DType::Float64 => 53,
        _ => 24,
    }
}

/// The text of a kernel: its numbers are how many dims there are and which distribution it is.
pub(super) fn write(kernel: &Generated) -> String {
    let distribution = all()[kernel.numbers[1] as usize];
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let mut dtypes = kernel.dtypes.iter().copied();
    for (name, dtype) in distribution.given.iter().zip(dtypes.by_ref()) {
        text.operand("in", name, dtype, &own);
    }
    let results: Vec<DType> = dtypes.collect();
    for (nth, &dtype) in results.iter().enumerate() {
        text.operand("out", &format!("y{nth}"), dtype, &own);
    }
    let first = results[0];
    let own_lane = if first == DType::Float64 { Lane::F64 } else { Lane::F32 };
    for (name, lane) in [("seed", Lane::I64), ("offset", Lane::I64)] {
        text.line(format_args!("scalar {name}: {lane}"));
    }
    for (name, lane) in distribution.parameters {
        text.line(format_args!("scalar {name}: {}", lane.unwrap_or(own_lane)));
    }
    write_sources(&mut text, &own, first);
    for (nth, (&dtype, result)) in results.iter().zip(distribution.results).enumerate() {
        let stored = lane(dtype).unwrap_or(own_lane);
        let result = result.replace("{T}", &first.to_string()).replace("{L}", own_lane.name());
        text.line(format_args!("y{nth} = {stored}({result})"));
    }
    text.kernel(kernel.name)
}

/// The random numbers that all distributions know; what is not used is not computed.
fn write_sources(text: &mut Text, own: &[String], dtype: DType) {
    text.line(format_args!("index = {}", row_index(own)));
    for word in 0..4 {
        text.line(format_args!("w{word} = random(seed, offset, index, {word})"));
    }
    text.line(format_args!("wide = (w0 << 31) | (w1 >> 1)"));
    text.line(format_args!("share = f64(w0) * 2.3283064365386963e-10f64"));
    if dtype == DType::Float64 {
        let unit = "1.1102230246251565e-16f64";
        text.line(format_args!("long = (w0 << 21) | (w1 >> 11)"));
        text.line(format_args!("other = (w2 << 21) | (w3 >> 11)"));
        text.line(format_args!("u = f64(long) * {unit}"));
        text.line(format_args!("v = f64(long + 1) * {unit}"));
        text.line(format_args!("turn = f64(other) * {unit} * 6.283185307179586f64"));
    } else {
        // Narrow floats are drawn as float32 and rounded, so that small ones have all of their digits.
        text.line(format_args!("u = f32(w0 >> 8) * 5.960464477539063e-8"));
        text.line(format_args!("v = f32(w0 + 1) * 2.3283064365386963e-10"));
        text.line(format_args!("turn = f32(w1) * 1.4629180792671596e-9"));
    }
    text.line(format_args!("z = sqrt(-2 * log(v)) * cos(turn)"));
}
