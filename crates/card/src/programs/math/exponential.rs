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

/// `(e^r - 1 - r) / r^2` for r of half a power of two, up or down, to 2^-28 of `e^r`.
const CURVE: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_745, 0.001_381_454];

/// ln 2 in two numbers: the first has so few bits that whole multiples of it are exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// Counterpart of `WHOLE`, which is for f64.
const WHOLE_F32: f32 = 12_582_912.0;

/// Past these, there is infinity and nothing.
const ENDS: [f32; 2] = [-104.0, 89.0];
/// `e^x` is normal up to here, up or down.
const NEAR: f32 = 87.0;

/// Within one unit of the last place, at half of what f64 takes: softmax and attention wait for it.
#[inline(always)]
pub(in super::super) fn exp(x: f32) -> f32 {
    exp_and_rest(x)[0]
}

/// Returns true if all `e^x` are normal numbers, with some to spare. Not `all`, which would branch at each
/// one.
#[inline(always)]
pub(in super::super) fn are_near(numbers: impl Iterator<Item = f32>) -> bool {
    numbers.fold(true, |are_near, x| are_near & (x.abs() < NEAR))
}

/// `e^x` with the bits of [`exp`], for numbers that [`are_near`]: the power of two is added to the exponent.
#[inline(always)]
pub(in super::super) fn exp_near(x: f32) -> f32 {
    let (shifted, past_one) = parted(x);
    f32::from_bits((1.0 + past_one).to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// `e^x`, and what was rounded off.
#[inline(always)]
pub(super) fn exp_and_rest(x: f32) -> [f32; 2] {
    let x = if x < ENDS[0] { ENDS[0] } else { x };
    let x = if x > ENDS[1] { ENDS[1] } else { x };
    let (shifted, past_one) = parted(x);
    let near_one = 1.0 + past_one;
    // In two steps: the whole power may be out of range where the result is not.
    let power = (shifted.to_bits() as i32).wrapping_sub(WHOLE_F32.to_bits() as i32);
    let half = power >> 1;
    let [first, second] = [power_of_two(half), power_of_two(power.wrapping_sub(half))];
    let scaled = |near: f32| near * first * second;
    [scaled(near_one), scaled(past_one - (near_one - 1.0))]
}

/// `e^x` is a power of two, which is `WHOLE_F32` less than the first number, of one more than the
/// second.
#[inline(always)]
fn parted(x: f32) -> (f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, WHOLE_F32);
    let whole = shifted - WHOLE_F32;
    let rest = whole.mul_add(-LN_2[1], whole.mul_add(-LN_2[0], x));
    let mut curve = CURVE[4];
    for at in (0..4).rev() {
        curve = curve.mul_add(rest, CURVE[at]);
    }
    (shifted, (rest * rest).mul_add(curve, rest))
}

#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
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
