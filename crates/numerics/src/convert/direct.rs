//! IEEE half and SEN169 into each other, in 16-bit lanes.
//!
//! Both formats are sign, exponent, fraction; outside a few corners the conversion is a shift and
//! an addition on the code itself, on twice as many lanes as f32 would give. A block with a
//! number in the corners (a subnormal half) goes by way of f32 instead.
#![allow(unsafe_code, reason = "calls another kernel")]

use std::marker::PhantomData;

use super::codec::{ArrivingSen, BinadeHalf, Codec, Half, OrderedSen, Sen};
use super::kernels::Recode;
use super::wire::{BLOCK, Wire, map, map_block};
use crate::Tier;
use crate::tier::{Kernel, Rows};

/// Difference of the exponent fields of SEN169 and IEEE half, in a SEN169 code.
const REBIAS: u16 = (31 - 15) << 9;

/// One of the ways in which SEN169 meets IEEE half.
pub(super) trait SenByHalf: Codec<Word = u16> {
    /// IEEE half, as it is read on the way to it.
    type Half: Codec<Word = u16>;

    /// Any half but a subnormal.
    fn from_half(word: u16) -> u16;

    /// Any number but those below the smallest normal half.
    fn to_half(word: u16) -> u16;
}

impl SenByHalf for Sen {
    type Half = Half;

    #[inline(always)]
    fn from_half(word: u16) -> u16 {
        let magnitude = word & 0x7FFF;
        let code = if magnitude >= 0x7C00 { 0x7FFF } else { rounded_half(magnitude) };
        code | word & 0x8000
    }

    #[inline(always)]
    fn to_half(word: u16) -> u16 {
        let magnitude = word & 0x7FFF;
        let code = if magnitude == 0x7FFF { 0x7E00 } else { ordered_half(magnitude) };
        code | word & 0x8000
    }
}

impl SenByHalf for ArrivingSen {
    type Half = BinadeHalf;

    #[inline(always)]
    fn from_half(word: u16) -> u16 {
        rounded_half(word & 0x7FFF) | word & 0x8000
    }

    #[inline(always)]
    fn to_half(word: u16) -> u16 {
        ordered_half(word & 0x7FFF) | word & 0x8000
    }
}

impl SenByHalf for OrderedSen {
    type Half = Half;

    #[inline(always)]
    fn from_half(word: u16) -> u16 {
        let magnitude = word & 0x7FFF;
        let code = if magnitude >= 0x7C00 { 0x7FFF } else { rounded_half(magnitude) };
        let sign = if magnitude > 0x7C00 { 0 } else { word & 0x8000 };
        code | sign
    }

    #[inline(always)]
    fn to_half(word: u16) -> u16 {
        ordered_half(word & 0x7FFF) | word & 0x8000
    }
}

/// The nearest SEN169 to the magnitude of a half, whose largest exponent is one more binade.
#[inline(always)]
fn rounded_half(magnitude: u16) -> u16 {
    let rounded = ((magnitude + 1) >> 1) + REBIAS;
    if magnitude == 0 { 0 } else { rounded }
}

/// The half that is the magnitude of a SEN169; what is past the largest is infinite.
#[inline(always)]
fn ordered_half(magnitude: u16) -> u16 {
    let normal = magnitude.wrapping_sub(REBIAS) << 1;
    let nonzero = if magnitude == 0 { 0 } else { normal };
    if magnitude >= 0x5E00 { 0x7C00 } else { nonzero }
}

/// IEEE half to SEN169.
pub(super) struct HalfToSen<S>(PhantomData<S>);

impl<S: SenByHalf> Kernel for HalfToSen<S> {
    const BYTES: (usize, usize) = (2, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        blocks::<TIER, STREAM>(
            source,
            target,
            is_subnormal_half,
            S::from_half,
            exact::<S::Half, S, TIER>,
        );
    }
}

/// SEN169 to IEEE half.
pub(super) struct SenToHalf<S>(PhantomData<S>);

impl<S: SenByHalf> Kernel for SenToHalf<S> {
    const BYTES: (usize, usize) = (2, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        blocks::<TIER, STREAM>(
            source,
            target,
            is_below_normal_half,
            S::to_half,
            exact::<S, Half, TIER>,
        );
    }
}

/// Converts by way of f32, out of line: it would take the registers of the fast path.
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

/// Below the smallest normal half, 2^-14, and not zero.
#[inline(always)]
fn is_below_normal_half(word: u16) -> bool {
    (word & 0x7FFF).wrapping_sub(1) < 0x21FF
}
