//! Formats of sticks whose numbers products widen where they lie.

use zerocopy::FromBytes;

use crate::programs::execute::vector::LANES;
use crate::programs::matmul::widened::{of_halves, of_sens};

/// A format of a stick's numbers.
pub(in crate::programs) trait StickFormat {
    /// Vectors of lanes in a stick.
    const VECTORS: usize;
    /// A number as it lies.
    type Bits: FromBytes;

    /// A vector of numbers, by code for a tier.
    fn widened<const TIER: u8>(bits: [Self::Bits; LANES]) -> [f32; LANES];
}

/// Calls a method for the format of sticks whose numbers are used where they lie; false for all others.
macro_rules! for_format {
    ($format:expr, $machine:ident.$method:ident($($argument:expr),*)) => {{
        use spyre_numerics::DataFormat;

        use $crate::programs::matmul::stick_formats::{BFloats, Bytes, Floats, Halves, Sens};

        match $format {
            DataFormat::IeeeFp32 => $machine.$method::<Floats>($($argument),*),
            DataFormat::BFloat16 => $machine.$method::<BFloats>($($argument),*),
            DataFormat::IeeeFp16 => $machine.$method::<Halves>($($argument),*),
            DataFormat::Sen169Fp16 => $machine.$method::<Sens>($($argument),*),
            DataFormat::SenInt8 => $machine.$method::<Bytes>($($argument),*),
            _ => Ok(false),
        }
    }};
}
pub(in crate::programs) use for_format;

/// Sticks of float32.
pub(in crate::programs) struct Floats;

impl StickFormat for Floats {
    const VECTORS: usize = 2;
    type Bits = f32;

    #[inline(always)]
    fn widened<const TIER: u8>(numbers: [f32; LANES]) -> [f32; LANES] {
        numbers
    }
}

/// Sticks of bfloat16: the upper halves of float32.
pub(in crate::programs) struct BFloats;

impl StickFormat for BFloats {
    const VECTORS: usize = 4;
    type Bits = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(bits: [u16; LANES]) -> [f32; LANES] {
        bits.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
}

/// Sticks of half precision.
pub(in crate::programs) struct Halves;

impl StickFormat for Halves {
    const VECTORS: usize = 4;
    type Bits = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(bits: [u16; LANES]) -> [f32; LANES] {
        of_halves::<TIER>(bits)
    }
}

/// Sticks of SEN169.
pub(in crate::programs) struct Sens;

impl StickFormat for Sens {
    const VECTORS: usize = 4;
    type Bits = u16;

    #[inline(always)]
    fn widened<const TIER: u8>(bits: [u16; LANES]) -> [f32; LANES] {
        of_sens::<TIER>(bits)
    }
}

/// Sticks of whole numbers of eight bits.
pub(in crate::programs) struct Bytes;

impl StickFormat for Bytes {
    const VECTORS: usize = 8;
    type Bits = i8;

    #[inline(always)]
    fn widened<const TIER: u8>(bits: [i8; LANES]) -> [f32; LANES] {
        bits.map(f32::from)
    }
}
