//! Contiguous along one loop at the source and along another at the target.
//!
//! Tiles of one stick by one stick are turned in registers, into a stage that stays in the cache;
//! from there they are converted if need be, and written a stick at a time.

use super::stream::{self, LINE, Rows};
use super::{Mover, Strides};

/// A tile has at most this many bytes in the wider of the two formats.
const STAGE_BYTES: usize = 16 << 10;
const STICK: usize = spyre_numerics::STICK_BYTES;

#[repr(align(64))]
struct Stage([u8; STAGE_BYTES]);

/// A tile: `rows` run along the source, `columns` along the target.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
}

impl Mover {
    /// Turns all of two loops.
    ///
    /// # Safety
    /// They lie inside both buffers.
    pub(super) unsafe fn transpose(&self, source: *const u8, target: *mut u8, strides: &Strides) {
        let (lane, near) = (strides.lane, strides.near);
        let side = STICK / self.source_bytes.max(self.target_bytes);
        let source_stride = lane.source_stride * self.source_bytes;
        let mut turned = Stage([0; STAGE_BYTES]);
        let mut converted = Stage([0; STAGE_BYTES]);
        for column in (0..lane.range).step_by(side) {
            for row in (0..near.range).step_by(side) {
                let tile = Tile {
                    rows: side.min(near.range - row),
                    columns: side.min(lane.range - column),
                };
                // SAFETY: the tile is a part of the loops, and fits the stages.
                unsafe {
                    let from = source.add(column * source_stride + row * near.source);
                    let to = target.add(column * self.target_bytes + row * near.target);
                    turn(self.source_bytes, from, source_stride, turned.0.as_mut_ptr(), tile);
                    let tile_bytes = if self.converter.is_copy() {
                        turned.0.as_ptr()
                    } else {
                        let elements = tile.rows * tile.columns;
                        self.convert(turned.0.as_ptr(), converted.0.as_mut_ptr(), elements);
                        converted.0.as_ptr()
                    };
                    self.write_tile(tile_bytes, to, near.target, tile);
                }
            }
        }
    }

    /// # Safety
    /// The target holds the tile's rows.
    unsafe fn write_tile(&self, stage: *const u8, target: *mut u8, stride: usize, tile: Tile) {
        let bytes = tile.columns * self.target_bytes;
        let rows = Rows { count: tile.rows, bytes, source_stride: bytes, target_stride: stride };
        let is_aligned = (target as usize | stride | bytes).is_multiple_of(LINE);
        // SAFETY: as the caller promises; aligned where it streams.
        unsafe {
            if self.streams && is_aligned {
                stream::copy_rows(self.tier, stage, target, rows);
                return;
            }
            for row in 0..rows.count {
                let (from, to) = (stage.add(row * bytes), target.add(row * stride));
                std::ptr::copy_nonoverlapping(from, to, bytes);
            }
        }
    }
}

/// Turns a tile of elements of a width into `stage`, whose rows are packed.
///
/// # Safety
/// The source holds `tile.columns` runs of `tile.rows` elements; the stage holds the tile.
unsafe fn turn(width: usize, source: *const u8, stride: usize, stage: *mut u8, tile: Tile) {
    // SAFETY: as the caller promises.
    unsafe {
        match width {
            1 => turn_blocks::<u8, 16>(source, stride, stage, tile),
            2 => turn_blocks::<u16, 8>(source, stride, stage, tile),
            4 => turn_blocks::<u32, 4>(source, stride, stage, tile),
            8 => turn_blocks::<u64, 2>(source, stride, stage, tile),
            _ => turn_words::<u128>(source, stride, stage, tile, (0, 0)),
        }
    }
}

/// Whole blocks of `N` by `N` in registers, the rest word by word.
unsafe fn turn_blocks<W: Word<N>, const N: usize>(
    source: *const u8,
    stride: usize,
    stage: *mut u8,
    tile: Tile,
) {
    let width = size_of::<W>();
    let whole = (tile.rows / N * N, tile.columns / N * N);
    for column in (0..whole.1).step_by(N) {
        for row in (0..whole.0).step_by(N) {
            // SAFETY: the block is a part of the tile.
            unsafe {
                let from = source.add(column * stride + row * width);
                let to = stage.add((row * tile.columns + column) * width);
                W::turn(from, stride, to, tile.columns * width);
            }
        }
    }
    // SAFETY: as the caller promises.
    unsafe { turn_words::<W>(source, stride, stage, tile, whole) }
}

/// Turns what lies outside the first `done` rows and columns, word by word.
unsafe fn turn_words<W>(
    source: *const u8,
    stride: usize,
    stage: *mut u8,
    tile: Tile,
    done: (usize, usize),
) {
    let width = size_of::<W>();
    for column in 0..tile.columns {
        let start = if column < done.1 { done.0 } else { 0 };
        for row in start..tile.rows {
            // SAFETY: the element is a part of the tile; no alignment is assumed.
            unsafe {
                let word = source.add(column * stride + row * width).cast::<W>().read_unaligned();
                stage.add((row * tile.columns + column) * width).cast::<W>().write_unaligned(word);
            }
        }
    }
}

/// A word of which `N` fill a vector register.
trait Word<const N: usize> {
    /// Turns a block of `N` by `N` words.
    ///
    /// # Safety
    /// Both ends hold the block.
    unsafe fn turn(source: *const u8, from: usize, target: *mut u8, to: usize);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Word;

    /// `log2(N)` rounds of interleaving register i with register i + N/2: each moves one bit of
    /// the row number into the column number.
    macro_rules! word {
        ($($word:ty, $n:literal, $low:ident, $high:ident;)*) => { $(
            impl Word<$n> for $word {
                #[inline(always)]
                unsafe fn turn(source: *const u8, from: usize, target: *mut u8, to: usize) {
                    const N: usize = $n;
                    // SAFETY: as the caller promises; SSE2 is part of x86-64.
                    unsafe {
                        let mut rows = [_mm_setzero_si128(); N];
                        for at in 0..N {
                            rows[at] = _mm_loadu_si128(source.add(at * from).cast());
                        }
                        for _ in 0..N.ilog2() {
                            let old = rows;
                            for at in 0..N / 2 {
                                rows[2 * at] = $low(old[at], old[at + N / 2]);
                                rows[2 * at + 1] = $high(old[at], old[at + N / 2]);
                            }
                        }
                        for at in 0..N {
                            _mm_storeu_si128(target.add(at * to).cast(), rows[at]);
                        }
                    }
                }
            }
        )* };
    }

    word! {
        u8, 16, _mm_unpacklo_epi8, _mm_unpackhi_epi8;
        u16, 8, _mm_unpacklo_epi16, _mm_unpackhi_epi16;
        u32, 4, _mm_unpacklo_epi32, _mm_unpackhi_epi32;
        u64, 2, _mm_unpacklo_epi64, _mm_unpackhi_epi64;
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl<W, const N: usize> Word<N> for W {
    unsafe fn turn(source: *const u8, from: usize, target: *mut u8, to: usize) {
        for column in 0..N {
            for row in 0..N {
                // SAFETY: as the caller promises; no alignment is assumed.
                unsafe {
                    let word = source.add(column * from).cast::<W>().add(row).read_unaligned();
                    target.add(row * to).cast::<W>().add(column).write_unaligned(word);
                }
            }
        }
    }
}
