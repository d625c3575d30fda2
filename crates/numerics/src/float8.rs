use crate::DataFormat;

/// One of torch's five 8-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float8Kind {
    /// `float8_e4m3fn`: bias 7, largest 448, no infinity; what is larger becomes 448.
    E4M3Fn,
    /// `float8_e4m3fnuz`: bias 8, largest 240, one NaN (0x80), no negative zero.
    E4M3FnUz,
    /// `float8_e5m2`: bias 15, largest 57344, infinities.
    E5M2,
    /// `float8_e5m2fnuz`: bias 16, largest 57344, one NaN (0x80), no negative zero.
    E5M2FnUz,
    /// `float8_e8m0fnu`: 2^(code - 127), no sign, no zero, one NaN (0xFF).
    E8M0FnU,
}

impl Float8Kind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::E4M3Fn, Self::E4M3FnUz, Self::E5M2, Self::E5M2FnUz, Self::E8M0FnU];

    /// The format of elements of this kind.
    pub fn format(self) -> DataFormat {
        match self {
            Self::E4M3Fn => DataFormat::Sen143Fp8,
            Self::E4M3FnUz => DataFormat::Fp8E4M3FnUz,
            Self::E5M2 => DataFormat::Fp8E5M2,
            Self::E5M2FnUz => DataFormat::Sen152Fp8,
            Self::E8M0FnU => DataFormat::Fp8E8M0FnU,
        }
    }
}

/// An 8-bit float, of the kind `KIND` as an index into [`Float8Kind::ALL`].
///
/// ```
/// use spyre_numerics::Float8;
/// assert_eq!(Float8::<0>::from_f32(448.0).to_bits(), 0x7E); // e4m3fn
/// assert_eq!(Float8::<2>::from_bits(0x7C).to_f32(), f32::INFINITY); // e5m2
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Float8<const KIND: usize>(u8);

impl<const KIND: usize> Float8<KIND> {
    const SPEC: Spec = Spec::of(Float8Kind::ALL[KIND]);

    /// The number with this code.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The code of this number.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The exact value.
    #[inline(always)]
    pub const fn to_f32(self) -> f32 {
        Self::SPEC.decode(self.0 as u32)
    }

    /// The nearest number, ties to even; too large gives what torch 2.13 gives: the largest
    /// number in `e4m3fn`, infinity in `e5m2`, NaN in the others.
    #[inline(always)]
    pub const fn from_f32(value: f32) -> Self {
        Self(Self::SPEC.encode(value))
    }
}

/// The parameters of a kind.
#[derive(Clone, Copy)]
struct Spec {
    kind: Float8Kind,
    mantissa_bits: u32,
    bias: u32,
    /// The largest finite magnitude.
    max_code: u32,
    /// Code of a magnitude past it.
    overflow: u32,
    /// Code of a NaN.
    nan: u32,
    /// True if zero has no sign. In a kind with signed numbers, 0x80 is then the only NaN.
    unsigned_zero: bool,
}

impl Spec {
    const fn of(kind: Float8Kind) -> Self {
        let (mantissa_bits, bias, max_code, overflow, nan, unsigned_zero) = match kind {
            Float8Kind::E4M3Fn => (3, 7, 0x7E, 0x7E, 0x7F, false),
            Float8Kind::E4M3FnUz => (3, 8, 0x7F, 0x80, 0x80, true),
            Float8Kind::E5M2 => (2, 15, 0x7B, 0x7C, 0x7F, false),
            Float8Kind::E5M2FnUz => (2, 16, 0x7F, 0x80, 0x80, true),
            Float8Kind::E8M0FnU => (0, 127, 0xFE, 0xFF, 0xFF, true),
        };
        Self { kind, mantissa_bits, bias, max_code, overflow, nan, unsigned_zero }
    }

    #[inline(always)]
    const fn encode(&self, value: f32) -> u8 {
        match self.kind {
            Float8Kind::E8M0FnU => encode_power(value),
            _ => self.encode_signed(value),
        }
    }

    #[inline(always)]
    const fn encode_signed(&self, value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let dropped = 23 - self.mantissa_bits;

        let rebased = magnitude.wrapping_sub((127 - self.bias) << 23);
        let even = (rebased >> dropped) & 1;
        let normal = rebased.wrapping_add((1 << (dropped - 1)) - 1 + even) >> dropped;

        // Adding a number whose last bit weighs as much as the smallest subnormal makes the
        // addition itself round to a subnormal.
        let unit = (127 + 1 - self.bias - self.mantissa_bits + 23) << 23;
        let sum = f32::from_bits(magnitude) + f32::from_bits(unit);
        let subnormal = sum.to_bits().wrapping_sub(unit);

        let is_normal = magnitude >= (128 - self.bias) << 23;
        let code = if is_normal { normal } else { subnormal };
        let code = if code > self.max_code { self.overflow } else { code };
        let code = if magnitude > 0x7F80_0000 { self.nan } else { code };
        let sign = bits >> 24 & 0x80;
        let sign = if self.unsigned_zero && (code == 0 || code == 0x80) { 0 } else { sign };
        (code | sign) as u8
    }

    /// Without branches and without a table, so that compilers turn loops of it into vectors.
    #[inline(always)]
    const fn decode(&self, code: u32) -> f32 {
        if let Float8Kind::E8M0FnU = self.kind {
            return decode_power(code);
        }
        let magnitude = code & 0x7F;
        let sign = (code & 0x80) << 24;

        let unit = f32::from_bits((128 - self.bias - self.mantissa_bits) << 23);
        let subnormal = (magnitude as i32 as f32 * unit).to_bits();
        let normal = (magnitude << (23 - self.mantissa_bits)) + ((127 - self.bias) << 23);
        let finite = if magnitude < 1 << self.mantissa_bits { subnormal } else { normal };

        let is_infinite = magnitude == self.overflow && self.overflow != self.nan;
        let special = if is_infinite { 0x7F80_0000 } else { 0x7FC0_0000 };
        let is_special = magnitude > self.max_code || self.unsigned_zero && code == 0x80;
        let bits = if is_special { special } else { finite };
        let sign = if is_special && self.unsigned_zero { 0 } else { sign };
        f32::from_bits(bits | sign)
    }
}

/// A power of two, by rounding the magnitude's exponent; the sign is dropped, as torch does.
#[inline(always)]
const fn encode_power(value: f32) -> u8 {
    let bits = value.to_bits();
    let exponent = bits >> 23 & 0xFF;
    let fraction = bits & 0x7F_FFFF;
    let is_normal = exponent > 0;
    let up = fraction > 0x40_0000 || (fraction == 0x40_0000 && is_normal);
    if exponent == 0xFF { 0xFF } else { (exponent + up as u32) as u8 }
}

#[inline(always)]
const fn decode_power(code: u32) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        0xFF => f32::from_bits(0x7FC0_0000),
        _ => f32::from_bits(code << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_number_survives_f32<const KIND: usize>() {
        for bits in 0..=u8::MAX {
            let number = Float8::<KIND>::from_bits(bits);
            let again = Float8::<KIND>::from_f32(number.to_f32());
            let both_nan = number.to_f32().is_nan() && again.to_f32().is_nan();
            assert!(again == number || both_nan, "kind {KIND}: {bits:#04x} gave {again:?}");
        }
    }

    #[test]
    fn every_number_of_every_kind_survives_f32() {
        every_number_survives_f32::<0>();
        every_number_survives_f32::<1>();
        every_number_survives_f32::<2>();
        every_number_survives_f32::<3>();
        every_number_survives_f32::<4>();
    }

    #[test]
    fn largest_numbers_are_torchs() {
        assert_eq!(Float8::<0>::from_bits(0x7E).to_f32(), 448.0);
        assert_eq!(Float8::<1>::from_bits(0x7F).to_f32(), 240.0);
        assert_eq!(Float8::<2>::from_bits(0x7B).to_f32(), 57344.0);
        assert_eq!(Float8::<3>::from_bits(0x7F).to_f32(), 57344.0);
        assert_eq!(Float8::<4>::from_bits(0xFE).to_f32(), 2f32.powi(127));
    }
}
