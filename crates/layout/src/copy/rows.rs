//! Contiguous runs: a stick, or a part of one, at both ends.

use super::stream::{self, LINE, Rows};
use super::{Mover, Strides};

/// Runs that are carried together where the two ends order them differently: the source is then
/// read as this many streams, and the target is written in pieces of as many runs.
const BLOCK: usize = 8;

/// Bytes of converted runs that wait in the L1 cache to be streamed.
const STAGE_BYTES: usize = 4096;

#[repr(align(64))]
struct Stage([u8; STAGE_BYTES]);

impl Mover {
    /// Carries all runs of two loops.
    ///
    /// # Safety
    /// They lie inside both buffers.
    pub(super) unsafe fn rows(&self, source: *const u8, target: *mut u8, strides: &Strides) {
        let (near, far) = (strides.near, strides.far);
        let run = Run::of(self, target, strides);
        let block = if far.range == 1 { near.range } else { BLOCK };
        for start in (0..near.range).step_by(block) {
            let count = block.min(near.range - start);
            for step in 0..far.range {
                // SAFETY: these runs are among the loops'.
                unsafe {
                    let from = source.add(start * near.source + step * far.source);
                    let to = target.add(start * near.target + step * far.target);
                    run.carry(self, from, to, count);
                }
            }
        }
    }
}

/// Runs of one length, with the distance between them.
struct Run {
    elements: usize,
    target_bytes: usize,
    source_stride: usize,
    target_stride: usize,
    way: Way,
}

/// How a run is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Copy,
    CopyStick,
    StreamCopy,
    Convert,
    StreamConvert,
}

impl Run {
    fn of(mover: &Mover, target: *mut u8, strides: &Strides) -> Self {
        let elements = strides.lane.range;
        let target_bytes = elements * mover.target_bytes;
        let mut run = Self {
            elements,
            target_bytes,
            source_stride: strides.near.source,
            target_stride: strides.near.target,
            way: Way::Copy,
        };
        let steps = strides.near.target | strides.far.target;
        let is_aligned = (target as usize | steps | target_bytes).is_multiple_of(LINE);
        run.way = match (mover.converter.is_copy(), mover.streams && is_aligned) {
            (true, true) => Way::StreamCopy,
            (true, false) if target_bytes == spyre_numerics::STICK_BYTES => Way::CopyStick,
            (true, false) => Way::Copy,
            (false, true) => Way::StreamConvert,
            (false, false) => Way::Convert,
        };
        run
    }

    /// # Safety
    /// `count` runs lie inside both buffers.
    #[inline]
    unsafe fn carry(&self, mover: &Mover, source: *const u8, target: *mut u8, count: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.way {
                Way::Copy => self.copy(source, target, count),
                Way::CopyStick => self.copy_sticks(source, target, count),
                Way::StreamCopy => {
                    let rows = Rows {
                        count,
                        bytes: self.target_bytes,
                        source_stride: self.source_stride,
                        target_stride: self.target_stride,
                    };
                    stream::copy_rows(mover.tier, source, target, rows);
                }
                Way::Convert => self.convert(mover, source, target, count),
                Way::StreamConvert => self.stream_convert(mover, source, target, count),
            }
        }
    }

    unsafe fn copy(&self, source: *const u8, target: *mut u8, count: usize) {
        for row in 0..count {
            // SAFETY: as the caller promises.
            unsafe {
                let from = source.add(row * self.source_stride);
                let to = target.add(row * self.target_stride);
                std::ptr::copy_nonoverlapping(from, to, self.target_bytes);
            }
        }
    }

    unsafe fn copy_sticks(&self, source: *const u8, target: *mut u8, count: usize) {
        for row in 0..count {
            // SAFETY: as the caller promises; a stick is as long as the array.
            unsafe {
                let from = source.add(row * self.source_stride);
                let to = target.add(row * self.target_stride);
                *to.cast::<[u8; spyre_numerics::STICK_BYTES]>() = *from.cast();
            }
        }
    }

    unsafe fn convert(&self, mover: &Mover, source: *const u8, target: *mut u8, count: usize) {
        for row in 0..count {
            // SAFETY: as the caller promises.
            unsafe {
                let from = source.add(row * self.source_stride);
                let to = target.add(row * self.target_stride);
                mover.convert(from, to, self.elements);
            }
        }
    }

    /// Converts into a stage that stays in the cache, and streams from there.
    unsafe fn stream_convert(
        &self,
        mover: &Mover,
        source: *const u8,
        target: *mut u8,
        count: usize,
    ) {
        let mut stage = Stage([0; STAGE_BYTES]);
        let most = STAGE_BYTES / mover.target_bytes / LINE * LINE;
        for row in 0..count {
            for start in (0..self.elements).step_by(most) {
                let elements = most.min(self.elements - start);
                let bytes = elements * mover.target_bytes;
                // SAFETY: as the caller promises; the stage holds `most` elements.
                unsafe {
                    let from = source.add(row * self.source_stride + start * mover.source_bytes);
                    let to = target.add(row * self.target_stride + start * mover.target_bytes);
                    mover.convert(from, stage.0.as_mut_ptr(), elements);
                    let rows = Rows { count: 1, bytes, source_stride: 0, target_stride: 0 };
                    stream::copy_rows(mover.tier, stage.0.as_ptr(), to, rows);
                }
            }
        }
    }
}

impl Mover {
    /// Converts contiguous elements.
    ///
    /// # Safety
    /// Both ends hold them.
    #[inline]
    pub(super) unsafe fn convert(&self, source: *const u8, target: *mut u8, elements: usize) {
        // SAFETY: as the caller promises; source and target never overlap.
        let (from, to) = unsafe {
            (
                std::slice::from_raw_parts(source, elements * self.source_bytes),
                std::slice::from_raw_parts_mut(target, elements * self.target_bytes),
            )
        };
        let result = self.converter.convert(from, to);
        debug_assert_eq!(result, Ok(()), "both slices hold the same number of elements");
    }
}
