//! Running a nest.
//!
//! The only code of this crate that touches memory by address. `DmaNest::copy` compares the reach
//! of the nest with both buffers once; below it every address is inside them.
#![allow(unsafe_code, reason = "strided copies with vector instructions")]

mod grid;
mod plain;
mod rows;
mod scatter;
mod stream;
mod transpose;
mod walk;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use spyre_numerics::{Converter, Tier};

use crate::nest::plan::Kind;
use crate::{Crew, DmaBox, DmaLoop, DmaNest, Error};
pub use grid::{StickGrid, copy_stick_grid, copy_stick_grid_past_cache, store_stick_past_cache};
pub use plain::{copy_past_cache, copy_rows_past_cache, store_fence};

/// Less than this is not worth a second thread.
const BYTES_PER_THREAD: usize = 256 << 10;

/// Least bytes of results that do not stay in a cache: they are written past it.
pub const STREAM_BYTES: usize = 4 << 20;

/// Bytes that one round of all boxes touches, so that boxes that share cache lines find them there.
const ROUND_BYTES: usize = 256 << 10;

impl DmaNest {
    /// Copies from `source` to `target` with as many threads as pay off.
    ///
    /// Only elements of the view are written: padding keeps what it held. An `Err` means that
    /// nothing was. A walk by index, and a target whose elements may overlap, take one thread.
    pub fn copy(&self, source: &[u8], target: &mut [u8], crew: &dyn Crew) -> Result<(), Error> {
        check_reach("source", source.len(), self.source_reach_bytes())?;
        check_reach("target", target.len(), self.target_reach_bytes())?;
        if let Some(run) = self.only_run() {
            let from = run.source(self.source_bytes());
            let to = run.target(self.target_bytes());
            return Ok(self.converter().convert(&source[from], &mut target[to])?);
        }
        let bytes = self.elements() * self.target_bytes();
        let mover = Mover {
            source: source.as_ptr(),
            target: target.as_mut_ptr(),
            converter: self.converter(),
            source_bytes: self.source_bytes(),
            target_bytes: self.target_bytes(),
            streams: bytes >= STREAM_BYTES,
            tier: Tier::detected(),
        };
        let may_share = self.is_disjoint() && !self.is_walk();
        let threads = if may_share { bytes / BYTES_PER_THREAD } else { 1 };
        let parts = threads.min(crew.threads()).max(1);
        let rounds = if self.is_one_box() { 1 } else { bytes.div_ceil(ROUND_BYTES * parts) };
        match parts {
            1 => self.copy_rounds(&mover, 0..rounds, rounds),
            _ => {
                // A crew that breaks its contract and runs a part twice must not make two threads
                // write to one place.
                let claimed: Vec<AtomicBool> = (0..parts).map(|_| AtomicBool::new(false)).collect();
                crew.run(parts, &|part| {
                    if claimed.get(part).is_some_and(|claim| !claim.swap(true, Ordering::Relaxed)) {
                        let own = part * rounds..(part + 1) * rounds;
                        self.copy_rounds(&mover, own, parts * rounds);
                    }
                });
            }
        }
        Ok(())
    }

    /// Returns true if one box holds nearly all elements.
    fn is_one_box(&self) -> bool {
        let largest = self.work().iter().map(DmaBox::elements).max().unwrap_or(0);
        largest >= self.elements() / 8 * 7
    }

    /// Carries some of `total` parts of every box.
    fn copy_rounds(&self, mover: &Mover<'_>, rounds: Range<usize>, total: usize) {
        if let Some(walk) = self.walk() {
            // SAFETY: the reach was checked; a walk is never divided.
            return unsafe { mover.walk(walk) };
        }
        for round in rounds {
            for dma_box in self.work() {
                // SAFETY: the reach was checked, and parts of a disjoint nest do not overlap.
                unsafe {
                    match total {
                        1 => mover.carry(dma_box),
                        _ => dma_box.part(round, total).iter().for_each(|part| mover.carry(part)),
                    }
                }
            }
        }
        if mover.streams {
            stream::fence();
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
struct Mover<'a> {
    source: *const u8,
    target: *mut u8,
    converter: &'a Converter,
    source_bytes: usize,
    target_bytes: usize,
    /// True if results are written past the cache.
    streams: bool,
    tier: Tier,
}

// SAFETY: the buffers outlive the copy, and threads write to disjoint places.
unsafe impl Sync for Mover<'_> {}

impl Mover<'_> {
    /// Carries one box.
    ///
    /// # Safety
    /// The box lies inside both buffers.
    unsafe fn carry(&self, dma_box: &DmaBox) {
        let strides = Strides::of(dma_box, self);
        // SAFETY: the box starts inside both buffers, and so do all its loops.
        unsafe {
            let source = self.source.add(dma_box.source_offset() * self.source_bytes);
            let target = self.target.add(dma_box.target_offset() * self.target_bytes);
            match dma_box.plan().kind {
                Kind::Rows => self.rows(source, target, &strides, self.second(dma_box)),
                Kind::Transpose => self.transpose(source, target, &strides),
                Kind::Scatter => self.scatter(source, target, &strides),
            }
        }
    }
}

impl Mover<'_> {
    fn second(&self, dma_box: &DmaBox) -> Option<rows::Second> {
        let bytes = self.source_bytes;
        dma_box.joined().map(|joined| rows::Second {
            distance: (joined.source_offset as isize - dma_box.source_offset() as isize)
                * bytes as isize,
            bytes: joined.elements * bytes,
        })
    }
}

/// A loop whose strides are in bytes.
#[derive(Clone, Copy)]
struct ByteLoop {
    range: usize,
    source: usize,
    target: usize,
}

/// A box's loops in bytes, by their parts; the lane stays in elements.
struct Strides {
    lane: DmaLoop,
    near: ByteLoop,
    far: ByteLoop,
    outer: SmallVec<[ByteLoop; 3]>,
}

impl Strides {
    fn of(dma_box: &DmaBox, mover: &Mover<'_>) -> Self {
        let bytes = |l: &DmaLoop| ByteLoop {
            range: l.range,
            source: l.source_stride * mover.source_bytes,
            target: l.target_stride * mover.target_bytes,
        };
        let [lane, near, far] = dma_box.plan().inner(dma_box.loops());
        let mut outer: SmallVec<[ByteLoop; 3]> =
            dma_box.plan().outer(dma_box.loops()).map(bytes).collect();
        // Tiles are transposed as the source has them, which is then read in order; what is written
        // goes past the cache a stick at a time and needs no order.
        match dma_box.plan().kind {
            Kind::Transpose => outer.sort_by_key(|l| std::cmp::Reverse(l.source)),
            Kind::Rows | Kind::Scatter => outer.sort_by_key(|l| std::cmp::Reverse(l.target)),
        }
        Self { lane, near: bytes(&near), far: bytes(&far), outer }
    }

    /// All distances between runs at the target, for a look at their alignment.
    fn target_steps(&self) -> usize {
        let outer = self.outer.iter().fold(0, |steps, l| steps | l.target);
        self.near.target | self.far.target | outer
    }
}

/// Calls `f` with both offsets for every index of the loops, the last one fastest.
#[inline]
fn odometer(loops: &[ByteLoop], mut f: impl FnMut(usize, usize)) {
    let Some((inner, outer)) = loops.split_last() else { return f(0, 0) };
    let mut index: SmallVec<[usize; 4]> = smallvec::smallvec![0; outer.len()];
    let mut from = 0;
    let mut to = 0;
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
