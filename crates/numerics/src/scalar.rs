use half::{bf16, f16};

use crate::cast::Truncate;
use crate::{DataFormat, Error, Float8, Sen169};

/// One element's value, free of its format: the plain reference that the fast paths must equal.
///
/// Conversions are PyTorch's on the CPU: floats of 8 and 16 bits meet everything else at f32,
/// integers wrap, floats truncate to integers, a number is `true` unless it is zero, and a complex
/// number gives its real part.
///
/// ```
/// use spyre_numerics::{DataFormat, Scalar};
/// let third = Scalar::Single(1.0 / 3.0);
/// assert_eq!(third.encode(DataFormat::Sen169Fp16)?, [0xAB, 0x3A]);
/// assert_eq!(Scalar::decode(DataFormat::SenInt8, &[0xFF])?, Scalar::Signed(-1));
/// # Ok::<(), spyre_numerics::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An f32, or a float that fits one exactly.
    Single(f32),
    /// An f64.
    Double(f64),
    /// An integer, or a bool as 0 or 1.
    Signed(i64),
    /// A 64-bit unsigned integer.
    Unsigned(u64),
    /// A complex number of two singles, or of two halves.
    ComplexSingle(f32, f32),
    /// A complex number of two doubles.
    ComplexDouble(f64, f64),
}

impl Scalar {
    /// Reads one element from its bytes, of which there must be exactly an element's.
    pub fn decode(format: DataFormat, bytes: &[u8]) -> Result<Self, Error> {
        let width = format.element_bytes().ok_or(Error::NotAddressable { format })?;
        if bytes.len() != width {
            return Err(Error::LengthMismatch {
                from: format,
                source_bytes: bytes.len(),
                to: format,
                target_bytes: width,
            });
        }
        let mut word = [0; 16];
        word[..width].copy_from_slice(bytes);
        Ok(Self::from_word(format, u128::from_le_bytes(word)))
    }

    /// The bytes of this value in `format`.
    pub fn encode(self, format: DataFormat) -> Result<Vec<u8>, Error> {
        let width = format.element_bytes().ok_or(Error::NotAddressable { format })?;
        Ok(self.to_word(format).to_le_bytes()[..width].to_vec())
    }

    /// Rounded to f32.
    pub fn to_f32(self) -> f32 {
        match self {
            Self::Single(value) | Self::ComplexSingle(value, _) => value,
            Self::Double(value) | Self::ComplexDouble(value, _) => value as f32,
            Self::Signed(value) => value as f32,
            Self::Unsigned(value) => value as f32,
        }
    }

    /// Rounded to f64.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Single(value) | Self::ComplexSingle(value, _) => value.into(),
            Self::Double(value) | Self::ComplexDouble(value, _) => value,
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
        }
    }

    /// Returns true if it is neither zero nor two zeros; NaN is `true`.
    pub fn is_nonzero(self) -> bool {
        match self {
            Self::Single(value) => value != 0.0,
            Self::Double(value) => value != 0.0,
            Self::Signed(value) => value != 0,
            Self::Unsigned(value) => value != 0,
            Self::ComplexSingle(real, imaginary) => real != 0.0 || imaginary != 0.0,
            Self::ComplexDouble(real, imaginary) => real != 0.0 || imaginary != 0.0,
        }
    }

    fn imaginary(self) -> Self {
        match self {
            Self::ComplexSingle(_, imaginary) => Self::Single(imaginary),
            Self::ComplexDouble(_, imaginary) => Self::Double(imaginary),
            _ => Self::Single(0.0),
        }
    }

    fn integer(self, narrow: fn(f64) -> u64) -> u64 {
        match self {
            Self::Signed(value) => value as u64,
            Self::Unsigned(value) => value,
            _ => narrow(self.to_f64()),
        }
    }

    fn from_word(format: DataFormat, word: u128) -> Self {
        let half = |word: u128| f16::from_bits(word as u16).to_f32();
        let single = |word: u128| f32::from_bits(word as u32);
        let double = |word: u128| f64::from_bits(word as u64);
        match format {
            DataFormat::Sen169Fp16 => Self::Single(Sen169::from_bits(word as u16).to_f32()),
            DataFormat::IeeeFp16 => Self::Single(half(word)),
            DataFormat::BFloat16 => Self::Single(single(word << 16)),
            DataFormat::IeeeFp32 => Self::Single(single(word)),
            DataFormat::IeeeFp64 => Self::Double(double(word)),
            DataFormat::Sen143Fp8 => Self::Single(Float8::<0>::from_bits(word as u8).to_f32()),
            DataFormat::Fp8E4M3FnUz => Self::Single(Float8::<1>::from_bits(word as u8).to_f32()),
            DataFormat::Fp8E5M2 => Self::Single(Float8::<2>::from_bits(word as u8).to_f32()),
            DataFormat::Sen152Fp8 => Self::Single(Float8::<3>::from_bits(word as u8).to_f32()),
            DataFormat::Fp8E8M0FnU => Self::Single(Float8::<4>::from_bits(word as u8).to_f32()),
            DataFormat::Bool => Self::Signed((word != 0).into()),
            DataFormat::SenInt8 => Self::Signed((word as i8).into()),
            DataFormat::SenInt16 => Self::Signed((word as i16).into()),
            DataFormat::IeeeInt32 => Self::Signed((word as i32).into()),
            DataFormat::UInt64 => Self::Unsigned(word as u64),
            DataFormat::Complex32 => Self::ComplexSingle(half(word), half(word >> 16)),
            DataFormat::Complex64 => Self::ComplexSingle(single(word), single(word >> 32)),
            DataFormat::Complex128 => Self::ComplexDouble(double(word), double(word >> 64)),
            _ => Self::Signed(word as i64),
        }
    }

    fn to_word(self, format: DataFormat) -> u128 {
        let half = |value: Self| u128::from(f16::from_f32(value.to_f32()).to_bits());
        let single = |value: Self| u128::from(value.to_f32().to_bits());
        let double = |value: Self| u128::from(value.to_f64().to_bits());
        match format {
            DataFormat::Sen169Fp16 => Sen169::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::IeeeFp16 => half(self),
            DataFormat::BFloat16 => bf16::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::IeeeFp32 => single(self),
            DataFormat::IeeeFp64 => double(self),
            DataFormat::Sen143Fp8 => Float8::<0>::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::Fp8E4M3FnUz => Float8::<1>::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::Fp8E5M2 => Float8::<2>::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::Sen152Fp8 => Float8::<3>::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::Fp8E8M0FnU => Float8::<4>::from_f32(self.to_f32()).to_bits().into(),
            DataFormat::Bool => self.is_nonzero().into(),
            DataFormat::IeeeInt64 | DataFormat::SenUInt32 => {
                self.integer(|value| value.to_i64() as u64).into()
            }
            DataFormat::UInt64 => self.integer(Truncate::to_u64).into(),
            DataFormat::Complex32 => half(self) | half(self.imaginary()) << 16,
            DataFormat::Complex64 => single(self) | single(self.imaginary()) << 32,
            DataFormat::Complex128 => double(self) | double(self.imaginary()) << 64,
            _ => self.integer(|value| value.to_i32() as u64).into(),
        }
    }
}
