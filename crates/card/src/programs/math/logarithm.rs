//! Logarithms, and those of sums.

use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

use super::exponential::{exp_wide, exp2_wide};
use super::{polynomial, polynomial_f32};

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

/// `(log(1 + f) - f + f^2 / 2) / f^3` for 1 + f between the roots of 1/2 and 2.
const CURVE: [f32; 8] = [
    0.333_333_3,
    -0.250_008_17,
    0.200_012_4,
    -0.166_234_94,
    0.142_016_37,
    -0.131_589_1,
    0.127_616_9,
    -0.076_376_066,
];

/// ln 2 in two numbers: the first has so few bits that whole multiples of it are exact.
const LN_2_PARTS: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// The bits of the root of 1/2 in f32, and how its numbers are made.
const ROOT_OF_HALF_F32: u32 = 0x3f35_04f3;
const BIAS_F32: u32 = 127;
const FRACTION_BITS_F32: u32 = 23;
const SHIFTED_BITS_F32: u32 = 0x4b00_0000;
const SHIFTED_F32: f32 = 8_388_608.0;

/// Factor that makes subnormal numbers normal.
const UP: f32 = 33_554_432.0;
const UP_EXPONENT: f32 = 25.0;

/// Returns true if the logarithm of x is a finite number, and x is normal.
#[inline(always)]
pub(in super::super) fn is_near(x: f32) -> bool {
    (f32::MIN_POSITIVE..f32::INFINITY).contains(&x)
}

/// The natural logarithm, within one unit of the last place.
#[inline(always)]
pub(in super::super) fn log(x: f32) -> f32 {
    let is_small = x < f32::MIN_POSITIVE;
    let normal = if is_small { x * UP } else { x };
    let log = log_scaled(normal, if is_small { UP_EXPONENT } else { 0.0 });
    let above = if x == f32::INFINITY { x } else { log };
    let below = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { above } else { below }
}

/// The logarithm with the bits of [`log`], for numbers that are near.
#[inline(always)]
pub(in super::super) fn log_near(x: f32) -> f32 {
    log_scaled(x, 0.0)
}

/// The logarithm of a normal number over two to the power of `up`.
#[inline(always)]
fn log_scaled(x: f32, up: f32) -> f32 {
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(ROOT_OF_HALF_F32).wrapping_add(BIAS_F32 << FRACTION_BITS_F32);
    let exponent = shifted >> FRACTION_BITS_F32;
    let taken = exponent.wrapping_sub(BIAS_F32) << FRACTION_BITS_F32;
    let part = f32::from_bits(bits.wrapping_sub(taken)) - 1.0;
    let whole = f32::from_bits(exponent | SHIFTED_BITS_F32) - (SHIFTED_F32 + BIAS_F32 as f32) - up;

    let square = part * part;
    let low = square.mul_add(-0.5, whole * LN_2_PARTS[1]);
    let low = (square * part).mul_add(polynomial_f32(&CURVE, part), low);
    let high = whole.mul_add(LN_2_PARTS[0], part);
    let rounded_off = whole.mul_add(LN_2_PARTS[0], -high) + part;
    high + (rounded_off + low)
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
