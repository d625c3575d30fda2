//! Powers of e and of two.

use std::f64::consts::LOG2_E;

use super::reduction::Whole;
use super::{WHOLE, at_least, at_most, polynomial, polynomial_f32};

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

/// `(e^r - 1 - r) / r^2` for r of half a power of two, up or down, to 2^-28 of `e^r`.
const CURVE: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_745, 0.001_381_454];

/// ln 2 in two numbers: the first has so few bits that whole multiples of it are exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// Past these, there is infinity and nothing.
const ENDS: [f32; 2] = [-104.0, 89.0];
/// `e^x` is normal up to here, up or down.
const NEAR: f32 = 87.0;

/// Within one unit of the last place, at half of what f64 takes: softmax and attention wait for it.
#[inline(always)]
pub(in super::super) fn exp(x: f32) -> f32 {
    let is_nothing = x < ENDS[0];
    // CPUs take long for what underflows, and masks make many of these.
    let x = if is_nothing { 0.0 } else { x };
    let x = if x > ENDS[1] { ENDS[1] } else { x };
    let (power, past_one) = parted(x);
    let result = power.scale_far(1.0 + past_one);
    if is_nothing { 0.0 } else { result }
}

/// Returns true if `e^x` is a normal number, with some to spare.
#[inline(always)]
pub(in super::super) fn is_near(x: f32) -> bool {
    x.abs() < NEAR
}

/// `e^x` with the bits of [`exp`], for numbers that are [near](is_near): the power of two is added to the exponent.
#[inline(always)]
pub(in super::super) fn exp_near(x: f32) -> f32 {
    let (power, past_one) = parted(x);
    power.scale(1.0 + past_one)
}

/// `e^x` is a power of two of one more than the second.
#[inline(always)]
fn parted(x: f32) -> (Whole, f32) {
    let power = Whole::nearest_to_power_of_e(x);
    let whole = power.value();
    let rest = whole.mul_add(-LN_2[1], whole.mul_add(-LN_2[0], x));
    (power, (rest * rest).mul_add(polynomial_f32(&CURVE, rest), rest))
}

/// Computed in f64: powers of ten are made of it, and whole ones are to be exact.
#[inline(always)]
pub(in super::super) fn exp2(x: f32) -> f32 {
    exp2_wide(x.into()) as f32
}

#[inline(always)]
pub(in super::super) fn expm1(x: f32) -> f32 {
    let result = expm1_wide(x.into()) as f32;
    if x == 0.0 { x } else { result }
}
