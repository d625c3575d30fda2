//! Running a nest.
//!
//! The only code of this crate that touches memory by address. `DmaNest::copy` compares the reach
//! of the nest with both buffers once; below it every address is inside them.
#![allow(unsafe_code, reason = "strided copies with vector instructions")]

mod rows;
mod scatter;
mod stream;
mod transpose;
mod walk;

use smallvec::SmallVec;
use spyre_numerics::{Converter, Tier};

use crate::nest::plan::{Kind, Plan};
use crate::{Crew, DmaBox, DmaLoop, DmaNest, Error};

/// Less than this is not worth a second thread.
const BYTES_PER_THREAD: usize = 256 << 10;

/// From this on, results are too many to stay in a cache: they are written past it.
const STREAM_BYTES: usize = 4 << 20;

impl DmaNest {
    /// Copies from `source` to `target` with as many threads as pay off.
    ///
    /// Only elements of the view are written: padding keeps what it held. An `Err` means that
    /// nothing was.
    pub fn copy(&self, source: &[u8], target: &mut [u8], crew: &dyn Crew) -> Result<(), Error> {
        check_reach("source", source.len(), self.source_reach_bytes())?;
        check_reach("target", target.len(), self.target_reach_bytes())?;
        let bytes = self.elements() * self.target_bytes();
        let mover = Mover {
            source: source.as_ptr(),
            target: target.as_mut_ptr(),
            converter: *self.converter(),
            source_bytes: self.source_bytes(),
            target_bytes: self.target_bytes(),
            streams: bytes >= STREAM_BYTES,
            tier: Tier::detected(),
        };
        let threads = if self.is_disjoint() { bytes / BYTES_PER_THREAD } else { 1 };
        match threads.min(crew.threads()) {
            0 | 1 => self.copy_alone(&mover),
            parts => crew.run(parts, &|part| self.copy_part(&mover, part, parts)),
        }
        Ok(())
    }

    fn copy_alone(&self, mover: &Mover) {
        for dma_box in self.boxes() {
            // SAFETY: the reach was checked.
            unsafe { mover.carry(dma_box) };
        }
        if let Some(walk) = self.walk() {
            // SAFETY: the reach was checked.
            unsafe { mover.walk(walk) };
        }
    }

    fn copy_part(&self, mover: &Mover, part: usize, parts: usize) {
        for dma_box in self.boxes().iter().filter_map(|dma_box| dma_box.part(part, parts)) {
            // SAFETY: the reach was checked, and parts of a disjoint nest do not overlap.
            unsafe { mover.carry(&dma_box) };
        }
    }
}

fn check_reach(end: &'static str, given: usize, needed: usize) -> Result<(), Error> {
    if given < needed {
        return Err(Error::BufferTooShort { end, given, needed });
    }
    Ok(())
}

/// Both ends of a copy, as addresses.
struct Mover {
    source: *const u8,
    target: *mut u8,
    converter: Converter,
    source_bytes: usize,
    target_bytes: usize,
    /// Whether to write past the cache.
    streams: bool,
    tier: Tier,
}

// SAFETY: the buffers outlive the copy, and threads write to disjoint places.
unsafe impl Sync for Mover {}

impl Mover {
    /// Carries one box.
    ///
    /// # Safety
    /// The box lies inside both buffers.
    unsafe fn carry(&self, dma_box: &DmaBox) {
        let plan = dma_box.plan();
        // SAFETY: the box starts inside both buffers.
        let (source, target) = unsafe {
            (
                self.source.add(dma_box.source_offset() * self.source_bytes),
                self.target.add(dma_box.target_offset() * self.target_bytes),
            )
        };
        let strides = Strides::of(plan, self);
        // SAFETY: every step of the odometer is an element of the box.
        odometer(&strides.outer, |from, to| unsafe {
            let (source, target) = (source.add(from), target.add(to));
            match plan.kind {
                Kind::Rows => self.rows(source, target, &strides),
                Kind::Transpose => self.transpose(source, target, &strides),
                Kind::Scatter => self.scatter(source, target, &strides),
            }
        });
        if self.streams {
            stream::fence();
        }
    }
}

/// A loop whose strides are in bytes.
#[derive(Clone, Copy)]
struct ByteLoop {
    range: usize,
    source: usize,
    target: usize,
}

/// A plan's loops in bytes; the lane stays in elements.
struct Strides {
    lane: DmaLoop,
    near: ByteLoop,
    far: ByteLoop,
    outer: SmallVec<[ByteLoop; 3]>,
}

impl Strides {
    fn of(plan: &Plan, mover: &Mover) -> Self {
        let bytes = |l: &DmaLoop| ByteLoop {
            range: l.range,
            source: l.source_stride * mover.source_bytes,
            target: l.target_stride * mover.target_bytes,
        };
        Self {
            lane: plan.lane,
            near: bytes(&plan.near),
            far: bytes(&plan.far),
            outer: plan.outer.iter().map(bytes).collect(),
        }
    }
}

/// Calls `f` with both offsets for every index of the loops, the last one fastest.
#[inline]
fn odometer(loops: &[ByteLoop], mut f: impl FnMut(usize, usize)) {
    let Some((inner, outer)) = loops.split_last() else { return f(0, 0) };
    let mut index: SmallVec<[usize; 4]> = smallvec::smallvec![0; outer.len()];
    let (mut from, mut to) = (0, 0);
    loop {
        for step in 0..inner.range {
            f(from + step * inner.source, to + step * inner.target);
        }
        let Some(at) = (0..outer.len()).rev().find(|&at| index[at] + 1 < outer[at].range) else {
            return;
        };
        for at in at + 1..outer.len() {
            from -= index[at] * outer[at].source;
            to -= index[at] * outer[at].target;
            index[at] = 0;
        }
        index[at] += 1;
        from += outer[at].source;
        to += outer[at].target;
    }
}
