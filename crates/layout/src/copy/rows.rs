//! Contiguous runs: a stick, or a part of one, at both ends.

use std::mem::MaybeUninit;

use spyre_numerics::{Rows, STICK_BYTES};

use super::stream::{self, LINE};
use super::{Mover, Strides, odometer};

/// Runs that are carried together where the two ends order them differently: the source is then
/// read as this many streams, and the target is written in pieces of as many runs.
const BLOCK: usize = 16;

impl Mover<'_> {
    /// Carries all runs of a box.
    ///
    /// # Safety
    /// They lie inside both buffers.
    pub(super) unsafe fn rows(
        &self,
        source: *const u8,
        target: *mut u8,
        strides: &Strides,
        second: Option<Second>,
    ) {
        let near = strides.near;
        let far = strides.far;
        let way = match second {
            Some(second) => Way::Join(second),
            None => Way::of(self, target, strides),
        };
        let fetches = matches!(way, Way::StreamConvert) && far.range > 1;
        let block = if far.range == 1 { near.range } else { BLOCK };
        let rows = |count| Rows {
            count,
            elements: strides.lane.range,
            source_stride: near.source,
            target_stride: near.target,
        };
        odometer(&strides.outer, |outer_from, outer_to| {
            for start in (0..near.range).step_by(block) {
                let rows = rows(block.min(near.range - start));
                for step in 0..far.range {
                    let from = outer_from + start * near.source + step * far.source;
                    let to = outer_to + start * near.target + step * far.target;
                    if fetches {
                        self.fetch(source.wrapping_add(from + far.source), rows);
                    }
                    // SAFETY: these runs are among the box's.
                    unsafe { self.carry_rows(way, source.add(from), target.add(to), rows) };
                }
            }
        });
    }

    /// Asks for rows to be brought close: converting them leaves the memory idle between reads.
    #[inline]
    fn fetch(&self, source: *const u8, rows: Rows) {
        for row in 0..rows.count {
            for at in (0..rows.elements * self.source_bytes).step_by(LINE) {
                stream::prefetch(source.wrapping_add(row * rows.source_stride + at));
            }
        }
    }

    /// # Safety
    /// The rows lie inside both buffers, and the way suits them.
    #[inline]
    unsafe fn carry_rows(&self, way: Way, source: *const u8, target: *mut u8, rows: Rows) {
        // SAFETY: as the caller promises.
        unsafe {
            match way {
                Way::Copy => copy(source, target, rows, rows.elements * self.target_bytes),
                Way::CopySticks => copy(source, target, rows, STICK_BYTES),
                Way::Gather => self.gather(source, target, rows),
                Way::Join(second) => self.join(source, target, rows, second),
                Way::StreamCopy => {
                    let bytes = rows.elements * self.target_bytes;
                    stream::copy_rows(self.tier, source, target, rows, bytes);
                }
                Way::Convert => self.converter.convert_rows(source, target, rows),
                Way::StreamConvert => self.converter.stream_rows(source, target, rows),
            }
        }
    }
}

/// Place of the second part of every run.
#[derive(Clone, Copy)]
pub(super) struct Second {
    /// Distance from the first part of a run to the second.
    pub(super) distance: isize,
    /// Length of the second part.
    pub(super) bytes: usize,
}

/// Method by which runs are written.
#[derive(Clone, Copy)]
enum Way {
    Copy,
    CopySticks,
    /// Copies by way of a stage, to a target that is contiguous but not aligned.
    Gather,
    /// Copies by way of a stage, from two places.
    Join(Second),
    StreamCopy,
    Convert,
    StreamConvert,
}

impl Way {
    fn of(mover: &Mover<'_>, target: *mut u8, strides: &Strides) -> Self {
        let bytes = strides.lane.range * mover.target_bytes;
        let is_aligned = (target as usize | strides.target_steps() | bytes).is_multiple_of(LINE);
        let streams = mover.streams && is_aligned;
        let is_contiguous = strides.near.target == bytes && bytes <= STICK_BYTES;
        if !mover.converter.is_copy() {
            return if streams && mover.converter.streams() {
                Self::StreamConvert
            } else {
                Self::Convert
            };
        }
        if streams {
            Self::StreamCopy
        } else if mover.streams && is_contiguous {
            Self::Gather
        } else if bytes == STICK_BYTES {
            Self::CopySticks
        } else {
            Self::Copy
        }
    }
}

/// Copies rows of `bytes`. Inlined, so that a length that is known where it is called shows.
#[inline(always)]
unsafe fn copy(source: *const u8, target: *mut u8, rows: Rows, bytes: usize) {
    for row in 0..rows.count {
        // SAFETY: as the caller promises.
        unsafe {
            let from = source.add(row * rows.source_stride);
            let to = target.add(row * rows.target_stride);
            copy_run(from, to, bytes);
        }
    }
}

/// Copies up to a stick as two pieces that may overlap: no call, no loop.
#[inline(always)]
unsafe fn copy_run(source: *const u8, target: *mut u8, bytes: usize) {
    /// The first and the last `N` bytes.
    #[inline(always)]
    unsafe fn two<const N: usize>(source: *const u8, target: *mut u8, bytes: usize) {
        // SAFETY: there are at least `N` bytes; all is read before anything is written.
        unsafe {
            let first = *source.cast::<[u8; N]>();
            let last = *source.add(bytes - N).cast::<[u8; N]>();
            *target.cast::<[u8; N]>() = first;
            *target.add(bytes - N).cast::<[u8; N]>() = last;
        }
    }
    // SAFETY: as the caller promises; each arm's pieces fit.
    unsafe {
        match bytes {
            0 => {}
            1 => *target = *source,
            2..4 => two::<2>(source, target, bytes),
            4..8 => two::<4>(source, target, bytes),
            8..16 => two::<8>(source, target, bytes),
            16..32 => two::<16>(source, target, bytes),
            32..64 => two::<32>(source, target, bytes),
            64..=128 => two::<64>(source, target, bytes),
            _ => std::ptr::copy_nonoverlapping(source, target, bytes),
        }
    }
}

/// Number of rows that a join prefetches ahead in its second source, which it is the first to read.
const AHEAD: usize = 16;

/// Bytes that are gathered before they are written.
const STAGE_BYTES: usize = 4096;

#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STAGE_BYTES]);

impl Mover<'_> {
    /// Gathers rows that follow each other at the target, and streams what fills whole lines.
    ///
    /// # Safety
    /// The rows lie inside both buffers, are no longer than a stick, and follow each other.
    unsafe fn gather(&self, source: *const u8, target: *mut u8, rows: Rows) {
        let mut stage = Stage([MaybeUninit::uninit(); STAGE_BYTES]);
        let stage = stage.0.as_mut_ptr().cast::<u8>();
        let bytes = rows.target_stride;
        let most = STAGE_BYTES / bytes;
        for start in (0..rows.count).step_by(most) {
            let rows = Rows { count: most.min(rows.count - start), ..rows };
            // SAFETY: as the caller promises; the stage holds `most` rows.
            unsafe {
                let from = source.add(start * rows.source_stride);
                let to = target.add(start * bytes);
                copy(from, stage, rows, bytes);
                stream::copy_unaligned(self.tier, stage, to, rows.count * bytes);
            }
        }
    }

    /// Joins the two parts of each row, and writes whole sticks.
    ///
    /// # Safety
    /// Both parts of the rows lie inside the source, the rows inside the target; they are sticks.
    unsafe fn join(&self, source: *const u8, target: *mut u8, rows: Rows, second: Second) {
        let mut stage = Stage([MaybeUninit::uninit(); STAGE_BYTES]);
        let stage = stage.0.as_mut_ptr().cast::<u8>();
        let first_bytes = rows.elements * self.target_bytes;
        let most = STAGE_BYTES / STICK_BYTES;
        let streams = self.streams && (target as usize | rows.target_stride).is_multiple_of(LINE);
        for start in (0..rows.count).step_by(most) {
            let count = most.min(rows.count - start);
            let written = Rows { count, source_stride: STICK_BYTES, ..rows };
            // SAFETY: as the caller promises; the stage holds `most` sticks.
            unsafe {
                let from = source.add(start * rows.source_stride);
                let to = target.add(start * rows.target_stride);
                for row in 0..count {
                    let from = from.add(row * rows.source_stride);
                    let to = row * STICK_BYTES;
                    let next = from.offset(second.distance);
                    stream::prefetch(next.wrapping_add(AHEAD * rows.source_stride));
                    stream::prefetch(next.wrapping_add(AHEAD * rows.source_stride + LINE));
                    copy_run(from, stage.add(to), first_bytes);
                    copy_run(next, stage.add(to + first_bytes), second.bytes);
                }
                if streams {
                    stream::copy_rows(self.tier, stage, to, written, STICK_BYTES);
                } else {
                    copy(stage, to, written, STICK_BYTES);
                }
            }
        }
    }

    /// Converts contiguous elements.
    ///
    /// # Safety
    /// Both ends hold them.
    #[inline]
    pub(super) unsafe fn convert(&self, source: *const u8, target: *mut u8, elements: usize) {
        let rows = Rows { count: 1, elements, source_stride: 0, target_stride: 0 };
        // SAFETY: as the caller promises; source and target never overlap.
        unsafe { self.converter.convert_rows(source, target, rows) };
    }
}
