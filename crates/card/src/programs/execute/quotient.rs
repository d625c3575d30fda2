//! Many numbers over one: by its inverse, which rounds to the same bits.
//!
//! The inverse is rounded once. A product with it is off by two units of the last place at most; what
//! it leaves of the number corrects it to within one, and the second time to the quotient as a
//! division rounds it (Markstein's theorem). That holds as long as nothing on the way underflows or
//! overflows, so other numbers are divided.

use std::ops::Range;

/// The bits of numbers from 2^-63 up to 2^65.
const OVER: Range<u32> = 0x2000_0000..0x6000_0000;
/// 2^-40 and 2^40.
const BY: [f32; 2] = [9.094_947e-13, 1.099_511_6e12];

/// Returns true if numbers that are near can be divided by way of this one's inverse.
#[inline(always)]
pub(in crate::programs) fn can_invert(by: f32) -> bool {
    (BY[0]..=BY[1]).contains(&by.abs())
}

/// Returns true if a number can be divided so.
#[inline(always)]
pub(in crate::programs) fn is_near(number: f32) -> bool {
    number.abs().to_bits().wrapping_sub(OVER.start) < OVER.end - OVER.start
}

/// Quotient of a number that [is near](is_near) and one that [has an inverse](can_invert).
#[inline(always)]
pub(in crate::programs) fn divided_near(over: f32, by: f32) -> f32 {
    let inverse = 1.0 / by;
    let rough = over * inverse;
    let close = rough.mul_add(-by, over).mul_add(inverse, rough);
    close.mul_add(-by, over).mul_add(inverse, close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[f32], by: f32) {
        for &number in numbers {
            assert!(is_near(number) && can_invert(by), "{number:e} over {by:e}");
            let quotient = divided_near(number, by);
            assert_eq!(quotient.to_bits(), (number / by).to_bits(), "{number:e} over {by:e}");
        }
    }

    #[test]
    fn quotients_are_those_of_a_division() {
        let mut state = 7_u64;
        let mut one_of = |bits: Range<u32>| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f32::from_bits(bits.start + (state >> 33) as u32 % (bits.end - bits.start))
        };
        for _ in 0..10_000 {
            let by = one_of(BY[0].to_bits()..BY[1].to_bits());
            let numbers: [f32; 256] = std::array::from_fn(|_| one_of(OVER));
            check(&numbers, by);
            check(&numbers.map(|number| -number), by);
        }
    }

    #[test]
    fn fractions_that_are_hard_to_round_are_right() {
        // The significands next to a power of two, over each other.
        let near = |exponent: u32| {
            (0..64).map(move |step| f32::from_bits(((127 + exponent) << 23) - 32 + step))
        };
        let numbers: Vec<f32> = (0..3).flat_map(near).collect();
        numbers.iter().for_each(|&by| check(&numbers, by));
    }

    #[test]
    fn what_is_too_far_is_seen() {
        let far = [0.0, -0.0, 1e-45, 3e-38, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        for number in far {
            assert!(!is_near(number) && !can_invert(number), "{number:e}");
        }
        assert!(is_near(-1.5) && can_invert(-1.5));
    }
}
