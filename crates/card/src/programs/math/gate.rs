//! Functions that let a number through, more or less.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use super::error::erfc_wide;
use super::exponential::{exp_and_rest, exp_wide};

/// Within one unit of the last place, at half of what f64 takes. The power is at most one; the quotient
/// is mended by what it leaves, and by what was rounded off before.
#[inline(always)]
pub(in super::super) fn sigmoid(x: f32) -> f32 {
    let [power, power_rest] = exp_and_rest(-x.abs());
    let (over, over_rest) = if x < 0.0 { (power, power_rest) } else { (1.0, 0.0) };
    let by = 1.0 + power;
    let by_rest = power - (by - 1.0) + power_rest;
    let share = 1.0 / by;
    let quotient = over * share;
    let left = quotient.mul_add(-by, over) + quotient.mul_add(-by_rest, over_rest);
    left.mul_add(share, quotient)
}

#[inline(always)]
pub(in super::super) fn silu(x: f32) -> f32 {
    gated(x, 1.0 + exp_wide(-f64::from(x)))
}

/// x times the normal distribution's cumulative function, whose small end is not one minus the
/// large one: that would cancel.
#[inline(always)]
pub(in super::super) fn gelu(x: f32) -> f32 {
    let wide = f64::from(x);
    let tail = 0.5 * erfc_wide(wide.abs() * FRAC_1_SQRT_2, 0.5 * wide * wide);
    let below = if wide < 0.0 { tail } else { 1.0 - tail };
    let result = (wide * below) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { result }
}

/// `0.5 x (1 + tanh(u))` is x over `1 + e^(-2 u)`.
#[inline(always)]
pub(in super::super) fn gelu_tanh(x: f32) -> f32 {
    const SCALE: f64 = -2.0 * 0.5 * SQRT_2 * FRAC_2_SQRT_PI;
    let wide = f64::from(x);
    let cubic = wide * (wide * wide).mul_add(0.044_715, 1.0);
    gated(x, 1.0 + exp_wide(SCALE * cubic))
}

/// A number over what grows without end below zero: PyTorch has no value at the end.
#[inline(always)]
fn gated(x: f32, by: f64) -> f32 {
    let result = (f64::from(x) / by) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { result }
}
