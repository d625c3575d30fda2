//! Powers of e in f32: a power of two, times one more than a small number.

use std::f32::consts::LOG2_E;

use super::polynomial_f32;

/// Counterpart of [`WHOLE`](super::WHOLE), which is for f64.
const WHOLE: f32 = 12_582_912.0;

/// ln 2 in two numbers: the first has so few bits that whole multiples of it are exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// `(e^r - 1 - r) / r^2` for r of -0.385 to 0.385, to 2^-30 of `e^r`.
const CURVE: [f32; 6] =
    [0.5, 0.166_666_39, 0.041_666_39, 0.008_338_874, 0.001_394_362_3, 0.000_173_676_83];

/// Factor that keeps very small results normal until they are rounded, and its inverse.
pub(super) const RAISED: i32 = 64;
pub(super) const LOWERED: f32 = 1.0 / 18_446_744_073_709_551_616.0;

/// A whole number, from which a power of two is made.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// The number and `WHOLE`.
    shifted: f32,
}

impl Whole {
    /// The power of two that is nearest to `e^y`.
    #[inline(always)]
    pub(super) fn nearest_to_power_of_e(y: f32) -> Self {
        Self { shifted: y.mul_add(LOG2_E, WHOLE) }
    }

    #[inline(always)]
    pub(super) fn value(self) -> f32 {
        self.shifted - WHOLE
    }

    /// Two to the power of the number and `more`; the sum is that of a normal f32.
    #[inline(always)]
    pub(super) fn power_of_two(self, more: i32) -> f32 {
        let bias = ((127 + more) as u32) << 23;
        f32::from_bits((self.shifted.to_bits() << 23).wrapping_add(bias))
    }

    /// A number from 1/2 to 2, times two to the power of the number; the result is normal.
    #[inline(always)]
    pub(super) fn scale(self, near_one: f32) -> f32 {
        f32::from_bits(near_one.to_bits().wrapping_add(self.shifted.to_bits() << 23))
    }

    /// Like [`scale`](Self::scale), also where the result is subnormal, zero or infinite, of powers from
    /// -190 to 190. In two steps: the power may be out of range where the result is not.
    #[inline(always)]
    pub(super) fn scale_far(self, near_one: f32) -> f32 {
        let is_low = self.shifted < WHOLE;
        let more = if is_low { RAISED } else { -RAISED };
        let back = if is_low { LOWERED } else { 1.0 / LOWERED };
        near_one * self.power_of_two(more) * back
    }

    /// `e^(y + rest) / 2^n - 1` as a large and a small number, neither of them rounded to the
    /// other's sum; `rest` is small.
    #[inline(always)]
    pub(super) fn past_one(self, y: f32, rest: f32) -> [f32; 2] {
        let whole = self.value();
        let high = whole.mul_add(-LN_2[0], y);
        let low = whole.mul_add(-LN_2[1], rest);
        let both = high + low;
        [high, (both * both).mul_add(polynomial_f32(&CURVE, both), low)]
    }
}
