use std::fmt;

use crate::STICK_BYTES;

/// Format of one element in memory: the card's `DataFormats`, and ours where it has none.
///
/// The values 0 to 18 are the card's own; from 32 on they are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum DataFormat {
    /// 1-6-9 float, bias 31, one merged NaN-Infinity: [`crate::Sen169`].
    Sen169Fp16 = 0,
    /// IEEE binary32.
    IeeeFp32 = 1,
    /// No format: the dtype is not supported.
    Invalid = 2,
    /// 1-4-3 float, as torch's `float8_e4m3fn`.
    Sen143Fp8 = 3,
    /// 1-5-2 float, as torch's `float8_e5m2fnuz`.
    Sen152Fp8 = 4,
    /// 1-5-3 float.
    Sen153Fp9 = 5,
    /// Two-bit integer.
    SenInt2 = 6,
    /// Four-bit integer.
    SenInt4 = 7,
    /// Eight-bit integer.
    SenInt8 = 8,
    /// 16-bit integer.
    SenInt16 = 9,
    /// 24-bit integer.
    SenInt24 = 10,
    /// 64-bit integer.
    IeeeInt64 = 11,
    /// 32-bit integer.
    IeeeInt32 = 12,
    /// 32-bit unsigned integer.
    SenUInt32 = 13,
    /// Two-bit unsigned integer.
    SenUInt2 = 14,
    /// IEEE binary16.
    IeeeFp16 = 15,
    /// One byte, zero or one.
    Bool = 16,
    /// 1-8-7 float.
    BFloat16 = 17,
    /// 1-8-15 float.
    Sen18FFp24 = 18,
    /// IEEE binary64.
    IeeeFp64 = 32,
    /// 1-5-2 float with infinities, as torch's `float8_e5m2`.
    Fp8E5M2 = 33,
    /// 1-4-3 float, bias 8, no negative zero, as torch's `float8_e4m3fnuz`.
    Fp8E4M3FnUz = 34,
    /// A power of two, as torch's `float8_e8m0fnu`.
    Fp8E8M0FnU = 35,
    /// Eight-bit unsigned integer.
    UInt8 = 36,
    /// 16-bit unsigned integer.
    UInt16 = 37,
    /// 64-bit unsigned integer.
    UInt64 = 38,
    /// Two IEEE halves.
    Complex32 = 39,
    /// Two IEEE singles.
    Complex64 = 40,
    /// Two IEEE doubles.
    Complex128 = 41,
}

impl DataFormat {
    /// Every format, in the order of its value.
    pub const ALL: [Self; 29] = [
        Self::Sen169Fp16,
        Self::IeeeFp32,
        Self::Invalid,
        Self::Sen143Fp8,
        Self::Sen152Fp8,
        Self::Sen153Fp9,
        Self::SenInt2,
        Self::SenInt4,
        Self::SenInt8,
        Self::SenInt16,
        Self::SenInt24,
        Self::IeeeInt64,
        Self::IeeeInt32,
        Self::SenUInt32,
        Self::SenUInt2,
        Self::IeeeFp16,
        Self::Bool,
        Self::BFloat16,
        Self::Sen18FFp24,
        Self::IeeeFp64,
        Self::Fp8E5M2,
        Self::Fp8E4M3FnUz,
        Self::Fp8E8M0FnU,
        Self::UInt8,
        Self::UInt16,
        Self::UInt64,
        Self::Complex32,
        Self::Complex64,
        Self::Complex128,
    ];

    /// Every format whose elements fill whole bytes: the ones that can be laid out and copied.
    pub fn addressable() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|format| format.element_bytes().is_some())
    }

    /// Bytes of one element; `None` where elements do not fill whole bytes.
    pub fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Sen143Fp8
            | Self::Sen152Fp8
            | Self::SenInt8
            | Self::Bool
            | Self::Fp8E5M2
            | Self::Fp8E4M3FnUz
            | Self::Fp8E8M0FnU
            | Self::UInt8 => Some(1),
            Self::Sen169Fp16 | Self::SenInt16 | Self::IeeeFp16 | Self::BFloat16 | Self::UInt16 => {
                Some(2)
            }
            Self::IeeeFp32 | Self::IeeeInt32 | Self::SenUInt32 | Self::Complex32 => Some(4),
            Self::IeeeInt64 | Self::IeeeFp64 | Self::UInt64 | Self::Complex64 => Some(8),
            Self::Complex128 => Some(16),
            Self::Invalid
            | Self::Sen153Fp9
            | Self::SenInt2
            | Self::SenInt4
            | Self::SenInt24
            | Self::SenUInt2
            | Self::Sen18FFp24 => None,
        }
    }

    /// Elements in one stick of 128 bytes; 0 for formats that have no published packing.
    ///
    /// ```
    /// use spyre_numerics::DataFormat;
    /// assert_eq!(DataFormat::Sen169Fp16.elements_per_stick(), 64);
    /// assert_eq!(DataFormat::SenInt4.elements_per_stick(), 256);
    /// assert_eq!(DataFormat::Invalid.elements_per_stick(), 0);
    /// ```
    pub fn elements_per_stick(self) -> usize {
        match self {
            Self::SenInt4 => 2 * STICK_BYTES,
            Self::SenInt2 | Self::SenUInt2 => 4 * STICK_BYTES,
            _ => self.element_bytes().map_or(0, |bytes| STICK_BYTES / bytes),
        }
    }

    /// The name that `DataFormats` gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sen169Fp16 => "SEN169_FP16",
            Self::IeeeFp32 => "IEEE_FP32",
            Self::Invalid => "INVALID",
            Self::Sen143Fp8 => "SEN143_FP8",
            Self::Sen152Fp8 => "SEN152_FP8",
            Self::Sen153Fp9 => "SEN153_FP9",
            Self::SenInt2 => "SENINT2",
            Self::SenInt4 => "SENINT4",
            Self::SenInt8 => "SENINT8",
            Self::SenInt16 => "SENINT16",
            Self::SenInt24 => "SENINT24",
            Self::IeeeInt64 => "IEEE_INT64",
            Self::IeeeInt32 => "IEEE_INT32",
            Self::SenUInt32 => "SENUINT32",
            Self::SenUInt2 => "SENUINT2",
            Self::IeeeFp16 => "IEEE_FP16",
            Self::Bool => "BOOL",
            Self::BFloat16 => "BFLOAT16",
            Self::Sen18FFp24 => "SEN18F_FP24",
            Self::IeeeFp64 => "IEEE_FP64",
            Self::Fp8E5M2 => "FP8_E5M2",
            Self::Fp8E4M3FnUz => "FP8_E4M3FNUZ",
            Self::Fp8E8M0FnU => "FP8_E8M0FNU",
            Self::UInt8 => "UINT8",
            Self::UInt16 => "UINT16",
            Self::UInt64 => "UINT64",
            Self::Complex32 => "COMPLEX32",
            Self::Complex64 => "COMPLEX64",
            Self::Complex128 => "COMPLEX128",
        }
    }
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataFormats.{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cards_values_are_pinned() {
        let values: Vec<u8> = DataFormat::ALL[..19].iter().map(|&f| f as u8).collect();
        assert_eq!(values, (0..19).collect::<Vec<u8>>());
        assert_eq!(DataFormat::Sen169Fp16 as u8, 0);
        assert_eq!(DataFormat::IeeeInt32 as u8, 12);
        assert_eq!(DataFormat::Sen18FFp24 as u8, 18);
    }

    #[test]
    fn an_addressable_stick_is_128_bytes() {
        for format in DataFormat::addressable() {
            let bytes = format.element_bytes().unwrap_or(0);
            assert_eq!(bytes * format.elements_per_stick(), STICK_BYTES, "{format}");
        }
    }
}
