use std::convert::Infallible;
use std::sync::Arc;

use spyre_hal::{ControlBlock, DeviceHandle, DeviceRange, StreamIndex};

use super::FlexAllocator;
use super::blocks::{Block, note_write};
use super::pool::{Pool, State};
use super::stream_allocation_cache::{CachedAllocation, Open, StreamAllocationCache};
use crate::stream::memory_use::try_each_of;
use crate::stream::table::Lane;
use crate::{BLOCK_BYTES, Error, LastUse, MemoryAccess, MemoryUse};

/// Stands for a use's number: the use is noted in the stream's cache. As a number it would mean
/// that the use is never done.
const WITH_STREAM: u64 = u64::MAX;

/// The ranges that blocks name, each with the place of its block among them.
pub(crate) trait Uses {
    /// Returns true if there are none.
    fn is_empty(&self) -> bool;

    /// Calls `use_range` for each until one fails.
    fn try_each<E>(
        &self,
        use_range: impl FnMut(u64, &DeviceRange, MemoryAccess) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Calls `use_range` for each.
    #[inline]
    fn each(&self, mut use_range: impl FnMut(u64, &DeviceRange, MemoryAccess)) {
        let Ok(()) = self.try_each(|nth, range, access| {
            use_range(nth, range, access);
            Ok::<(), Infallible>(())
        });
    }
}

impl Uses for [ControlBlock] {
    #[inline]
    fn is_empty(&self) -> bool {
        self.iter().all(|block| block.ranges() == [None, None])
    }

    #[inline]
    fn try_each<E>(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange, MemoryAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        for (nth, block) in (0..).zip(self) {
            try_each_of(block, |range, access| use_range(nth, range, access))?;
        }
        Ok(())
    }
}

impl Uses for [(u64, MemoryUse)] {
    fn is_empty(&self) -> bool {
        <[_]>::is_empty(self)
    }

    fn try_each<E>(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange, MemoryAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        self.iter().try_for_each(|(nth, used)| use_range(*nth, &used.range, used.access))
    }
}

/// Ranges that blocks name, and those that the last block uses besides.
pub(crate) struct UsedWith<'a> {
    pub(crate) blocks: &'a [ControlBlock],
    pub(crate) others: &'a [MemoryUse],
}

impl Uses for UsedWith<'_> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.others.is_empty() && Uses::is_empty(self.blocks)
    }

    #[inline]
    fn try_each<E>(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange, MemoryAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        self.blocks.try_each(&mut use_range)?;
        let last = self.blocks.len().saturating_sub(1) as u64;
        self.others.iter().try_for_each(|used| use_range(last, &used.range, used.access))
    }
}

impl FlexAllocator {
    /// Checks that ranges lie inside live allocations and that none which is read is poisoned, takes
    /// places in a queue, and notes the uses: all in one step, so that no allocation is freed between
    /// the check and the note. `reserve` returns the number of the first place, too.
    #[inline]
    pub(crate) fn commit<R, E>(
        &self,
        uses: &(impl Uses + ?Sized),
        lane: &Lane,
        reserve: impl Fn() -> Result<(R, u64), E>,
    ) -> Result<Result<(R, u64), E>, Error> {
        if uses.is_empty() {
            return Ok(reserve());
        }
        match lane.allocation_cache.commit(uses, &lane.poison_watch, &reserve) {
            Some(reserved) => Ok(reserved),
            None => self.commit_uncached(uses, lane, reserve),
        }
    }

    /// Commits where not every allocation is in the stream's cache, or memory may be poisoned.
    fn commit_uncached<R, E>(
        &self,
        uses: &(impl Uses + ?Sized),
        lane: &Lane,
        reserve: impl Fn() -> Result<(R, u64), E>,
    ) -> Result<Result<(R, u64), E>, Error> {
        let mut state = self.pool.state.lock();
        uses.try_each(|_, range, _| self.pool.check_range(&state, range))?;
        let is_watched = lane.poison_watch.is_set();
        if is_watched {
            self.pool.check_poison(&mut state, uses, lane)?;
        }
        let reserved = reserve();
        if let Ok((_, first)) = &reserved {
            let mut places = lane.allocation_cache.open();
            uses.each(|nth, range, access| {
                let slot = range.handle.tag().slot;
                let sequence = first + nth;
                let last_use = LastUse { stream: lane.index, sequence };
                match state.note_use(slot, last_use, access.writes()) {
                    Noted::ByStream => places.note(slot, sequence, access.writes()),
                    Noted::Again => state.cache_for_stream(range.handle, lane, &mut places),
                    Noted::First => {}
                }
            });
            drop(places);
            if is_watched {
                self.pool.heal(&mut state, uses, lane);
            }
        }
        Ok(reserved)
    }
}

impl Pool {
    #[inline]
    pub(super) fn check_range(&self, state: &State, range: &DeviceRange) -> Result<(), Error> {
        let slot = self.live_slot(state, range.handle)?;
        let allocated = state.blocks.block(slot).units * BLOCK_BYTES;
        let &DeviceRange { handle, offset, bytes } = range;
        match offset.checked_add(bytes) {
            Some(end) if end <= allocated => Ok(()),
            _ => Err(Error::OutOfRange { handle, offset, bytes, allocated }),
        }
    }
}

/// Place where a use of an allocation is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// Here; the stream has not used it since it was given out.
    First,
    /// Here; the stream uses it again.
    Again,
    /// Nowhere yet: it is in the stream's cache.
    ByStream,
}

impl State {
    /// Notes a use here, unless the stream is to note it.
    #[inline]
    pub(super) fn note_use(&mut self, slot: u32, last_use: LastUse, is_write: bool) -> Noted {
        let LastUse { stream, sequence } = last_use;
        let block = self.blocks.block_mut(slot);
        let is_fresh = std::mem::take(&mut block.is_fresh);
        if is_write {
            block.note_write(last_use);
        }
        match block.uses.iter_mut().find(|known| known.stream == stream) {
            Some(known) if known.sequence == WITH_STREAM => Noted::ByStream,
            Some(known) => {
                known.sequence = known.sequence.max(sequence);
                if is_fresh { Noted::First } else { Noted::Again }
            }
            None => {
                block.uses.push(last_use);
                Noted::First
            }
        }
    }

    /// Leaves it to a stream to check a handle and to note its uses. The last one is noted here.
    fn cache_for_stream(&mut self, handle: DeviceHandle, lane: &Lane, places: &mut Open<'_>) {
        let stream = lane.index;
        let slot = handle.tag().slot;
        let at = usize::from(stream.0);
        if self.allocation_caches.len() <= at {
            self.allocation_caches.resize_with(at + 1, Arc::default);
        }
        if !Arc::ptr_eq(&self.allocation_caches[at], &lane.allocation_cache) {
            self.allocation_caches[at] = Arc::clone(&lane.allocation_cache);
        }
        let block = self.blocks.block(slot);
        let bytes = block.units * BLOCK_BYTES;
        let written = block.written_by(stream);
        let last = self.exchange_use(slot, stream, WITH_STREAM);
        if let Some(gone) = places.add(CachedAllocation { handle, bytes, last, written }) {
            let slot = gone.handle.tag().slot;
            self.exchange_use(slot, stream, gone.last);
            let sequence = gone.written;
            self.blocks.block_mut(slot).note_write(LastUse { stream, sequence });
        }
    }

    /// Takes an allocation out of all streams' caches; all its uses are noted here then.
    #[inline]
    pub(super) fn evict_from_streams(&mut self, slot: u32) {
        let blocks = &mut self.blocks;
        let allocation_caches = &self.allocation_caches;
        let Block { uses, writes, .. } = blocks.block_mut(slot);
        for known in uses.iter_mut().filter(|known| known.sequence == WITH_STREAM) {
            let cached = allocation_caches[usize::from(known.stream.0)].open().remove(slot);
            if let Some(CachedAllocation { last, written, .. }) = cached {
                known.sequence = last;
                note_write(writes, LastUse { stream: known.stream, sequence: written });
            }
        }
    }

    /// Replaces the number of a stream's use, and returns what it was.
    fn exchange_use(&mut self, slot: u32, stream: StreamIndex, sequence: u64) -> u64 {
        let mut uses = self.blocks.block_mut(slot).uses.iter_mut();
        let known = uses.find(|known| known.stream == stream).expect("a use that was noted");
        std::mem::replace(&mut known.sequence, sequence)
    }

    pub(super) fn allocation_cache_of(&self, stream: StreamIndex) -> &StreamAllocationCache {
        &self.allocation_caches[usize::from(stream.0)]
    }
}
