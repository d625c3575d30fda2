//! Functions of single elements.
//!
//! In the f32 lane, those that networks use most (`exp`, `exp2`, `log`, `sigmoid`, `silu`, `gelu`,
//! `gelu_tanh`, `tanh`, `erf`) are computed in f32, within one unit of the last place. The others are
//! computed in f64 and rounded once, so that they are within 0.52 units, also where a shorter way in f32
//! would cancel. Every one is straight code of multiplications, additions and selections: the loops around
//! them become vector code on every tier. `mul_add` is exact on all of them, by an instruction or by a
//! call, so all give the same bits.
//!
//! Functions that few kernels use, and the whole f64 lane, are scalar functions in [`scalar`].

pub(super) mod angle;
pub(super) mod error;
pub(super) mod exponential;
pub(super) mod gate;
pub(super) mod hyperbolic;
pub(super) mod integer;
pub(super) mod logarithm;
pub(super) mod normal;
pub(super) mod power;
mod quotient;
mod reduction;
pub(super) mod scalar;
pub(super) mod wave;

/// 1.5 * 2^52: added to a number of up to 2^51, it leaves it rounded to a whole one, whose lowest
/// bits are those of the sum.
const WHOLE: f64 = 6_755_399_441_055_744.0;

/// The polynomial with these coefficients, lowest first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    for at in (0..N - 1).rev() {
        sum = sum.mul_add(x, coefficients[at]);
    }
    sum
}

/// Counterpart of [`polynomial`], which is for f64.
#[inline(always)]
fn polynomial_f32<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for at in (0..N - 1).rev() {
        sum = sum.mul_add(x, coefficients[at]);
    }
    sum
}

/// The larger one, but the first if it is NaN.
#[inline(always)]
fn at_least(x: f64, least: f64) -> f64 {
    if x < least { least } else { x }
}

/// The smaller one, but the first if it is NaN.
#[inline(always)]
fn at_most(x: f64, most: f64) -> f64 {
    if x > most { most } else { x }
}

#[cfg(test)]
mod tests;
