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

/// Numbers that are looked at together: so few that they are still in registers or near them.
const TOGETHER: usize = 256;

/// Divides each number of a row.
#[inline(always)]
pub(in crate::programs) fn divide(row: &mut [f32], by: f32) {
    let can_invert = (BY[0]..=BY[1]).contains(&by.abs());
    for some in row.chunks_mut(TOGETHER) {
        if can_invert && are_near(some) {
            divide_near(some, by);
        } else {
            some.iter_mut().for_each(|over| *over /= by);
        }
    }
}

/// Returns true if all can be divided by way of an inverse. A loop without an early exit, for vector code.
#[inline(always)]
fn are_near(numbers: &[f32]) -> bool {
    let mut furthest = 0;
    for number in numbers {
        furthest = furthest.max(number.abs().to_bits().wrapping_sub(OVER.start));
    }
    furthest < OVER.end - OVER.start
}

#[inline(always)]
fn divide_near(row: &mut [f32], by: f32) {
    let inverse = 1.0 / by;
    for over in row {
        let rough = *over * inverse;
        let close = rough.mul_add(-by, *over).mul_add(inverse, rough);
        *over = close.mul_add(-by, *over).mul_add(inverse, close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[f32], by: f32) {
        let mut row = numbers.to_vec();
        divide(&mut row, by);
        for (quotient, number) in row.iter().zip(numbers) {
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
            let numbers: [f32; TOGETHER] = std::array::from_fn(|_| one_of(OVER));
            assert!(are_near(&numbers));
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
    fn what_is_too_far_is_divided() {
        let far = [0.0, -0.0, 1e-45, 3e-38, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, 1.5];
        let all = far.map(|by| [by, -by]);
        for &by in all.iter().flatten() {
            check(&far, by);
        }
        let mut row = [f32::NAN, 1.0];
        divide(&mut row, 3.0);
        assert!(row[0].is_nan() && row[1] == 1.0 / 3.0);
        divide(&mut row, f32::NAN);
        assert!(row[1].is_nan());
    }
}
