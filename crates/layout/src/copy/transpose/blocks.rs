//! Square blocks of words, transposed in vector registers.
//!
//! A register holds N words of one column. `log2(N)` rounds, each of which interleaves register i
//! with register i + N/2, move the bits of the register number into the lane number one by one.
//! A wider register does the same for several blocks side by side.

use spyre_numerics::Tier;

/// A word that blocks are made of.
#[cfg(target_arch = "x86_64")]
pub(super) trait Word: x86::Interleave {}

#[cfg(target_arch = "x86_64")]
impl<W: x86::Interleave> Word for W {}

/// A word that blocks are made of.
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Word {}

#[cfg(not(target_arch = "x86_64"))]
impl<W> Word for W {}

/// Turns the whole blocks of a tile of (rows, columns) and returns how many of each it did. Asks
/// for the tile that lies `ahead` bytes further while it is at it.
///
/// # Safety
/// The source holds `columns` runs of `rows` words, `stride` bytes apart; the stage holds the tile.
pub(super) unsafe fn transpose_tile<W: Word>(
    tier: Tier,
    source: *const u8,
    stride: usize,
    stage: *mut u8,
    tile: (usize, usize),
    ahead: usize,
) -> (usize, usize) {
    // SAFETY: as the caller promises; the tier was detected.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        match tier {
            Tier::Portable => x86::turn_128::<W>(source, stride, stage, tile, ahead),
            _ => x86::turn_256::<W>(source, stride, stage, tile, ahead),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        _ = (tier, source, stride, stage, tile, ahead);
        (0, 0)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::copy::stream::{LINE, prefetch};

    /// A word whose registers can be interleaved.
    pub(in super::super) trait Interleave: Sized {
        /// Turns one block with 128-bit registers.
        unsafe fn block_128(source: *const u8, from: usize, target: *mut u8, to: usize);
        /// Turns two blocks, one below the other, with 256-bit registers.
        unsafe fn block_256(source: *const u8, from: usize, target: *mut u8, to: usize);
    }

    macro_rules! interleave {
        ($($word:ty, $n:literal: $low:ident, $high:ident, $low_256:ident, $high_256:ident;)*) => { $(
            impl Interleave for $word {
                #[inline(always)]
                unsafe fn block_128(source: *const u8, from: usize, target: *mut u8, to: usize) {
                    // SAFETY: as the caller promises; SSE2 is part of x86-64.
                    unsafe {
                        let mut lanes = [_mm_setzero_si128(); $n];
                        for at in 0..$n {
                            lanes[at] = _mm_loadu_si128(source.add(at * from).cast());
                        }
                        for _ in 0..usize::ilog2($n) {
                            let old = lanes;
                            for at in 0..$n / 2 {
                                lanes[2 * at] = $low(old[at], old[at + $n / 2]);
                                lanes[2 * at + 1] = $high(old[at], old[at + $n / 2]);
                            }
                        }
                        for at in 0..$n {
                            _mm_storeu_si128(target.add(at * to).cast(), lanes[at]);
                        }
                    }
                }

                #[inline(always)]
                unsafe fn block_256(source: *const u8, from: usize, target: *mut u8, to: usize) {
                    // SAFETY: as the caller promises, who also has AVX2.
                    unsafe {
                        let mut lanes = [_mm256_setzero_si256(); $n];
                        for at in 0..$n {
                            lanes[at] = _mm256_loadu_si256(source.add(at * from).cast());
                        }
                        for _ in 0..usize::ilog2($n) {
                            let old = lanes;
                            for at in 0..$n / 2 {
                                lanes[2 * at] = $low_256(old[at], old[at + $n / 2]);
                                lanes[2 * at + 1] = $high_256(old[at], old[at + $n / 2]);
                            }
                        }
                        for at in 0..$n {
                            let upper = target.add(at * to);
                            let lower = target.add((at + $n) * to);
                            _mm_storeu_si128(upper.cast(), _mm256_castsi256_si128(lanes[at]));
                            _mm_storeu_si128(lower.cast(), _mm256_extracti128_si256::<1>(lanes[at]));
                        }
                    }
                }
            }
        )* };
    }

    interleave! {
        u8, 16: _mm_unpacklo_epi8, _mm_unpackhi_epi8, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8;
        u16, 8: _mm_unpacklo_epi16, _mm_unpackhi_epi16, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        u32, 4: _mm_unpacklo_epi32, _mm_unpackhi_epi32, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32;
        u64, 2: _mm_unpacklo_epi64, _mm_unpackhi_epi64, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64;
    }

    pub(super) unsafe fn turn_128<W: Interleave>(
        source: *const u8,
        stride: usize,
        stage: *mut u8,
        tile: (usize, usize),
        ahead: usize,
    ) -> (usize, usize) {
        let side = 16 / size_of::<W>();
        // SAFETY: as the caller promises.
        unsafe { each_block::<W>(source, stride, stage, tile, ahead, (side, side), W::block_128) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn turn_256<W: Interleave>(
        source: *const u8,
        stride: usize,
        stage: *mut u8,
        tile: (usize, usize),
        ahead: usize,
    ) -> (usize, usize) {
        let side = 16 / size_of::<W>();
        // SAFETY: as the caller promises.
        unsafe {
            each_block::<W>(source, stride, stage, tile, ahead, (2 * side, side), W::block_256)
        }
    }

    /// Calls `transpose_tile` for each block of (rows, columns) and returns how many of each there are.
    #[inline(always)]
    unsafe fn each_block<W>(
        source: *const u8,
        stride: usize,
        stage: *mut u8,
        tile: (usize, usize),
        ahead: usize,
        block: (usize, usize),
        transpose_tile: unsafe fn(*const u8, usize, *mut u8, usize),
    ) -> (usize, usize) {
        let width = size_of::<W>();
        let whole = (tile.0 / block.0 * block.0, tile.1 / block.1 * block.1);
        for column in (0..whole.1).step_by(block.1) {
            for next in column..column + block.1 {
                for line in (0..whole.0 * width).step_by(LINE) {
                    prefetch(source.wrapping_add(next * stride + ahead + line));
                }
            }
            for row in (0..whole.0).step_by(block.0) {
                // SAFETY: the block is a part of the tile.
                unsafe {
                    let from = source.add(column * stride + row * width);
                    let to = stage.add((row * tile.1 + column) * width);
                    transpose_tile(from, stride, to, tile.1 * width);
                }
            }
        }
        whole
    }
}
