//! Floats of at most 32 bits, each as a pair of functions from and to f32 without branches.

use super::wire::Wire;
use crate::{Float8, Sen169};

/// A float format that f32 holds exactly.
pub(super) trait Codec {
    /// Its code as a word.
    type Word: Wire;

    /// The largest finite value.
    const MAX: f32;

    fn decode(word: Self::Word) -> f32;
    fn encode(value: f32) -> Self::Word;
}

/// `SEN169_FP16`.
pub(super) struct Sen;

impl Codec for Sen {
    type Word = u16;
    const MAX: f32 = Sen169::MAX.to_f32();

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        Sen169::from_bits(word).to_f32()
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        Sen169::from_f32(value).to_bits()
    }
}

/// `SEN169_FP16` as it arrives from a host: see [`crate::Specials::Arriving`].
pub(super) struct ArrivingSen;

impl Codec for ArrivingSen {
    type Word = u16;
    const MAX: f32 = Sen::MAX;

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        Sen169::from_bits(word).to_ordered_f32()
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        Sen169::saturated(value).to_bits()
    }
}

/// `SEN169_FP16` as a device works on it: see [`crate::Specials::Ordered`].
pub(super) struct OrderedSen;

impl Codec for OrderedSen {
    type Word = u16;
    const MAX: f32 = Sen::MAX;

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        Sen169::from_bits(word).to_ordered_f32()
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        Sen169::from_computed(value).to_bits()
    }
}

/// IEEE half whose largest exponent is one more binade, without infinities and NaN.
pub(super) struct BinadeHalf;

impl Codec for BinadeHalf {
    type Word = u16;
    const MAX: f32 = 131_008.0;

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        let magnitude = u32::from(word & 0x7FFF);
        let normal = (magnitude << 13) + (112 << 23);
        let is_special = magnitude >= 0x7C00;
        let value = if is_special { f32::from_bits(normal) } else { Half::decode(word & 0x7FFF) };
        f32::from_bits(value.to_bits() | u32::from(word & 0x8000) << 16)
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        Half::encode(value)
    }
}

/// IEEE half.
pub(super) struct Half;

impl Codec for Half {
    type Word = u16;
    const MAX: f32 = 65504.0;

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        let magnitude = u32::from(word & 0x7FFF);
        let sign = u32::from(word & 0x8000) << 16;
        let normal = (magnitude << 13) + (112 << 23);
        let subnormal = (magnitude as f32 * f32::from_bits(103 << 23)).to_bits();
        let quiet = if magnitude > 0x7C00 { 0x40_0000 } else { 0 };
        let special = (magnitude << 13) | 0x7F80_0000 | quiet;
        let finite = if magnitude < 0x400 { subnormal } else { normal };
        let bits = if magnitude >= 0x7C00 { special } else { finite };
        f32::from_bits(bits | sign)
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let rebased = magnitude.wrapping_sub(112 << 23);
        let rounded = rebased.wrapping_add(0xFFF + (rebased >> 13 & 1)) >> 13;
        let normal = if rounded > 0x7C00 { 0x7C00 } else { rounded };
        // 0.5 has its last bit where the smallest half is: the sum rounds to a subnormal.
        let sum = f32::from_bits(magnitude) + 0.5;
        let subnormal = sum.to_bits().wrapping_sub(0x3F00_0000);
        let nan = (magnitude >> 13 & 0x3FF) | 0x7E00;
        let finite = if magnitude < 113 << 23 { subnormal } else { normal };
        let code = if magnitude > 0x7F80_0000 { nan } else { finite };
        code as u16 | (bits >> 16 & 0x8000) as u16
    }
}

/// bfloat16.
pub(super) struct Brain;

impl Codec for Brain {
    type Word = u16;
    const MAX: f32 = f32::from_bits(0x7F7F_0000);

    #[inline(always)]
    fn decode(word: u16) -> f32 {
        f32::from_bits(u32::from(word) << 16)
    }

    #[inline(always)]
    fn encode(value: f32) -> u16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        let nan = bits >> 16 | 0x40;
        let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
        (if is_nan { nan } else { rounded }) as u16
    }
}

/// f32 itself.
pub(super) struct Single;

impl Codec for Single {
    type Word = u32;
    const MAX: f32 = f32::MAX;

    #[inline(always)]
    fn decode(word: u32) -> f32 {
        f32::from_bits(word)
    }

    #[inline(always)]
    fn encode(value: f32) -> u32 {
        value.to_bits()
    }
}

impl<const KIND: usize> Codec for Float8<KIND> {
    type Word = u8;
    const MAX: f32 = [448.0, 240.0, 57344.0, 57344.0, f32::from_bits(254 << 23)][KIND];

    #[inline(always)]
    fn decode(word: u8) -> f32 {
        Self::from_bits(word).to_f32()
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        Self::from_f32(value).to_bits()
    }
}
