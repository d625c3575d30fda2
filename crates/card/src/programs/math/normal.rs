//! GELU: a number times the normal distribution's cumulative function, within one unit of the last
//! place.
//!
//! Small values are computed as they are, not as one minus a large one: that would cancel. For a number of
//! magnitude a, it is `e^-y` where y is a simple quadratic function of a and something small. The quadratic
//! function is computed of a rounded to so few bits that it is exact; the slope mends that.

use super::polynomial_f32;
use super::reduction::{LOWERED, RAISED, Whole};

/// Up to here, the shorter form is right.
const NEAR: f32 = 4.5;
/// Past this, nothing is left below zero.
const GONE: f32 = 15.0;

/// 1.5 * 2^15: added to a small number and subtracted again, it leaves it rounded to 2^-8.
const TO_EIGHT_BITS: f32 = 49_152.0;

/// The quadratic function: its factors of `a^2` and a.
const SQUARE: f32 = -7.0 / 16.0;
const LINEAR: f32 = -43.0 / 64.0;

/// `log(erfc(a / 2^(1/2)))` without the quadratic function, in `a - MIDDLE`.
const MIDDLE: f32 = 2.0;
const MIDDLE_VALUE: f32 = 0.003_712_846_2;
const REST: [f32; 11] = [
    0.048_659_474,
    -0.005_360_440_4,
    -0.009_892_677,
    0.001_642_561_4,
    -0.000_242_438_21,
    2.861_324_9e-5,
    -1.801_532_9e-6,
    -3.011_996_3e-7,
    1.517_543_9e-7,
    -3.257_718_7e-8,
    3.044_644_3e-9,
];

/// `log(a e^(a^2 / 2) erfc(a / 2^(1/2))) + 1/4` in `1 / a^2`, from `NEAR` on.
const FAR_REST: [f32; 7] =
    [0.024_208_62, -0.999_987_24, 2.497_676, -12.118_367, 76.909_84, -450.900_8, 1_500.566];

#[inline(always)]
pub(in super::super) fn is_near(x: f32) -> bool {
    x.abs() < NEAR
}

#[inline(always)]
pub(in super::super) fn gelu(x: f32) -> f32 {
    let far = gelu_far(x);
    if is_near(x) { gelu_near(x) } else { far }
}

#[inline(always)]
pub(in super::super) fn gelu_near(x: f32) -> f32 {
    let magnitude = x.abs();
    let rounded = rounded_to_few_bits(magnitude);
    let slope = rounded.mul_add(SQUARE, LINEAR);
    let quadratic = rounded * slope;
    let whole = Whole::nearest_to_power_of_e(quadratic);
    let mended_slope = magnitude.mul_add(SQUARE, slope);
    let rest = (magnitude - rounded).mul_add(mended_slope, MIDDLE_VALUE);
    let place = magnitude - MIDDLE;
    let rest = polynomial_f32(&REST, place).mul_add(place, rest);
    let [high, low] = whole.past_one(quadratic, rest);

    // Half of it is what a number below zero keeps, and what one above zero loses. `1 + high` is exact.
    let scale = whole.power_of_two(-1);
    let scaled = magnitude * scale;
    let is_above = x.is_sign_positive();
    let left = if is_above { magnitude } else { scaled };
    let right = if is_above { 1.0 - scale } else { 1.0 + high };
    let more = if is_above { -low - high } else { low };
    left.mul_add(right, scaled * more).copysign(x)
}

/// GELU from `NEAR` on, where `a e^(a^2 / 2) erfc(a / 2^(1/2))` is nearly constant.
#[inline(always)]
fn gelu_far(x: f32) -> f32 {
    let magnitude = if x.abs() > GONE { GONE } else { x.abs() };
    let rounded = rounded_to_few_bits(magnitude);
    let quadratic = (-0.5 * rounded).mul_add(rounded, -0.25);
    let whole = Whole::nearest_to_power_of_e(quadratic);
    let rest = polynomial_f32(&FAR_REST, 1.0 / (magnitude * magnitude));
    let slope = -0.5 * (magnitude + rounded);
    let rest = (magnitude - rounded).mul_add(slope, rest);
    let [high, low] = whole.past_one(quadratic, rest);
    let scale = whole.power_of_two(RAISED - 1);
    let kept = scale.mul_add(high + low, scale);
    let above = if x > 0.0 { x } else { 0.0 };
    let result = kept.mul_add(-LOWERED, above);
    if x == f32::NEG_INFINITY { f32::NAN } else { result }
}

#[inline(always)]
fn rounded_to_few_bits(x: f32) -> f32 {
    (x + TO_EIGHT_BITS) - TO_EIGHT_BITS
}
