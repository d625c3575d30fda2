//! Functions that let a number through, more or less.
//!
//! All are within one unit of the last place. Each has a shorter form for numbers that are near zero,
//! with the same bits.

use super::quotient::quotient;
use super::reduction::{LOWERED, RAISED, Whole};

/// Up to here, up or down, `e^x` is normal, with some to spare.
const NEAR: f32 = 80.0;
/// Past this, nothing is left of `e^x`, also times x.
const GONE: f32 = -130.0;

#[inline(always)]
pub(in super::super) fn is_near(x: f32) -> bool {
    x.abs() < NEAR
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(in super::super) fn sigmoid(x: f32) -> f32 {
    let far = if x > 0.0 { 1.0 } else { far_below(x, 0.0, 1.0) };
    if is_near(x) { sigmoid_near(x) } else { far }
}

#[inline(always)]
pub(in super::super) fn sigmoid_near(x: f32) -> f32 {
    gated(x, 1.0, -x.abs(), 0.0)
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(in super::super) fn silu(x: f32) -> f32 {
    let far = if x > 0.0 { x } else { far_below(x, 0.0, x) };
    if is_near(x) { silu_near(x) } else { far }
}

#[inline(always)]
pub(in super::super) fn silu_near(x: f32) -> f32 {
    gated(x, x, -x.abs(), 0.0)
}

/// `by / (1 + e^-|u|)` for an x above zero, else `by / (1 + e^|u|)`. The power, of the sum `-|u|` of two
/// numbers, is at most one.
#[inline(always)]
fn gated(x: f32, by: f32, u: f32, u_rest: f32) -> f32 {
    let whole = Whole::nearest_to_power_of_e(u);
    let [high, low] = whole.past_one(u, u_rest);
    let past_one = high + low;
    let scale = whole.power_of_two(0);
    let power = scale.mul_add(past_one, scale);
    let power_rest = scale.mul_add(past_one, scale - power);
    let sum = 1.0 + power;
    let sum_rest = power - (sum - 1.0) + power_rest;
    let is_above = x.is_sign_positive();
    let over = if is_above { 1.0 } else { power };
    let over_rest = if is_above { 0.0 } else { power_rest };
    let top = by * over;
    let top_rest = by.mul_add(over_rest, by.mul_add(over, -top));
    quotient([top, top_rest], [sum, sum_rest]).copysign(by)
}

/// `by * e^u` of very small powers of the sum `u` of two numbers. PyTorch has no value at the end.
#[inline(always)]
fn far_below(u: f32, u_rest: f32, by: f32) -> f32 {
    let end = if by == f32::NEG_INFINITY { f32::NAN } else { by };
    let u = if u < GONE { GONE } else { u };
    let by = if by < GONE { GONE } else { end };
    let whole = Whole::nearest_to_power_of_e(u);
    let [high, low] = whole.past_one(u, u_rest);
    let scale = by * whole.power_of_two(RAISED);
    let result = scale.mul_add(high + low, scale) * LOWERED;
    if end.is_nan() { end } else { result }
}

/// `2 (2 / pi)^(1/2)`, and that times 0.044715, each in two numbers. The first one's few bits make the
/// rest of a sum with it exact.
const LINEAR: [f32; 2] = [1.595_703_1, 6.599_66e-5];
const CUBIC: [f32; 2] = [0.071_354_814, 2.398_832_5e-9];

/// Past this, `gelu_tanh` is zero or all of x.
const TANH_ENDS: f32 = 15.0;
/// Up to here, its power is normal.
const TANH_NEAR: f32 = 9.0;

#[inline(always)]
pub(in super::super) fn is_gelu_tanh_near(x: f32) -> bool {
    x.abs() < TANH_NEAR
}

/// `0.5 x (1 + tanh(u))` is x over `1 + e^(-2 u)`.
#[inline(always)]
pub(in super::super) fn gelu_tanh(x: f32) -> f32 {
    let magnitude = if x.abs() > TANH_ENDS { TANH_ENDS } else { x.abs() };
    let [grown, rest] = doubled_cubic(magnitude);
    let far = if x > 0.0 { x } else { far_below(-grown, -rest, x) };
    if is_gelu_tanh_near(x) { gelu_tanh_near(x) } else { far }
}

#[inline(always)]
pub(in super::super) fn gelu_tanh_near(x: f32) -> f32 {
    let [grown, rest] = doubled_cubic(x.abs());
    gated(x, x, -grown, -rest)
}

/// `2 u`, and what was rounded off: the power multiplies its error.
#[inline(always)]
fn doubled_cubic(x: f32) -> [f32; 2] {
    let square = x * x;
    let square_rest = x.mul_add(x, -square);
    let slope = square.mul_add(CUBIC[0], LINEAR[0]);
    let rounded_off = square.mul_add(CUBIC[0], LINEAR[0] - slope);
    let slope_rest = square_rest.mul_add(CUBIC[0], square.mul_add(CUBIC[1], LINEAR[1]));
    let grown = x * slope;
    [grown, x.mul_add(slope_rest + rounded_off, x.mul_add(slope, -grown))]
}
