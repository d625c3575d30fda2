//! One number to the power of another.

use std::f64::consts::LOG2_E;

use super::exponential::exp2_wide;
use super::logarithm::{split, with_edges};
use super::{WHOLE, polynomial};

/// Polynomial of the logarithm, to 2^-49: the power multiplies its error.
const LOG: [f64; 18] = [
    0.999_999_999_999_998_2,
    -0.499_999_999_999_981_57,
    0.333_333_333_335_645_2,
    -0.250_000_000_010_169_53,
    0.199_999_999_501_124_32,
    -0.166_666_664_877_083_31,
    0.142_857_183_356_699_64,
    -0.125_000_144_761_086_78,
    0.111_109_537_671_798_28,
    -0.099_993_851_205_125_43,
    0.090_940_308_575_832_14,
    -0.083_477_805_547_144_33,
    0.076_637_204_210_673_13,
    -0.069_568_635_491_817_62,
    0.066_988_708_476_288_31,
    -0.074_278_215_614_791_89,
    0.070_882_029_388_284_32,
    -0.033_375_951_584_251_38,
];

/// Bound from which on every f32 is an even number.
const EVEN: f64 = 16_777_216.0;

#[inline(always)]
pub(in super::super) fn pow(base: f32, exponent: f32) -> f32 {
    let x = f64::from(base);
    let y = f64::from(exponent);
    let magnitude = x.abs();
    let (part, whole) = split(magnitude);
    let log = (part * polynomial(&LOG, part)).mul_add(LOG2_E, whole);
    let log = with_edges(magnitude, log);
    // One to any power, and anything to the power of zero, is one, NaN and infinities too.
    let product = if (log == 0.0) | (y == 0.0) { 0.0 } else { y * log };
    let result = exp2_wide(product);

    let shifted = y + WHOLE;
    let is_small = y.abs() < EVEN;
    let is_whole = (shifted - WHOLE == y) | (y.abs() >= EVEN);
    let is_odd = is_small & is_whole & (shifted.to_bits() & 1 == 1);
    let is_rootless = (x < 0.0) & (x != f64::NEG_INFINITY) & !is_whole;
    let signed = if is_odd { result.copysign(x) } else { result };
    (if is_rootless { f64::NAN } else { signed }) as f32
}

/// The length of a vector: an infinite side makes it infinite, whatever the other is.
#[inline(always)]
pub(in super::super) fn hypot(a: f32, b: f32) -> f32 {
    let wide_a = f64::from(a);
    let wide_b = f64::from(b);
    let result = wide_a.mul_add(wide_a, wide_b * wide_b).sqrt() as f32;
    if a.is_infinite() | b.is_infinite() { f32::INFINITY } else { result }
}
