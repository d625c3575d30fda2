//! IEEE half and SEN169 into each other, in 16-bit lanes.
//!
//! Both formats are sign, exponent, fraction; outside a few corners the conversion is a shift and
//! an addition on the code itself, on twice as many lanes as f32 would give. A block with a
//! number in the corners (a subnormal half) goes by way of f32 instead.
#![allow(unsafe_code, reason = "calls another kernel")]

use super::codec::{Codec, Half, Sen};
use super::kernels::Recode;
use super::wire::{BLOCK, Wire, map, map_block};
use crate::Tier;
use crate::tier::{Kernel, Rows};

/// What the exponent fields of SEN169 and IEEE half differ by, in a SEN169 code.
const REBIAS: u16 = (31 - 15) << 9;

/// IEEE half to SEN169.
pub(super) struct HalfToSen;

impl Kernel for HalfToSen {
    const BYTES: (usize, usize) = (2, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        blocks::<TIER, STREAM>(
            source,
            target,
            is_subnormal_half,
            half_to_sen,
            exact::<Half, Sen, TIER>,
        );
    }
}

/// SEN169 to IEEE half.
pub(super) struct SenToHalf;

impl Kernel for SenToHalf {
    const BYTES: (usize, usize) = (2, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        blocks::<TIER, STREAM>(
            source,
            target,
            is_below_normal_half,
            sen_to_half,
            exact::<Sen, Half, TIER>,
        );
    }
}

/// By way of f32, out of line: it would take the registers of the fast path.
#[cold]
#[inline(never)]
fn exact<S: Codec, T: Codec, const TIER: u8>(source: &[u8], target: &mut [u8]) {
    let kernel = Tier::ALL[usize::from(TIER)].compile::<Recode<S, T>>();
    let rows = Rows::one(source.len().min(target.len()) / 2);
    // SAFETY: both slices hold the row.
    unsafe { kernel.run(source.as_ptr(), target.as_mut_ptr(), rows) };
}

#[inline(always)]
fn blocks<const TIER: u8, const STREAM: bool>(
    source: &[u8],
    target: &mut [u8],
    is_corner: impl Fn(u16) -> bool,
    fast: impl Fn(u16) -> u16,
    exact: impl Fn(&[u8], &mut [u8]),
) {
    let has_corner = |words: &[[u8; 2]]| {
        words.iter().fold(0, |any, &word| any | u16::from(is_corner(u16::load(word)))) != 0
    };
    let (whole, rest) = u16::lanes(source).as_chunks::<BLOCK>();
    let (results, last) = u16::lanes_mut(target).as_chunks_mut::<BLOCK>();
    for (from, to) in whole.iter().zip(results) {
        if has_corner(from) {
            exact(from.as_flattened(), to.as_flattened_mut());
        } else {
            map_block::<u16, u16, TIER, STREAM>(from, to, &fast);
        }
    }
    if has_corner(rest) {
        exact(rest.as_flattened(), last.as_flattened_mut());
    } else {
        map::<u16, u16, TIER, false>(rest.as_flattened(), last.as_flattened_mut(), &fast);
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
