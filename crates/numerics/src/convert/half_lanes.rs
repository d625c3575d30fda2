//! IEEE half from and to f32 with the CPU's own instructions, where it has them.
#![allow(unsafe_code, reason = "vector intrinsics")]

use super::codec::{Codec, Half, Single};
use super::wire::{map, put};
use crate::Tier;
use crate::tier::Kernel;

/// Elements per pass: one vector of f32 on the widest tier, and a cache line of them.
const BLOCK: usize = 16;

/// IEEE half to f32.
pub(super) struct HalfToSingle;

impl Kernel for HalfToSingle {
    const BYTES: (usize, usize) = (2, 4);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        let (blocks, rest) = source.as_chunks::<{ 2 * BLOCK }>();
        let (results, last) = target.as_chunks_mut::<{ 4 * BLOCK }>();
        for (from, to) in blocks.iter().zip(results) {
            let mut block = [0; 4 * BLOCK];
            widen::<TIER>(from, &mut block);
            put::<_, TIER, STREAM>(to, &block);
        }
        map::<_, _, TIER, false>(rest, last, |word| Single::encode(Half::decode(word)));
    }
}

/// f32 to IEEE half.
pub(super) struct SingleToHalf;

impl Kernel for SingleToHalf {
    const BYTES: (usize, usize) = (4, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        let (blocks, rest) = source.as_chunks::<{ 8 * BLOCK }>();
        let (results, last) = target.as_chunks_mut::<{ 4 * BLOCK }>();
        for (from, to) in blocks.iter().zip(results) {
            let mut block = [0; 4 * BLOCK];
            let (low, high) = block.split_at_mut(2 * BLOCK);
            let (from_low, from_high) = from.split_at(4 * BLOCK);
            narrow::<TIER>(from_low, low);
            narrow::<TIER>(from_high, high);
            put::<_, TIER, STREAM>(to, &block);
        }
        map::<_, _, TIER, false>(rest, last, |word| Half::encode(Single::decode(word)));
    }
}

#[inline(always)]
fn widen<const TIER: u8>(from: &[u8; 2 * BLOCK], to: &mut [u8; 4 * BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if TIER >= Tier::Avx2 as u8 {
        // SAFETY: `TIER` says that the CPU has the instructions; the arrays hold 16 elements.
        return unsafe { x86::widen::<TIER>(from.as_ptr(), to.as_mut_ptr()) };
    }
    map::<_, _, TIER, false>(from, to, |word| Single::encode(Half::decode(word)));
}

#[inline(always)]
fn narrow<const TIER: u8>(from: &[u8], to: &mut [u8]) {
    debug_assert_eq!((from.len(), to.len()), (4 * BLOCK, 2 * BLOCK));
    #[cfg(target_arch = "x86_64")]
    if TIER >= Tier::Avx2 as u8 {
        // SAFETY: `TIER` says that the CPU has the instructions; the slices hold 16 elements.
        return unsafe { x86::narrow::<TIER>(from.as_ptr(), to.as_mut_ptr()) };
    }
    map::<_, _, TIER, false>(from, to, |word| Half::encode(Single::decode(word)));
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::BLOCK;
    use crate::Tier;

    #[inline(always)]
    pub(super) unsafe fn widen<const TIER: u8>(from: *const u8, to: *mut u8) {
        let to = to.cast::<f32>();
        // SAFETY: loads of 32 and stores of 64 bytes, at any alignment.
        unsafe {
            if TIER == Tier::Avx512 as u8 {
                _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())));
            } else {
                let low = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
                let high = _mm256_cvtph_ps(_mm_loadu_si128(from.add(BLOCK).cast()));
                _mm256_storeu_ps(to, low);
                _mm256_storeu_ps(to.add(BLOCK / 2), high);
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn narrow<const TIER: u8>(from: *const u8, to: *mut u8) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        let from = from.cast::<f32>();
        // SAFETY: loads of 64 and stores of 32 bytes, at any alignment.
        unsafe {
            if TIER == Tier::Avx512 as u8 {
                let halves = _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from));
                _mm256_storeu_si256(to.cast(), halves);
            } else {
                let low = _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from));
                let high = _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from.add(BLOCK / 2)));
                _mm_storeu_si128(to.cast(), low);
                _mm_storeu_si128(to.add(BLOCK).cast(), high);
            }
        }
    }
}
