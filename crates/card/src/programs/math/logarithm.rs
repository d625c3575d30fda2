//! Logarithms, and those of sums.

use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

use super::exponential::{exp_wide, exp2_wide};
use super::polynomial;

/// `log(1 + f) / f` for 1 + f between the roots of 1/2 and 2, to 2^-35 of it.
const LOG: [f64; 13] = [
    0.999_999_999_985_956_1,
    -0.500_000_000_294_132_7,
    0.333_333_343_337_834_54,
    -0.249_999_940_799_834_34,
    0.199_998_811_408_736_74,
    -0.166_669_434_140_391_04,
    0.142_909_870_413_382_9,
    -0.124_974_848_472_334_57,
    0.110_050_824_406_844_85,
    -0.099_228_526_380_682_64,
    0.100_332_065_942_273_24,
    -0.099_008_617_584_585_5,
    0.053_628_886_612_638_02,
];

/// The bits of the root of 1/2.
const ROOT_OF_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const BIAS: u64 = 1023;
const FRACTION_BITS: u32 = 52;
/// 2^52, whose lowest bits are a whole number that is added to it.
const SHIFTED_BITS: u64 = 0x4330_0000_0000_0000;
const SHIFTED: f64 = 4_503_599_627_370_496.0;

/// f and e with x = 2^e (1 + f), for normal numbers above zero; anything for others.
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    // Biased, so that the shift is one of unsigned numbers, which every CPU has for vectors.
    let shifted = bits.wrapping_sub(ROOT_OF_HALF).wrapping_add(BIAS << FRACTION_BITS);
    let exponent = shifted >> FRACTION_BITS;
    let part = f64::from_bits(bits.wrapping_sub(exponent.wrapping_sub(BIAS) << FRACTION_BITS));
    let whole = f64::from_bits(exponent | SHIFTED_BITS) - (SHIFTED + BIAS as f64);
    (part - 1.0, whole)
}

/// Returns `log`, or its limit or NaN where the logarithm of `x` is no finite number.
#[inline(always)]
pub(super) fn with_edges(x: f64, log: f64) -> f64 {
    let above = if x == f64::INFINITY { x } else { log };
    let below = if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if x > 0.0 { above } else { below }
}

/// The natural logarithm of a number that is no subnormal f64.
#[inline(always)]
pub(super) fn log_wide(x: f64) -> f64 {
    let (part, whole) = split(x);
    with_edges(x, whole.mul_add(LN_2, part * polynomial(&LOG, part)))
}

/// `log(1 + x)`. What the sum rounds away is added again: it counts where x is small.
#[inline(always)]
pub(super) fn log1p_wide(x: f64) -> f64 {
    let sum = 1.0 + x;
    let lost = x - (sum - 1.0);
    let log = log_wide(sum);
    if x < 1.0 { log + lost } else { log }
}

#[inline(always)]
pub(in super::super) fn log(x: f32) -> f32 {
    log_wide(x.into()) as f32
}

#[inline(always)]
pub(in super::super) fn log2(x: f32) -> f32 {
    let x = f64::from(x);
    let (part, whole) = split(x);
    with_edges(x, (part * polynomial(&LOG, part)).mul_add(LOG2_E, whole)) as f32
}

#[inline(always)]
pub(in super::super) fn log10(x: f32) -> f32 {
    (log_wide(x.into()) * LOG10_E) as f32
}

#[inline(always)]
pub(in super::super) fn log1p(x: f32) -> f32 {
    let result = log1p_wide(x.into()) as f32;
    if x == 0.0 { x } else { result }
}

/// `log(1 + e^x)`.
#[inline(always)]
pub(in super::super) fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    let above = if x < 0.0 { 0.0 } else { x };
    (log1p_wide(exp_wide(-x.abs())) + above) as f32
}

/// `log(e^a + e^b)`.
#[inline(always)]
pub(in super::super) fn log_add_exp(a: f32, b: f32) -> f32 {
    let wide_a = f64::from(a);
    let wide_b = f64::from(b);
    let larger = if wide_a > wide_b { wide_a } else { wide_b };
    let result = log1p_wide(exp_wide(-(wide_a - wide_b).abs())) + larger;
    if a == b && a.is_infinite() { a } else { result as f32 }
}

/// `log2(2^a + 2^b)`.
#[inline(always)]
pub(in super::super) fn log_add_exp2(a: f32, b: f32) -> f32 {
    let wide_a = f64::from(a);
    let wide_b = f64::from(b);
    let larger = if wide_a > wide_b { wide_a } else { wide_b };
    let smaller = exp2_wide(-(wide_a - wide_b).abs());
    // Whole for two equal ones: not by way of the natural logarithm.
    let sum = 1.0 + smaller;
    let (part, whole) = split(sum);
    let log = (part * polynomial(&LOG, part) + (smaller - (sum - 1.0))).mul_add(LOG2_E, whole);
    let result = log + larger;
    if a == b && a.is_infinite() { a } else { result as f32 }
}
