//! Element by element: one per stick, every other lane, and whatever else is strided at both ends.

use super::{Mover, Strides, odometer};
use crate::DmaLoop;

/// Elements that are gathered, converted and scattered together.
const STAGE: usize = 64;
const WIDEST: usize = 16;

impl Mover<'_> {
    /// Carries the elements of a plan.
    ///
    /// # Safety
    /// They lie inside both buffers.
    pub(super) unsafe fn scatter(&self, source: *const u8, target: *mut u8, strides: &Strides) {
        odometer(&strides.outer, |from, to| {
            // SAFETY: this run is one of the plan's.
            unsafe { self.strided(source.add(from), target.add(to), strides.lane) }
        });
    }

    /// Carries one strided run.
    ///
    /// # Safety
    /// It lies inside both buffers.
    pub(super) unsafe fn strided(&self, source: *const u8, target: *mut u8, lane: DmaLoop) {
        let from = lane.source_stride * self.source_bytes;
        let to = lane.target_stride * self.target_bytes;
        // SAFETY: as the caller promises.
        unsafe {
            if self.converter.is_copy() {
                move_elements(self.source_bytes, source, from, target, to, lane.range);
            } else if lane.range == 1 {
                self.convert(source, target, 1);
            } else {
                self.convert_strided(source, from, target, to, lane.range);
            }
        }
    }

    unsafe fn convert_strided(
        &self,
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
        count: usize,
    ) {
        let mut gathered = [0u8; STAGE * WIDEST];
        let mut converted = [0u8; STAGE * WIDEST];
        for start in (0..count).step_by(STAGE) {
            let elements = STAGE.min(count - start);
            // SAFETY: as the caller promises; the stages hold as many elements.
            unsafe {
                let near = gathered.as_mut_ptr();
                let far = converted.as_mut_ptr();
                let from_bytes = self.source_bytes;
                let to_bytes = self.target_bytes;
                move_elements(
                    from_bytes,
                    source.add(start * from),
                    from,
                    near,
                    from_bytes,
                    elements,
                );
                self.convert(near, far, elements);
                move_elements(to_bytes, far, to_bytes, target.add(start * to), to, elements);
            }
        }
    }
}

/// Moves elements of a width between strided places.
///
/// # Safety
/// Both ends hold them; strides are in bytes.
unsafe fn move_elements(
    width: usize,
    source: *const u8,
    from: usize,
    target: *mut u8,
    to: usize,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match width {
            1 => move_words::<u8>(source, from, target, to, count),
            2 => move_words::<u16>(source, from, target, to, count),
            4 => move_words::<u32>(source, from, target, to, count),
            8 => move_words::<u64>(source, from, target, to, count),
            _ => move_words::<u128>(source, from, target, to, count),
        }
    }
}

#[inline(always)]
unsafe fn move_words<W>(source: *const u8, from: usize, target: *mut u8, to: usize, count: usize) {
    for at in 0..count {
        // SAFETY: as the caller promises; no alignment is assumed.
        unsafe {
            let word = source.add(at * from).cast::<W>().read_unaligned();
            target.add(at * to).cast::<W>().write_unaligned(word);
        }
    }
}
