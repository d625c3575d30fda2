//! IEEE half and SEN169 into each other, in 16-bit lanes.
//!
//! Both formats are sign, exponent, fraction; outside a few corners the conversion is a shift and
//! an addition on the code itself, on twice as many lanes as f32 would give. A block with a
//! number in the corners (a subnormal half) goes by way of f32 instead.

use super::codec::{Codec, Half, Sen};
use super::wire::{Wire, map};
use crate::tier::Kernel;

/// Elements that are looked at together; a stick of 16-bit floats.
const BLOCK: usize = 64;

/// What the exponent fields of SEN169 and IEEE half differ by, in a SEN169 code.
const REBIAS: u16 = (31 - 15) << 9;

/// IEEE half to SEN169.
pub(super) struct HalfToSen;

impl Kernel for HalfToSen {
    #[inline(always)]
    fn run<const TIER: u8>(source: &[u8], target: &mut [u8]) {
        blocks(source, target, is_subnormal_half, half_to_sen, |word| {
            Sen::encode(Half::decode(word))
        });
    }
}

/// SEN169 to IEEE half.
pub(super) struct SenToHalf;

impl Kernel for SenToHalf {
    #[inline(always)]
    fn run<const TIER: u8>(source: &[u8], target: &mut [u8]) {
        blocks(source, target, is_below_normal_half, sen_to_half, |word| {
            Half::encode(Sen::decode(word))
        });
    }
}

#[inline(always)]
fn blocks(
    source: &[u8],
    target: &mut [u8],
    is_corner: impl Fn(u16) -> bool,
    fast: impl Fn(u16) -> u16,
    exact: impl Fn(u16) -> u16,
) {
    for (from, to) in source.chunks(2 * BLOCK).zip(target.chunks_mut(2 * BLOCK)) {
        let corners = u16::lanes(from)
            .iter()
            .fold(0, |any, &word| any | u16::from(is_corner(u16::load(word))));
        if corners == 0 {
            map(from, to, &fast);
        } else {
            map(from, to, &exact);
        }
    }
}

#[inline(always)]
fn is_subnormal_half(word: u16) -> bool {
    (word & 0x7FFF).wrapping_sub(1) < 0x3FF
}

#[inline(always)]
fn half_to_sen(word: u16) -> u16 {
    let magnitude = word & 0x7FFF;
    let rounded = ((magnitude + 1) >> 1) + REBIAS;
    let finite = if magnitude == 0 { 0 } else { rounded };
    let code = if magnitude >= 0x7C00 { 0x7FFF } else { finite };
    code | word & 0x8000
}

/// Below the smallest normal half, 2^-14, and not zero.
#[inline(always)]
fn is_below_normal_half(word: u16) -> bool {
    (word & 0x7FFF).wrapping_sub(1) < 0x21FF
}

#[inline(always)]
fn sen_to_half(word: u16) -> u16 {
    let magnitude = word & 0x7FFF;
    let normal = magnitude.wrapping_sub(REBIAS) << 1;
    let nonzero = if magnitude == 0 { 0 } else { normal };
    let finite = if magnitude >= 0x5E00 { 0x7C00 } else { nonzero };
    let code = if magnitude == 0x7FFF { 0x7E00 } else { finite };
    code | word & 0x8000
}
