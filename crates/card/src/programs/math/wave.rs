//! Sine, cosine and tangent.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::{WHOLE, polynomial};

/// `(sin(r) / r - 1) / r^2` in r^2, for r of up to a quarter of pi.
const SINE: [f64; 4] = [
    -0.166_666_666_638_162_46,
    0.008_333_331_863_234_704,
    -0.000_198_400_817_333_105_92,
    2.724_938_051_439_783e-6,
];

/// `(cos(r) - 1) / r^2` in r^2.
const COSINE: [f64; 5] = [
    -0.499_999_999_999_629_96,
    0.041_666_666_636_930_54,
    -0.001_388_888_505_356_266_2,
    2.479_985_234_285_593e-5,
    -2.723_633_919_164_82e-7,
];

/// Half of pi, in two numbers.
const HALF_PI: [f64; 2] = [FRAC_PI_2, 6.123_233_995_736_766e-17];

/// Up to here, two numbers for half of pi are enough. Larger arguments go by way of the scalar
/// function, whose pi has a thousand bits.
const FAR: f32 = 68_719_476_736.0;

/// Returns true if a number is too large for the functions below.
#[inline(always)]
pub(in super::super) fn is_far(x: f32) -> bool {
    x.abs() >= FAR
}

/// Sine and cosine of what is left of x beside whole quarters of a turn, and how many those are.
#[inline(always)]
fn split(x: f64) -> (f64, f64, u64) {
    let shifted = x.mul_add(FRAC_2_PI, WHOLE);
    let quarters = shifted - WHOLE;
    let rest = quarters.mul_add(-HALF_PI[1], quarters.mul_add(-HALF_PI[0], x));
    let square = rest * rest;
    let sine = rest * square.mul_add(polynomial(&SINE, square), 1.0);
    let cosine = square.mul_add(polynomial(&COSINE, square), 1.0);
    (sine, cosine, shifted.to_bits())
}

/// The one of two that a number of quarters asks for, with its sign.
#[inline(always)]
fn rotated(even: f64, odd: f64, quarters: u64) -> f64 {
    let value = if quarters & 1 == 0 { even } else { odd };
    f64::from_bits(value.to_bits() ^ ((quarters >> 1) << 63))
}

#[inline(always)]
pub(in super::super) fn sin(x: f32) -> f32 {
    let (sine, cosine, quarters) = split(x.into());
    rotated(sine, cosine, quarters) as f32
}

#[inline(always)]
pub(in super::super) fn cos(x: f32) -> f32 {
    let (sine, cosine, quarters) = split(x.into());
    // A quarter ahead of the sine.
    rotated(sine, cosine, quarters.wrapping_add(1)) as f32
}

#[inline(always)]
pub(in super::super) fn tan(x: f32) -> f32 {
    let (sine, cosine, quarters) = split(x.into());
    let is_even = quarters & 1 == 0;
    let above = if is_even { sine } else { -cosine };
    let below = if is_even { cosine } else { sine };
    (above / below) as f32
}
