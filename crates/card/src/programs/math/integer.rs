//! Functions of whole numbers.

/// Wraps; a negative power is what a whole number keeps of the fraction, as in PyTorch.
pub(in super::super) fn power(base: i64, exponent: i64) -> i64 {
    let Ok(mut exponent) = u64::try_from(exponent) else {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    };
    let mut result = 1_i64;
    let mut square = base;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent /= 2;
    }
    result
}

/// The greatest common divisor: zero of two zeros. That of two smallest numbers wraps.
pub(in super::super) fn gcd(a: i64, b: i64) -> i64 {
    let mut a = a.unsigned_abs();
    let mut b = b.unsigned_abs();
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.cast_signed()
}
