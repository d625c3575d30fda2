//! Functions of f32 against those of f64 that the host's own library has.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use spyre_artifact::{BinaryOp, UnaryOp};
use spyre_numerics::{DataFormat, Scalar, Tier};

use super::exponential::{exp, exp_near, is_near};
use super::{gate, logarithm, normal};
use crate::programs::execute::elementwise::Arithmetic;
use crate::programs::execute::vector::at;

/// Function, its reference, and the error that it may have, in units of the last place.
type Expected = (UnaryOp, fn(f64) -> f64, f64);

/// Computed in f64 and rounded once.
const ROUNDED: f64 = 0.52;

/// Computed in f32.
const NEAR: f64 = 1.0;

const FUNCTIONS: [Expected; 27] = [
    (UnaryOp::Exp, f64::exp, NEAR),
    (UnaryOp::Exp2, f64::exp2, ROUNDED),
    (UnaryOp::Expm1, f64::exp_m1, ROUNDED),
    (UnaryOp::Log, f64::ln, NEAR),
    (UnaryOp::Log2, f64::log2, ROUNDED),
    (UnaryOp::Log10, f64::log10, ROUNDED),
    (UnaryOp::Log1p, f64::ln_1p, ROUNDED),
    (UnaryOp::Softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), ROUNDED),
    (UnaryOp::Sin, f64::sin, ROUNDED),
    (UnaryOp::Cos, f64::cos, ROUNDED),
    (UnaryOp::Tan, f64::tan, ROUNDED),
    (UnaryOp::Asin, f64::asin, ROUNDED),
    (UnaryOp::Acos, f64::acos, ROUNDED),
    (UnaryOp::Atan, f64::atan, ROUNDED),
    (UnaryOp::Tanh, f64::tanh, NEAR),
    (UnaryOp::Sinh, f64::sinh, ROUNDED),
    (UnaryOp::Cosh, f64::cosh, ROUNDED),
    (UnaryOp::Asinh, libm::asinh, ROUNDED),
    (UnaryOp::Acosh, f64::acosh, ROUNDED),
    (UnaryOp::Atanh, libm::atanh, ROUNDED),
    (UnaryOp::Erf, libm::erf, NEAR),
    (UnaryOp::Erfc, libm::erfc, ROUNDED),
    (UnaryOp::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), NEAR),
    (UnaryOp::Silu, |x| x / (1.0 + (-x).exp()), NEAR),
    (UnaryOp::Gelu, |x| x * (0.5 * libm::erfc(-x * FRAC_1_SQRT_2)), NEAR),
    (UnaryOp::GeluTanh, gelu_tanh, NEAR),
    (UnaryOp::Rsqrt, |x| 1.0 / x.sqrt(), 1.5),
];

fn gelu_tanh(x: f64) -> f64 {
    let grown = SQRT_2 * FRAC_2_SQRT_PI * (x + 0.044_715 * x * x * x);
    x / (1.0 + (-grown).exp())
}

/// Numbers whose results were farthest off; both signs are tried.
const HARD: [f32; 6] = [0.309_659_7, 1.364_425, 5.172_094, 0.383_310_53, 2.755_88, 1.173_234_3e-38];

/// Every exponent with many fractions and both signs, the usual range densely, and the edges.
fn samples() -> Vec<f32> {
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 9
    };
    let mut samples = vec![0.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1.0];
    samples.extend([std::f32::consts::PI, std::f32::consts::FRAC_PI_2, 5.421_01e33, 16_367_173.0]);
    for exponent in 0..255_u32 {
        samples.extend((0..48).map(|_| f32::from_bits(exponent << 23 | random())));
    }
    samples.extend((0..20_000).map(|at| at as f32 / 1000.0));
    let negative: Vec<f32> = samples.iter().map(|x| -x).collect();
    samples.extend(negative);
    samples
}

/// Distance of a result from an exact one, in units of the exact one's last place.
fn ulps(found: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if found.to_bits() == rounded.to_bits() || found.is_nan() && exact.is_nan() {
        return 0.0;
    }
    if found.is_nan() || exact.is_nan() || found.is_infinite() || rounded.is_infinite() {
        return f64::INFINITY;
    }
    if exact == 0.0 {
        return f64::INFINITY; // another zero, or none
    }
    let exponent = (exact.abs().log2().floor() as i32).max(-126);
    (f64::from(found) - exact).abs() / 2_f64.powi(exponent - 23)
}

fn computed(tier: Tier, op: UnaryOp, source: &[f32]) -> Vec<f32> {
    let mut values = source.to_vec();
    at(tier, || f32::unary(op, &mut values[..])).expect("it takes f32");
    values
}

fn tiers() -> impl Iterator<Item = Tier> {
    Tier::ALL.into_iter().filter(|tier| tier.is_available())
}

fn bits(results: &[f32]) -> Vec<u32> {
    let canonical = |x: &f32| if x.is_nan() { f32::NAN } else { *x };
    results.iter().map(|x| canonical(x).to_bits()).collect()
}

#[test]
fn functions_are_within_their_bounds() {
    let mut source = samples();
    source.extend(HARD.iter().flat_map(|&x| [x, -x]));
    for (op, exact, most) in FUNCTIONS {
        let results = computed(Tier::detected(), op, &source);
        for (&x, &found) in source.iter().zip(&results) {
            let expected = exact(x.into());
            let off = ulps(found, exact(x.into()));
            assert!(off <= most, "{op}({x:e}) is {found:e}, not {expected:e}: {off} ulps");
        }
    }
}

#[test]
fn every_tier_gives_the_same_bits() {
    let source: Vec<f32> = samples().into_iter().step_by(7).collect();
    for (op, ..) in FUNCTIONS {
        let best = bits(&computed(Tier::detected(), op, &source));
        for tier in tiers() {
            assert!(bits(&computed(tier, op, &source)) == best, "{op} at {tier}");
        }
    }
    let (left, right): (Vec<f32>, Vec<f32>) =
        source.iter().zip(source.iter().rev()).map(|(&a, &b)| (a, b)).unzip();
    for op in [BinaryOp::Pow, BinaryOp::Atan2, BinaryOp::Hypot, BinaryOp::LogAddExp] {
        let run = |tier| {
            let mut target = vec![0.0; left.len()];
            at(tier, || f32::binary(op, [&left, &right], &mut target)).expect("it takes f32");
            bits(&target)
        };
        let best = run(Tier::detected());
        assert!(tiers().all(|tier| run(tier) == best), "{op}");
    }
}

/// Bases and exponents, each with each.
fn check_pairs(op: BinaryOp, values: &[f32], exact: fn(f64, f64) -> f64) {
    let pairs = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b)));
    let (left, right): (Vec<f32>, Vec<f32>) = pairs.unzip();
    let mut results = vec![0.0; left.len()];
    f32::binary(op, [&left, &right], &mut results).expect("it takes f32");
    for ((a, b), found) in left.into_iter().zip(right).zip(results) {
        let expected = exact(a.into(), b.into());
        let off = ulps(found, expected);
        assert!(off <= ROUNDED, "{op}({a:e}, {b:e}) is {found:e}, not {expected:e}: {off} ulps");
    }
}

#[test]
fn functions_of_two_are_rounded_once() {
    let mut values: Vec<f32> = samples().into_iter().step_by(131).collect();
    values.extend([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 33_554_432.0]);
    values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 16_777_215.0, -16_777_215.0]);
    values.extend([1.000_000_1, 0.999_999_9, -1.000_000_1, 1e-45, -1e-45, f32::MAX, f32::MIN]);
    check_pairs(BinaryOp::Pow, &values, f64::powf);
    check_pairs(BinaryOp::Atan2, &values, f64::atan2);
    check_pairs(BinaryOp::Hypot, &values, f64::hypot);
    check_pairs(BinaryOp::LogAddExp, &values, |a, b| {
        if a == b && a.is_infinite() {
            a
        } else if a.is_nan() || b.is_nan() {
            f64::NAN
        } else {
            a.max(b) + (-(a - b).abs()).exp().ln_1p()
        }
    });
    check_pairs(BinaryOp::LogAddExp2, &values, |a, b| {
        if a == b && a.is_infinite() {
            a
        } else if a.is_nan() || b.is_nan() {
            f64::NAN
        } else if a == b {
            a + 1.0
        } else {
            a.max(b) + (-(a - b).abs()).exp2().ln_1p() * std::f64::consts::LOG2_E
        }
    });
}

/// A code's place among all of its format, so that neighbours differ by one.
fn place(code: u16) -> i32 {
    let magnitude = i32::from(code & 0x7fff);
    if code & 0x8000 == 0 { magnitude } else { -magnitude }
}

fn code(format: DataFormat, value: Scalar) -> u16 {
    let bytes = value.encode(format).expect("a float of 16 bits");
    u16::from_le_bytes([bytes[0], bytes[1]])
}

#[test]
fn all_numbers_of_16_bits_give_the_nearest_or_its_neighbour() {
    for format in [DataFormat::IeeeFp16, DataFormat::BFloat16, DataFormat::Sen169Fp16] {
        let decode = |code: u16| Scalar::decode(format, &code.to_le_bytes()).expect("two bytes");
        let source: Vec<f32> = (0..=u16::MAX).map(|code| decode(code).to_f64() as f32).collect();
        for (op, exact, _) in FUNCTIONS {
            let results = computed(Tier::detected(), op, &source);
            let mut nearest = 0;
            for (&x, &found) in source.iter().zip(&results) {
                let expected = exact(x.into());
                let found = code(format, Scalar::Single(found));
                let best = code(format, Scalar::Double(expected));
                let both_nan = decode(found).to_f64().is_nan() && decode(best).to_f64().is_nan();
                let off = (place(found) - place(best)).abs();
                nearest += usize::from(off == 0 || both_nan);
                assert!(off <= 1 || both_nan, "{op}({x:e}) as {format:?} is {off} off");
            }
            assert!(nearest >= 65_500, "{op} as {format:?}: {nearest} are the nearest");
        }
    }
}

/// A function in its shorter form, and where that is right; in full.
type Forms = (fn(f32) -> f32, fn(f32) -> bool, fn(f32) -> f32);

#[test]
fn shorter_forms_give_the_same_bits() {
    let forms: [Forms; 6] = [
        (exp_near, is_near, exp),
        (logarithm::log_near, logarithm::is_near, logarithm::log),
        (gate::sigmoid_near, gate::is_near, gate::sigmoid),
        (gate::silu_near, gate::is_near, gate::silu),
        (gate::gelu_tanh_near, gate::is_gelu_tanh_near, gate::gelu_tanh),
        (normal::gelu_near, normal::is_near, normal::gelu),
    ];
    for (near, is_near, any) in forms {
        let samples: Vec<f32> = samples().into_iter().filter(|&x| is_near(x)).collect();
        assert!(samples.len() > 1000, "{} samples", samples.len());
        for x in samples {
            assert_eq!(near(x).to_bits(), any(x).to_bits(), "of {x:e}");
        }
        assert!(!is_near(f32::NAN) && !is_near(f32::NEG_INFINITY));
    }
}

#[test]
fn floats_up_to_64_are_within_their_bounds() {
    // A prime number of steps: each bit of a fraction takes both values.
    let source: Vec<f32> = (0..0x4280_0000_u32).step_by(4001).map(f32::from_bits).collect();
    let source: Vec<f32> = source.iter().flat_map(|&x| [x, -x]).collect();
    for (op, exact, most) in FUNCTIONS.into_iter().filter(|(.., most)| *most == NEAR) {
        let results = computed(Tier::detected(), op, &source);
        for (&x, &found) in source.iter().zip(&results) {
            let off = ulps(found, exact(x.into()));
            assert!(off <= most, "{op}({x:e}) is {found:e}: {off} ulps");
        }
    }
}

#[test]
fn powers_are_the_same_by_either_way() {
    let near: Vec<f32> = samples().into_iter().filter(|&x| is_near(x)).collect();
    assert!(near.len() > 1000, "{} samples", near.len());
    for x in near {
        assert_eq!(exp_near(x).to_bits(), exp(x).to_bits(), "e^{x}");
    }
    assert!(!is_near(f32::NAN));
    assert!(!is_near(f32::NEG_INFINITY));
}
