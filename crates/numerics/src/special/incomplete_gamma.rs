use std::f64::consts::PI;

use super::gamma::{lgamma, stirling_rest};

/// Least parameter for which the integral is summed over its peak, whose width only grows as the
/// square root: series would need ever more terms.
const LARGE: f64 = 100.0;

/// A series that has not ended by then will not: its argument is no number.
const MOST_TERMS: usize = 10_000;

/// The lower incomplete gamma function over the whole one.
pub fn igamma(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(upper) => 1.0 - upper,
        None if a >= LARGE => by_integral(a, x).0,
        None if x < a + 1.0 => by_series(a, x),
        None => 1.0 - by_fraction(a, x),
    }
}

/// The upper incomplete gamma function over the whole one.
pub fn igammac(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(upper) => upper,
        None if a >= LARGE => by_integral(a, x).1,
        None if x < a + 1.0 => 1.0 - by_series(a, x),
        None => by_fraction(a, x),
    }
}

/// The upper one where it needs no computing.
fn edge(a: f64, x: f64) -> Option<f64> {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        Some(f64::NAN)
    } else if a == 0.0 {
        Some(if x > 0.0 { 0.0 } else { f64::NAN })
    } else if x == 0.0 {
        Some(1.0)
    } else if a.is_infinite() {
        Some(if x.is_infinite() { f64::NAN } else { 1.0 })
    } else if x.is_infinite() {
        Some(0.0)
    } else {
        None
    }
}

/// `x^a e^-x / gamma(a)`, for parameters below `LARGE`.
fn factor(a: f64, x: f64) -> f64 {
    libm::exp(a * libm::log(x) - x - lgamma(a))
}

fn by_series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = 1.0 / a;
    let mut below = a;
    for _ in 0..MOST_TERMS {
        below += 1.0;
        term *= x / below;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum * factor(a, x)
}

/// The continued fraction of the upper one, by Lentz's rule.
fn by_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut result = d;
    for n in 1..MOST_TERMS {
        let n = n as f64;
        let step = n * (a - n);
        b += 2.0;
        d = step * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + step / c;
        c = if c.abs() < TINY { TINY } else { c };
        result *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    result * factor(a, x)
}

/// Nodes and weights of Gauss's rule over 40 points, those above zero.
const NODES: [(f64, f64); 20] = [
    (0.038_772_417_506_050_82, 0.077_505_947_978_424_8),
    (0.116_084_070_675_255_21, 0.077_039_818_164_247_97),
    (0.192_697_580_701_371_1, 0.076_110_361_900_626_24),
    (0.268_152_185_007_253_7, 0.074_723_169_057_968_26),
    (0.341_994_090_825_758_5, 0.072_886_582_395_804_06),
    (0.413_779_204_371_605, 0.070_611_647_391_286_78),
    (0.483_075_801_686_178_7, 0.067_912_045_815_233_9),
    (0.549_467_125_095_128_2, 0.064_804_013_456_601_04),
    (0.612_553_889_667_980_2, 0.061_306_242_492_928_94),
    (0.671_956_684_614_179_6, 0.057_439_769_099_391_55),
    (0.727_318_255_189_927_1, 0.053_227_846_983_936_82),
    (0.778_305_651_426_519_4, 0.048_695_807_635_072_23),
    (0.824_612_230_833_311_7, 0.043_870_908_185_673_27),
    (0.865_959_503_212_259_5, 0.038_782_167_974_472_016),
    (0.902_098_806_968_874_3, 0.033_460_195_282_547_844),
    (0.932_812_808_278_676_5, 0.027_937_006_980_023_4),
    (0.957_916_819_213_791_7, 0.022_245_849_194_166_96),
    (0.977_259_949_983_774_3, 0.016_421_058_381_907_89),
    (0.990_726_238_699_457, 0.010_498_284_531_152_813),
    (0.998_237_709_710_559_3, 0.004_521_277_098_533_191),
];

/// Both, lower first. From x outwards the integrand falls like a normal distribution: a few
/// deviations further it is nothing.
fn by_integral(a: f64, x: f64) -> (f64, f64) {
    let peak = a - 1.0;
    let deviation = peak.sqrt();
    let is_above = x > peak;
    let end = if is_above {
        (peak + 11.5 * deviation).max(x + 6.0 * deviation)
    } else {
        (peak - 7.5 * deviation).min(x - 5.0 * deviation).max(0.0)
    };
    let integrand = |t: f64| libm::exp(peak * log1p_minus(t / peak - 1.0));
    let middle = (x + end) / 2.0;
    let half = (end - x).abs() / 2.0;
    let pair = |&(node, weight): &(f64, f64)| {
        weight * (integrand(middle - half * node) + integrand(middle + half * node))
    };
    let sum: f64 = NODES.iter().map(pair).sum();
    let scale = libm::exp(-stirling_rest(peak)) / (2.0 * PI * peak).sqrt();
    let part = (sum * half * scale).min(1.0);
    if is_above { (1.0 - part, part) } else { (part, 1.0 - part) }
}

/// `log(1 + d) - d`, which cancels where d is small.
fn log1p_minus(d: f64) -> f64 {
    if d.abs() > 0.3 {
        return libm::log1p(d) - d;
    }
    // With s = d / (2 + d): log(1 + d) = 2 (s + s^3 / 3 + ...), and 2 s - d = -s d.
    let s = d / (2.0 + d);
    let square = s * s;
    let series = (1..12).rev().fold(0.0, |sum, k| (sum + 1.0 / f64::from(2 * k + 1)) * square);
    2.0 * s * series - s * d
}
