//! Formats of a stick's numbers that products take from where they lie.

use spyre_numerics::STICK_BYTES;
use zerocopy::FromBytes;

use crate::programs::execute::vector::LANES;
use crate::programs::matmul::widened::{of_halves, of_sens};

/// A format of a stick's numbers.
pub(in crate::programs) trait StickFormat {
    type Number: FromBytes;

    /// Vectors of lanes in a stick.
    const VECTORS: usize = STICK_BYTES / (LANES * size_of::<Self::Number>());

    /// A vector of them as float32, by code for a tier.
    fn widened<const TIER: u8>(numbers: [Self::Number; LANES]) -> [f32; LANES];
}

/// Sticks of float32.
pub(in crate::programs) struct Floats;

impl StickFormat for Floats {
    type Number = f32;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [f32; LANES]) -> [f32; LANES] {
        numbers
    }
}

/// Sticks of bfloat16: the upper halves of float32.
pub(in crate::programs) struct BFloats;

impl StickFormat for BFloats {
    type Number = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [u16; LANES]) -> [f32; LANES] {
        numbers.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
}

/// Sticks of half precision.
pub(in crate::programs) struct Halves;

impl StickFormat for Halves {
    type Number = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [u16; LANES]) -> [f32; LANES] {
        of_halves::<TIER>(numbers)
    }
}

/// Sticks of SEN169.
pub(in crate::programs) struct Sens;

impl StickFormat for Sens {
    type Number = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [u16; LANES]) -> [f32; LANES] {
        of_sens::<TIER>(numbers)
    }
}

/// Sticks of whole numbers of eight bits.
pub(in crate::programs) struct Bytes;

impl StickFormat for Bytes {
    type Number = i8;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [i8; LANES]) -> [f32; LANES] {
        numbers.map(f32::from)
    }
}

/// Evaluates an expression with the [`StickFormat`] of a data format as a type, or another one if it has none.
macro_rules! with_stick_format {
    ($format:expr, $name:ident => $act:expr, $otherwise:expr) => {{
        use spyre_numerics::DataFormat;

        use $crate::programs::matmul::stick_format::{BFloats, Bytes, Floats, Halves, Sens};
        with_stick_format!(@ $format, $name => $act, $otherwise, [
            IeeeFp32 Floats, BFloat16 BFloats, IeeeFp16 Halves, Sen169Fp16 Sens, SenInt8 Bytes
        ])
    }};
    (@ $format:expr, $name:ident => $act:expr, $otherwise:expr, [$($data:ident $of:ident),*]) => {
        match $format {
            $(DataFormat::$data => {
                type $name = $of;
                $act
            })*
            _ => $otherwise,
        }
    };
}

pub(in crate::programs) use with_stick_format;
