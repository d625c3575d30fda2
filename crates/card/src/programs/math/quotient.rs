//! Quotients in f32 of two numbers that are known to more than its bits.

use super::polynomial_f32;

/// `1 / x` for x of 1 to 2, to 2^-9.
const INVERSE: [f32; 4] = [2.828_422_8, -2.939_341_3, 1.331_022_5, -0.221_837_09];

/// The quotient of two sums of a number and what was rounded off it; the divisor is from 1 to 2.
///
/// A polynomial and a step of Newton's for the inverse: dividing takes longer. What the product
/// with it leaves mends the result.
#[inline(always)]
pub(super) fn quotient([top, top_rest]: [f32; 2], [by, by_rest]: [f32; 2]) -> f32 {
    let rough = polynomial_f32(&INVERSE, by);
    let inverse = by.mul_add(-rough, 1.0).mul_add(rough, rough);
    let quotient = top * inverse;
    let left = by.mul_add(-quotient, top) + by_rest.mul_add(-quotient, top_rest);
    left.mul_add(inverse, quotient)
}
