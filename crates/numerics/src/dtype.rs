use std::fmt;

use crate::DataFormat;

/// A framework's element type, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are PyTorch's own")]
pub enum DType {
    Bool,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Float8E4M3Fn,
    Float8E4M3FnUz,
    Float8E5M2,
    Float8E5M2FnUz,
    Float8E8M0FnU,
    Complex32,
    Complex64,
    Complex128,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [Self; 21] = [
        Self::Bool,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::BFloat16,
        Self::Float32,
        Self::Float64,
        Self::Float8E4M3Fn,
        Self::Float8E4M3FnUz,
        Self::Float8E5M2,
        Self::Float8E5M2FnUz,
        Self::Float8E8M0FnU,
        Self::Complex32,
        Self::Complex64,
        Self::Complex128,
    ];

    /// Format of this dtype's elements in host memory.
    ///
    /// ```
    /// use spyre_numerics::{DType, DataFormat};
    /// assert_eq!(DType::Float16.host_format(), DataFormat::IeeeFp16);
    /// ```
    pub fn host_format(self) -> DataFormat {
        match self {
            Self::Bool => DataFormat::Bool,
            Self::UInt8 => DataFormat::UInt8,
            Self::UInt16 => DataFormat::UInt16,
            Self::UInt32 => DataFormat::SenUInt32,
            Self::UInt64 => DataFormat::UInt64,
            Self::Int8 => DataFormat::SenInt8,
            Self::Int16 => DataFormat::SenInt16,
            Self::Int32 => DataFormat::IeeeInt32,
            Self::Int64 => DataFormat::IeeeInt64,
            Self::Float16 => DataFormat::IeeeFp16,
            Self::BFloat16 => DataFormat::BFloat16,
            Self::Float32 => DataFormat::IeeeFp32,
            Self::Float64 => DataFormat::IeeeFp64,
            Self::Float8E4M3Fn => DataFormat::Sen143Fp8,
            Self::Float8E4M3FnUz => DataFormat::Fp8E4M3FnUz,
            Self::Float8E5M2 => DataFormat::Fp8E5M2,
            Self::Float8E5M2FnUz => DataFormat::Sen152Fp8,
            Self::Float8E8M0FnU => DataFormat::Fp8E8M0FnU,
            Self::Complex32 => DataFormat::Complex32,
            Self::Complex64 => DataFormat::Complex64,
            Self::Complex128 => DataFormat::Complex128,
        }
    }

    /// PyTorch's name, without the `torch.` in front.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Float8E4M3Fn => "float8_e4m3fn",
            Self::Float8E4M3FnUz => "float8_e4m3fnuz",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E5M2FnUz => "float8_e5m2fnuz",
            Self::Float8E8M0FnU => "float8_e8m0fnu",
            Self::Complex32 => "complex32",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
        }
    }

    /// The dtype of this name, as [`DType::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_dtype_again() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("float128"), None);
    }

    #[test]
    fn no_two_dtypes_share_a_host_format() {
        let mut formats = DType::ALL.map(DType::host_format).to_vec();
        formats.sort_unstable();
        formats.dedup();
        assert_eq!(formats.len(), DType::ALL.len());
    }
}
