use std::fmt;

/// `SEN169_FP16`: the card's 16-bit float, one sign, six exponent and nine fraction bits.
///
/// Bias 31, no subnormals, one merged NaN-Infinity (exponent and fraction all ones), rounding to
/// nearest with ties away from zero. Every other code is normal, the lowest binade included, so
/// that 2^-31 itself, which would be the code of zero, does not exist.
///
/// ```
/// use spyre_numerics::Sen169;
/// assert_eq!(Sen169::from_f32(0.1).to_f32(), 0.099_975_586);
/// assert!(Sen169::from_f32(f32::INFINITY).is_special());
/// ```
///
/// `to_f32` and `from_f32` are the published conversions. A device that is used meets the special in
/// three more ways, and [`Specials`](crate::Specials) says where: [`Sen169::to_ordered_f32`],
/// [`Sen169::from_computed`] and [`Sen169::saturated`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Sen169(u16);

const SIGN: u16 = 0x8000;
const SPECIAL: u16 = 0x7FFF;
/// Difference of the exponent fields of f32 and SEN169.
const REBIAS: u32 = 127 - 31;

impl Sen169 {
    /// The largest finite number: 2^33 - 2^24.
    pub const MAX: Self = Self(0x7FFE);
    /// The smallest positive number: 2^-31 (1 + 2^-9).
    pub const MIN_POSITIVE: Self = Self(0x0001);
    /// The merged NaN and infinity.
    pub const SPECIAL: Self = Self(SPECIAL);

    /// The number with this code.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The code of this number.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns true if this is the merged NaN-Infinity, of either sign.
    pub const fn is_special(self) -> bool {
        self.0 & SPECIAL == SPECIAL
    }

    /// The exact value; the special becomes a quiet NaN of the same sign.
    #[inline(always)]
    pub const fn to_f32(self) -> f32 {
        let magnitude = (self.0 & SPECIAL) as u32;
        let sign = ((self.0 & SIGN) as u32) << 16;
        let normal = (magnitude << 14) + (REBIAS << 23);
        let finite = if magnitude == 0 { 0 } else { normal };
        let bits = if magnitude == SPECIAL as u32 { 0x7FC0_0000 } else { finite };
        f32::from_bits(bits | sign)
    }

    /// The value by which codes are in order: the special is past every number of its sign, an
    /// infinity.
    ///
    /// ```
    /// # use spyre_numerics::Sen169;
    /// assert_eq!(Sen169::from_bits(0xFFFF).to_ordered_f32(), f32::NEG_INFINITY);
    /// assert_eq!(Sen169::MAX.to_ordered_f32(), Sen169::MAX.to_f32());
    /// ```
    #[inline(always)]
    pub const fn to_ordered_f32(self) -> f32 {
        let magnitude = (self.0 & SPECIAL) as u32;
        let sign = ((self.0 & SIGN) as u32) << 16;
        let normal = (magnitude << 14) + (REBIAS << 23);
        let finite = if magnitude == 0 { 0 } else { normal };
        let bits = if magnitude == SPECIAL as u32 { 0x7F80_0000 } else { finite };
        f32::from_bits(bits | sign)
    }

    /// The nearest number, ties away from zero; what is too large, infinite or NaN is special.
    #[inline(always)]
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let code = rounded(bits & 0x7FFF_FFFF);
        let code = if code > SPECIAL as u32 { SPECIAL as u32 } else { code };
        Self(code as u16 | (bits >> 16) as u16 & SIGN)
    }

    /// The nearest number to a result; as [`Sen169::from_f32`], but NaN is special without a sign,
    /// because which sign a NaN has is the CPU's choice.
    ///
    /// ```
    /// # use spyre_numerics::Sen169;
    /// assert_eq!(Sen169::from_computed(-f32::NAN).to_bits(), 0x7FFF);
    /// assert_eq!(Sen169::from_computed(-1.0 / 0.0).to_bits(), 0xFFFF);
    /// ```
    #[inline(always)]
    pub const fn from_computed(value: f32) -> Self {
        let bits = value.to_bits();
        let code = rounded(bits & 0x7FFF_FFFF);
        let code = if code > SPECIAL as u32 { SPECIAL as u32 } else { code };
        // As signed integers, numbers with a sign are up to minus infinity, and NaN is behind it.
        let sign = if bits as i32 <= f32::NEG_INFINITY.to_bits() as i32 { SIGN } else { 0 };
        Self(code as u16 | sign)
    }

    /// The nearest number; what is too large or infinite is the largest one, and NaN is special.
    ///
    /// ```
    /// # use spyre_numerics::Sen169;
    /// assert_eq!(Sen169::saturated(f32::INFINITY), Sen169::MAX);
    /// assert!(Sen169::saturated(f32::NAN).is_special());
    /// ```
    #[inline(always)]
    pub const fn saturated(value: f32) -> Self {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let code = rounded(magnitude);
        let code = if code > Self::MAX.0 as u32 { Self::MAX.0 as u32 } else { code };
        // The special is the one behind the largest.
        let code = code + (magnitude > f32::INFINITY.to_bits()) as u32;
        Self(code as u16 | (bits >> 16) as u16 & SIGN)
    }
}

/// The code of an f32's magnitude; past the largest number, infinite or NaN it is past the special,
/// or there.
#[inline(always)]
const fn rounded(magnitude: u32) -> u32 {
    ((magnitude + 0x2000) >> 14).saturating_sub(REBIAS << 9)
}

impl fmt::Debug for Sen169 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sen169({:#06x} = {self})", self.0)
    }
}

impl fmt::Display for Sen169 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_f32() {
        for bits in 0..=u16::MAX {
            let number = Sen169::from_bits(bits);
            assert_eq!(Sen169::from_f32(number.to_f32()), number);
        }
    }

    #[test]
    fn limits_have_their_published_values() {
        assert_eq!(Sen169::MAX.to_f32(), 8_573_157_376.0);
        assert_eq!(Sen169::MIN_POSITIVE.to_f32(), 2f32.powi(-31) * (1.0 + 2f32.powi(-9)));
        assert_eq!(Sen169::from_f32(2f32.powi(-31)).to_bits(), 0);
    }

    #[test]
    fn the_next_f32_after_the_last_finite_is_special() {
        assert_eq!(Sen169::from_f32(f32::from_bits(0x4FFF_9FFF)), Sen169::MAX);
        assert!(Sen169::from_f32(f32::from_bits(0x4FFF_A000)).is_special());
    }
}
