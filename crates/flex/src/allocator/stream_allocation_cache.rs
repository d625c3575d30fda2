use spyre_hal::{DeviceHandle, DeviceRange};

use super::Uses;
use crate::stream::poison::PoisonWatch;
use crate::stream::ring::Line;
use crate::sync::{Mutex, MutexGuard, often};

/// Number of allocations a stream caches at once. Each slot has one place where it may be.
const PLACES: usize = often(32, 2) as usize;

/// Allocations that a stream uses again and again, each with the last use.
///
/// To check such a handle and to note its use takes the stream's own lock and not the allocator's,
/// so that streams do not wait for each other. Only handles that are live are here: a thread that
/// frees an allocation takes it out first, and its last use with it. Places change with the
/// allocator's lock held, which comes before this one.
#[derive(Debug, Default)]
pub(crate) struct StreamAllocationCache {
    places: Line<Mutex<Places>>,
}

type Places = [Option<CachedAllocation>; PLACES];

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedAllocation {
    pub(super) handle: DeviceHandle,
    /// Length in bytes.
    pub(super) bytes: u64,
    /// The number of the last block of the stream that uses it.
    pub(super) last: u64,
    /// The number of the last one that writes it; 0 if there is none.
    pub(super) written: u64,
}

/// A handle that is not here: it may be live, or not.
struct CacheMiss;

impl StreamAllocationCache {
    /// Takes places in a queue and notes the uses, if every range lies inside a cached allocation;
    /// `None` if one does not, or if memory may be poisoned, and then nothing was reserved.
    #[inline]
    pub(super) fn commit<R, E>(
        &self,
        uses: &(impl Uses + ?Sized),
        watch: &PoisonWatch,
        reserve: impl FnOnce() -> Result<(R, u64), E>,
    ) -> Option<Result<(R, u64), E>> {
        let places = &mut *self.places.0.lock();
        // Asked with the lock held: a fault is reported to no caller while a stream is in here.
        if watch.is_set() {
            return None;
        }
        let check = |_, range: &DeviceRange, _| match &places[place(range.handle)] {
            Some(cached) if cached.holds(range) => Ok(()),
            _ => Err(CacheMiss),
        };
        uses.try_each(check).ok()?;
        let reserved = reserve();
        if let Ok((_, first)) = &reserved {
            uses.each(|nth, range, access| {
                if let Some(cached) = &mut places[place(range.handle)] {
                    cached.note(first + nth, access.writes());
                }
            });
        }
        Some(reserved)
    }

    /// Its places, to be changed with the allocator's lock held.
    #[inline]
    pub(super) fn open(&self) -> Open<'_> {
        Open(self.places.0.lock())
    }

    /// Takes all out.
    pub(super) fn clear(&self) {
        *self.places.0.lock() = Places::default();
    }
}

/// Exclusive access to the places of a stream.
#[derive(Debug)]
pub(super) struct Open<'a>(MutexGuard<'a, Places>);

impl Open<'_> {
    /// Takes an allocation in, and returns the one that had its place.
    pub(super) fn add(&mut self, cached: CachedAllocation) -> Option<CachedAllocation> {
        self.0[place(cached.handle)].replace(cached)
    }

    /// Notes a use of the allocation in a slot, which is here.
    pub(super) fn note(&mut self, slot: u32, sequence: u64, is_write: bool) {
        if let Some(cached) = &mut self.0[at(slot)] {
            debug_assert_eq!(cached.handle.tag().slot, slot);
            cached.note(sequence, is_write);
        }
    }

    /// Takes out the allocation in a slot, which is here.
    pub(super) fn remove(&mut self, slot: u32) -> Option<CachedAllocation> {
        let cached = self.0[at(slot)].take();
        debug_assert!(cached.is_some_and(|cached| cached.handle.tag().slot == slot));
        cached
    }

    /// The last write of the allocation in a slot, if it is here; 0 if there was none.
    pub(super) fn written(&self, slot: u32) -> u64 {
        let cached = self.0[at(slot)].filter(|cached| cached.handle.tag().slot == slot);
        cached.map_or(0, |cached| cached.written)
    }
}

impl CachedAllocation {
    #[inline]
    fn note(&mut self, sequence: u64, is_write: bool) {
        self.last = self.last.max(sequence);
        if is_write {
            self.written = self.written.max(sequence);
        }
    }

    #[inline]
    fn holds(&self, range: &DeviceRange) -> bool {
        let end = range.offset.checked_add(range.bytes);
        self.handle == range.handle && end.is_some_and(|end| end <= self.bytes)
    }
}

#[inline]
fn place(handle: DeviceHandle) -> usize {
    at(handle.tag().slot)
}

#[inline]
fn at(slot: u32) -> usize {
    slot as usize % PLACES
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
