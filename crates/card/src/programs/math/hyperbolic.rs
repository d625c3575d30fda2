//! Hyperbolic functions and their inverses.

use super::at_most;
use super::exponential::{exp_wide, expm1_wide};
use super::logarithm::log1p_wide;

/// Bound from which on `tanh` is one, also in f64.
const FLAT: f64 = 20.0;

#[inline(always)]
pub(in super::super) fn tanh(x: f32) -> f32 {
    let grown = expm1_wide(2.0 * at_most(f64::from(x).abs(), FLAT));
    ((grown / (grown + 2.0)) as f32).copysign(x)
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
