//! Numbers to integers, as PyTorch's CPU casts them on x86-64.
//!
//! In range a cast truncates toward zero. Outside it C++ leaves the result open; these are the
//! results that the instructions behind PyTorch give, so that a tensor casts alike everywhere.

/// A float that can be cast to any integer type.
pub(crate) trait Truncate: Copy {
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_u64(self) -> u64;
}

impl Truncate for f64 {
    #[inline(always)]
    fn to_i32(self) -> i32 {
        let in_range = self > -2_147_483_649.0 && self < 2_147_483_648.0;
        if in_range { self as i32 } else { i32::MIN }
    }

    #[inline(always)]
    fn to_i64(self) -> i64 {
        if self < TWO_63 { self as i64 } else { i64::MIN }
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        let low = self.to_i64() as u64;
        let high = (self - TWO_63).to_i64() as u64 ^ (1 << 63);
        if self >= TWO_63 { high } else { low }
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_gives_the_instructions_answer() {
        assert_eq!(3e9.to_i32(), i32::MIN);
        assert_eq!(f64::NAN.to_i32(), i32::MIN);
        assert_eq!(f64::NAN.to_i64(), i64::MIN);
        assert_eq!(f64::NEG_INFINITY.to_i64(), i64::MIN);
        assert_eq!((-1.0).to_u64(), u64::MAX);
        assert_eq!(1.8e19.to_u64(), 18_000_000_000_000_000_000);
        assert_eq!(f64::INFINITY.to_u64(), 0);
        assert_eq!(f64::NAN.to_u64(), 1 << 63);
    }

    #[test]
    fn what_fits_is_truncated() {
        assert_eq!((-1.9).to_i32(), -1);
        assert_eq!((-2_147_483_648.5).to_i32(), i32::MIN);
        assert_eq!(2_147_483_647.5.to_i32(), i32::MAX);
        assert_eq!(4_294_967_296.7.to_i64(), 1 << 32);
    }
}
