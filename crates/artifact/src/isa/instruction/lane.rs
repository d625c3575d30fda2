use std::fmt;

use spyre_numerics::DataFormat;

/// Type of one element of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Lane {
    /// IEEE binary32: where floats of up to 32 bits are computed.
    F32 = 1,
    /// IEEE binary64.
    F64 = 2,
    /// 64-bit integer, two's complement; arithmetic wraps.
    I64 = 3,
    /// True or false.
    Bool = 4,
}

impl Lane {
    /// Every lane, in the order of its code.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::I64, Self::Bool];

    /// The lane in which elements of `format` are computed; `None` where there is none yet.
    ///
    /// ```
    /// use spyre_artifact::Lane;
    /// use spyre_numerics::DataFormat;
    /// assert_eq!(Lane::of(DataFormat::Sen169Fp16), Some(Lane::F32));
    /// assert_eq!(Lane::of(DataFormat::UInt8), Some(Lane::I64));
    /// assert_eq!(Lane::of(DataFormat::Complex64), None);
    /// ```
    pub fn of(format: DataFormat) -> Option<Self> {
        use DataFormat as Format;
        match format {
            Format::Sen169Fp16
            | Format::IeeeFp32
            | Format::IeeeFp16
            | Format::BFloat16
            | Format::Sen143Fp8
            | Format::Sen152Fp8
            | Format::Fp8E5M2
            | Format::Fp8E4M3FnUz
            | Format::Fp8E8M0FnU => Some(Self::F32),
            Format::IeeeFp64 => Some(Self::F64),
            Format::SenInt8
            | Format::SenInt16
            | Format::IeeeInt32
            | Format::IeeeInt64
            | Format::UInt8
            | Format::UInt16
            | Format::SenUInt32
            | Format::UInt64 => Some(Self::I64),
            Format::Bool => Some(Self::Bool),
            _ => None,
        }
    }

    /// Returns true if a register of this lane loads, stores and rounds to `format`.
    ///
    /// Beside a format's own lane: doubles take every float, integers take truth values, and truth
    /// values take every number (loaded as "is not zero", stored as one or zero), because the card
    /// keeps bool as a float.
    pub fn fits(self, format: DataFormat) -> bool {
        match (self, Self::of(format)) {
            (_, None) => false,
            (Self::F64, Some(own)) => own.is_float(),
            (Self::I64, Some(own)) => matches!(own, Self::I64 | Self::Bool),
            (Self::Bool, Some(_)) => true,
            (Self::F32, Some(own)) => own == Self::F32,
        }
    }

    /// Returns true if products in this lane take elements of `format`: those that it
    /// [fits](Self::fits), and whole numbers all of which it holds exactly.
    ///
    /// ```
    /// use spyre_artifact::Lane;
    /// use spyre_numerics::DataFormat;
    /// assert!(Lane::F32.multiplies(DataFormat::SenInt8));
    /// assert!(!Lane::F32.multiplies(DataFormat::IeeeInt32));
    /// assert!(Lane::F64.multiplies(DataFormat::IeeeInt32));
    /// ```
    pub fn multiplies(self, format: DataFormat) -> bool {
        use DataFormat::{IeeeInt32, SenInt8, SenInt16, SenUInt32, UInt8, UInt16};
        let is_exact = match self {
            Self::F32 => matches!(format, SenInt8 | UInt8 | SenInt16 | UInt16),
            Self::F64 => {
                matches!(format, SenInt8 | UInt8 | SenInt16 | UInt16 | IeeeInt32 | SenUInt32)
            }
            Self::I64 | Self::Bool => false,
        };
        self.is_float() && (is_exact || self.fits(format))
    }

    /// Returns true if it holds floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Bytes of one element in LX.
    pub fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::Bool => 1,
        }
    }

    /// The name that disassembly gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I64 => "i64",
            Self::Bool => "bool",
        }
    }

    /// The lane of this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&lane| lane as u8 == code)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_fits_its_own_lane() {
        for format in DataFormat::ALL {
            if let Some(lane) = Lane::of(format) {
                assert!(lane.fits(format), "{format}");
                assert!(format.element_bytes().is_some(), "{format} can be addressed");
            }
        }
    }

    #[test]
    fn a_narrow_lane_refuses_a_wide_format() {
        assert!(!Lane::F32.fits(DataFormat::IeeeFp64));
        assert!(!Lane::F32.fits(DataFormat::IeeeInt32));
        assert!(!Lane::I64.fits(DataFormat::IeeeFp32));
        assert!(Lane::F64.fits(DataFormat::IeeeFp16));
        assert!(Lane::Bool.fits(DataFormat::Sen169Fp16));
        assert!(!Lane::Bool.fits(DataFormat::Complex64));
    }
}
