//! Contiguous along one loop at the source and along another at the target.
//!
//! Tiles of one stick by one stick are transposed in registers, into a stage that stays in the cache;
//! from there they are converted if need be, and written a stick at a time.

mod blocks;

use std::mem::MaybeUninit;

use spyre_numerics::{Rows, Tier};

use super::stream::{self, LINE};
use super::{Mover, Strides, odometer};

/// A tile has at most this many bytes in the wider of the two formats.
const STAGE_BYTES: usize = 16 << 10;
const STICK: usize = spyre_numerics::STICK_BYTES;

/// Room for a tile before and after its conversion; what is read was written first.
#[repr(align(64))]
struct Stages {
    transposed: [MaybeUninit<u8>; STAGE_BYTES],
    converted: [MaybeUninit<u8>; STAGE_BYTES],
}

/// A tile: `rows` run along the source, `columns` along the target.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
}

impl Mover<'_> {
    /// Turns everything of a plan.
    ///
    /// # Safety
    /// It lies inside both buffers.
    pub(super) unsafe fn transpose(&self, source: *const u8, target: *mut u8, strides: &Strides) {
        let lane = strides.lane;
        let near = strides.near;
        let side = STICK / self.source_bytes.max(self.target_bytes);
        let lane_bytes = lane.source_stride * self.source_bytes;
        // The next tile lies further along the source's run, or else along the loop around it.
        let ahead = if near.range > side {
            side * near.source
        } else {
            strides.outer.last().map_or(0, |l| l.source)
        };
        let uninit = [MaybeUninit::uninit(); STAGE_BYTES];
        let mut stages = Stages { transposed: uninit, converted: uninit };
        odometer(&strides.outer, |outer_from, outer_to| {
            for column in (0..lane.range).step_by(side) {
                for row in (0..near.range).step_by(side) {
                    let rows = side.min(near.range - row);
                    let tile = Tile { rows, columns: side.min(lane.range - column) };
                    let from = outer_from + column * lane_bytes + row * near.source;
                    let to = outer_to + column * self.target_bytes + row * near.target;
                    // SAFETY: the tile is a part of the plan.
                    unsafe {
                        let source = source.add(from);
                        let target = target.add(to);
                        let stage = self.turn_tile(&mut stages, source, lane_bytes, tile, ahead);
                        self.write_tile(stage, target, near.target, tile);
                    }
                }
            }
        });
    }

    /// Turns and converts a tile into one of the stages.
    ///
    /// # Safety
    /// The source holds the tile, and the stages have room for it.
    unsafe fn turn_tile(
        &self,
        stages: &mut Stages,
        source: *const u8,
        stride: usize,
        tile: Tile,
        ahead: usize,
    ) -> *const u8 {
        let transposed = stages.transposed.as_mut_ptr().cast::<u8>();
        let converted = stages.converted.as_mut_ptr().cast::<u8>();
        // SAFETY: as the caller promises.
        unsafe {
            transpose_tile(self, source, stride, transposed, tile, ahead);
            if self.converter.is_copy() {
                return transposed;
            }
            self.convert(transposed, converted, tile.rows * tile.columns);
            converted
        }
    }

    /// # Safety
    /// The target holds the tile's rows.
    unsafe fn write_tile(&self, stage: *const u8, target: *mut u8, stride: usize, tile: Tile) {
        let bytes = tile.columns * self.target_bytes;
        let rows = Rows {
            count: tile.rows,
            elements: tile.columns,
            source_stride: bytes,
            target_stride: stride,
        };
        let is_aligned = (target as usize | stride | bytes).is_multiple_of(LINE);
        // SAFETY: as the caller promises; aligned where it streams.
        unsafe {
            if self.streams && is_aligned {
                stream::copy_rows(self.tier, stage, target, rows, bytes);
                return;
            }
            for row in 0..rows.count {
                let from = stage.add(row * bytes);
                let to = target.add(row * stride);
                std::ptr::copy_nonoverlapping(from, to, bytes);
            }
        }
    }
}

/// Turns a tile of elements of a width into `stage`, whose rows are packed.
///
/// # Safety
/// The source holds `tile.columns` runs of `tile.rows` elements; the stage holds the tile.
unsafe fn transpose_tile(
    mover: &Mover<'_>,
    source: *const u8,
    stride: usize,
    stage: *mut u8,
    tile: Tile,
    ahead: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match mover.source_bytes {
            1 => turn_blocks::<u8>(mover.tier, source, stride, stage, tile, ahead),
            2 => turn_blocks::<u16>(mover.tier, source, stride, stage, tile, ahead),
            4 => turn_blocks::<u32>(mover.tier, source, stride, stage, tile, ahead),
            8 => turn_blocks::<u64>(mover.tier, source, stride, stage, tile, ahead),
            _ => turn_words::<u128>(source, stride, stage, tile, (0, 0)),
        }
    }
}

/// Whole blocks in registers, the rest word by word.
unsafe fn turn_blocks<W: blocks::Word>(
    tier: Tier,
    source: *const u8,
    stride: usize,
    stage: *mut u8,
    tile: Tile,
    ahead: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let size = (tile.rows, tile.columns);
        let done = blocks::transpose_tile::<W>(tier, source, stride, stage, size, ahead);
        turn_words::<W>(source, stride, stage, tile, done);
    }
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
