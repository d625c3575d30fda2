//! Hyperbolic functions and their inverses.

use super::exponential::{exp_wide, expm1_wide};
use super::logarithm::log1p_wide;
use super::quotient::quotient;
use super::reduction::Whole;

/// Bound from which on `tanh` is one in f32.
const FLAT: f32 = 9.5;

/// `(1 - e^-2x) / (1 + e^-2x)`, within one unit of the last place. Near zero the power of two is one, and
/// nothing cancels.
#[inline(always)]
pub(in super::super) fn tanh(x: f32) -> f32 {
    let magnitude = if x.abs() > FLAT { FLAT } else { x.abs() };
    let whole = Whole::nearest_to_power_of_e(-2.0 * magnitude);
    let [high, low] = whole.past_one(-2.0 * magnitude, 0.0);
    let past_one = high + low;
    let past_one_rest = (high - past_one) + low;
    let scale = whole.power_of_two(0);
    let most = 1.0 - scale;
    let top = scale.mul_add(-past_one, most);
    let most_rest = (1.0 - most) - scale;
    let top_rest = scale.mul_add(-past_one, most - top) + scale.mul_add(-past_one_rest, most_rest);
    let by = 2.0 - top;
    let by_rest = ((2.0 - by) - top) - top_rest;
    quotient([top, top_rest], [by, by_rest]).copysign(x)
}

#[inline(always)]
pub(in super::super) fn sinh(x: f32) -> f32 {
    let grown = expm1_wide(f64::from(x).abs());
    ((0.5 * (grown + grown / (grown + 1.0))) as f32).copysign(x)
}

#[inline(always)]
pub(in super::super) fn cosh(x: f32) -> f32 {
    let power = exp_wide(f64::from(x).abs());
    (0.5 * (power + 1.0 / power)) as f32
}

#[inline(always)]
pub(in super::super) fn asinh(x: f32) -> f32 {
    let magnitude = f64::from(x).abs();
    let square = magnitude * magnitude;
    let sum = magnitude + square / (1.0 + (1.0 + square).sqrt());
    let sum = if magnitude == f64::INFINITY { magnitude } else { sum };
    (log1p_wide(sum) as f32).copysign(x)
}

#[inline(always)]
pub(in super::super) fn acosh(x: f32) -> f32 {
    let above = f64::from(x) - 1.0;
    let result = log1p_wide(above + (above * (above + 2.0)).sqrt()) as f32;
    if x >= 1.0 { result } else { f32::NAN }
}

#[inline(always)]
pub(in super::super) fn atanh(x: f32) -> f32 {
    let magnitude = f64::from(x).abs();
    ((0.5 * log1p_wide(2.0 * magnitude / (1.0 - magnitude))) as f32).copysign(x)
}
