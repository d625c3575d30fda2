use crate::{DType, DataFormat, Error};

/// Numeric profile: the formats in which the device keeps numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Everything PyTorch can say, exact: a dtype is stored as the host stores it.
    #[default]
    Open,
    /// Formats of the real card: 16-bit floats and bool in `SEN169_FP16`, int64 narrowed to 32 bits,
    /// float64 and complex refused.
    Card,
}

impl Profile {
    /// The format in which the device keeps `dtype`; `DataFormat::Invalid` if it does not.
    ///
    /// ```
    /// use spyre_numerics::{DType, DataFormat, Profile};
    /// assert_eq!(Profile::Open.device_format(DType::Int64), DataFormat::IeeeInt64);
    /// assert_eq!(Profile::Card.device_format(DType::Int64), DataFormat::IeeeInt32);
    /// assert_eq!(Profile::Card.device_format(DType::Float64), DataFormat::Invalid);
    /// ```
    pub fn device_format(self, dtype: DType) -> DataFormat {
        match self {
            Self::Open => dtype.host_format(),
            Self::Card => card_format(dtype),
        }
    }

    /// Like [`device_format`](Self::device_format), with an error for the user where there is no
    /// format.
    pub fn supported_format(self, dtype: DType) -> Result<DataFormat, Error> {
        match self.device_format(dtype) {
            DataFormat::Invalid => Err(Error::UnsupportedDType { dtype }),
            format => Ok(format),
        }
    }

    /// Returns true if storing `dtype` may lose bits on this profile.
    pub fn narrows(self, dtype: DType) -> bool {
        self == Self::Card && matches!(dtype, DType::Int64 | DType::Float16 | DType::BFloat16)
    }
}

fn card_format(dtype: DType) -> DataFormat {
    match dtype {
        DType::Float16 | DType::BFloat16 | DType::Bool => DataFormat::Sen169Fp16,
        DType::Float32 => DataFormat::IeeeFp32,
        DType::Int8 => DataFormat::SenInt8,
        DType::Int16 => DataFormat::SenInt16,
        DType::Int32 | DType::Int64 => DataFormat::IeeeInt32,
        DType::UInt8 => DataFormat::SenUInt32,
        DType::Float8E4M3Fn => DataFormat::Sen143Fp8,
        DType::Float8E5M2FnUz => DataFormat::Sen152Fp8,
        _ => DataFormat::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cards_stick_counts_are_pinned() {
        let per_stick = |dtype| Profile::Card.device_format(dtype).elements_per_stick();

        let table = [
            (DType::Float16, 64),
            (DType::BFloat16, 64),
            (DType::Bool, 64),
            (DType::Float32, 32),
            (DType::Int8, 128),
            (DType::Int16, 64),
            (DType::Int32, 32),
            (DType::Int64, 32),
            (DType::Float8E4M3Fn, 128),
            (DType::Float8E5M2FnUz, 128),
            (DType::UInt8, 32),
            (DType::Float64, 0),
            (DType::Complex64, 0),
        ];
        for (dtype, expected) in table {
            assert_eq!(per_stick(dtype), expected, "{dtype}");
        }
    }

    #[test]
    fn the_open_profile_supports_every_dtype() {
        for dtype in DType::ALL {
            assert_eq!(Profile::Open.supported_format(dtype), Ok(dtype.host_format()));
        }
    }

    #[test]
    fn a_refused_dtype_is_named() {
        let error = Profile::Card.supported_format(DType::Float64).expect_err("refused");
        assert!(error.to_string().contains("does not support dtype float64"));
    }
}
