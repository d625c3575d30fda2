//! Powers of e and of two.

use std::f64::consts::LOG2_E;

use super::{WHOLE, at_least, at_most, polynomial};

/// `(2^r - 1) / r` for r of -0.5 to 0.5, to 2^-32 of it.
const POWER: [f64; 7] = [
    0.693_147_180_581_566_4,
    0.240_226_509_200_438_3,
    0.055_504_107_276_327_75,
    0.009_618_057_037_131_676,
    0.001_333_366_942_733_050_6,
    0.000_154_613_300_133_495_56,
    1.525_272_410_815_199_4e-5,
];

/// Past this power of two, up or down, no f32 is left: what is computed need not be right.
const FAR: f64 = 1000.0;

/// `2^n` and `2^r - 1`, where n is whole and y = n + r.
#[inline(always)]
fn split(y: f64) -> (f64, f64) {
    let y = at_most(at_least(y, -FAR), FAR);
    let shifted = y + WHOLE;
    let rest = y - (shifted - WHOLE);
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (scale, rest * polynomial(&POWER, rest))
}

/// `2^y`, between 2^-1000 and 2^1000.
#[inline(always)]
pub(super) fn exp2_wide(y: f64) -> f64 {
    let (scale, rest) = split(y);
    scale.mul_add(rest, scale)
}

/// `e^x`, between 2^-1000 and 2^1000.
#[inline(always)]
pub(super) fn exp_wide(x: f64) -> f64 {
    exp2_wide(x * LOG2_E)
}

/// `e^x - 1`, up to 2^1000.
#[inline(always)]
pub(super) fn expm1_wide(x: f64) -> f64 {
    let (scale, rest) = split(x * LOG2_E);
    scale.mul_add(rest, scale - 1.0)
}

#[inline(always)]
pub(in super::super) fn exp(x: f32) -> f32 {
    exp_wide(x.into()) as f32
}

#[inline(always)]
pub(in super::super) fn exp2(x: f32) -> f32 {
    exp2_wide(x.into()) as f32
}

#[inline(always)]
pub(in super::super) fn expm1(x: f32) -> f32 {
    let result = expm1_wide(x.into()) as f32;
    if x == 0.0 { x } else { result }
}
