//! Poisoned allocations: by which fault, and until when.
//!
//! A stream that fails cancels its blocks from one number on. When its fault is reported, or it is
//! reset, the last write of every allocation tells whether it was one of them. A write of a whole
//! allocation heals it, and so does freeing it.

use std::sync::Arc;

use spyre_hal::{DeviceHandle, DeviceRange};

use super::blocks::BlockState;
use super::pool::{Pool, State};
use super::{FlexAllocator, Uses};
use crate::stream::failures::cause_of;
use crate::stream::poison::PoisonWatch;
use crate::stream::table::Lane;
use crate::{Error, LastUse, MemoryAccess, StreamFault};

impl FlexAllocator {
    /// Calls `report`, which may end a stream's failure; if it does, all that the stream's cancelled
    /// blocks were to write is poisoned. No block of the stream is queued meanwhile.
    ///
    /// `report` takes the scheduler's lock: behind those of the allocator and of the stream.
    pub(crate) fn settle<R>(&self, lane: &Lane, report: impl FnOnce() -> R) -> R {
        let state = &mut *self.pool.state.lock();
        let places = lane.allocation_cache.open();
        let reported = report();
        let ended = lane.failures.take_ended();
        if !ended.is_empty() {
            let written = |slot: u32, noted: u64| noted.max(places.written(slot));
            let blocks = state.blocks.iter();
            let poisoned: Vec<(u32, Arc<StreamFault>)> = blocks
                .filter_map(|(slot, block)| {
                    let last = written(slot, block.written_by(lane.index));
                    Some((slot, Arc::clone(cause_of(&ended, last)?)))
                })
                .collect();
            poisoned.iter().for_each(|(slot, cause)| state.poison(*slot, cause));
        }
        drop(places);
        self.pool.update_watch(state, &lane.poison_watch);
        reported
    }

    /// Poisons an allocation: what should have written it did not.
    pub(crate) fn poison(
        &self,
        handle: DeviceHandle,
        watch: &PoisonWatch,
        cause: &Arc<StreamFault>,
    ) {
        let state = &mut *self.pool.state.lock();
        if let Ok(slot) = self.pool.live_slot(state, handle) {
            state.poison(slot, cause);
            self.pool.update_watch(state, watch);
        }
    }

    /// Heals an allocation that another card has written, if it was all of it.
    pub(crate) fn heal(&self, written: &DeviceRange) {
        let state = &mut *self.pool.state.lock();
        if let Ok(slot) = self.pool.live_slot(state, written.handle)
            && state.is_whole(slot, written)
        {
            state.heal(slot);
        }
    }

    /// The first cause of why an allocation is poisoned, if it is: a block that was to write it failed,
    /// or was cancelled, and no write of all of it has been queued since.
    pub fn poison_of(&self, handle: DeviceHandle) -> Result<Option<Arc<StreamFault>>, Error> {
        self.check_process()?;
        let state = &mut *self.pool.state.lock();
        let slot = self.pool.live_slot(state, handle)?;
        Ok(self.pool.poison_of(state, slot))
    }
}

impl Pool {
    /// Refuses to read what is poisoned. A stream that has failed itself cancels whatever it is given.
    pub(super) fn check_poison(
        &self,
        state: &mut State,
        uses: &(impl Uses + ?Sized),
        lane: &Lane,
    ) -> Result<(), Error> {
        if lane.failures.are_open() {
            return Ok(());
        }
        uses.try_each(|nth, range, access| {
            if !access.reads() {
                return Ok(());
            }
            let slot = range.handle.tag().slot;
            match self.poison_of(state, slot) {
                Some(cause) if !state.is_healed_before(nth, slot, uses) => {
                    Err(Error::Poisoned { handle: range.handle, cause })
                }
                _ => Ok(()),
            }
        })
    }

    /// Heals what is written wholly by blocks that have just been given their places.
    pub(super) fn heal(&self, state: &mut State, uses: &(impl Uses + ?Sized), lane: &Lane) {
        if lane.failures.are_open() {
            return;
        }
        uses.each(|_, range, access| {
            let slot = range.handle.tag().slot;
            if access == MemoryAccess::WriteAll && state.is_whole(slot, range) {
                state.heal(slot);
                // A failure of another stream that is reported only later came before this write.
                state.evict_from_streams(slot);
                state.blocks.block_mut(slot).writes.retain(|write| write.stream == lane.index);
            }
        });
        self.update_watch(state, &lane.poison_watch);
    }

    /// Uses are looked at while a stream is failing or something is poisoned.
    fn update_watch(&self, state: &State, watch: &PoisonWatch) {
        watch.update(|| state.poisoned > 0 || self.timelines.are_failing());
    }

    /// Fault that an allocation is poisoned by: one that was reported, or one that was not yet.
    fn poison_of(&self, state: &mut State, slot: u32) -> Option<Arc<StreamFault>> {
        state.evict_from_streams(slot);
        let block = state.blocks.block(slot);
        if block.is_program {
            return None;
        }
        let unreported = |write: &LastUse| self.timelines.failure_of(*write);
        block.poison.clone().or_else(|| block.writes.iter().find_map(unreported))
    }
}

impl State {
    /// Returns true if a block in front of the nth of the same submission writes all of an
    /// allocation.
    fn is_healed_before(&self, nth: u64, slot: u32, uses: &(impl Uses + ?Sized)) -> bool {
        let mut is_healed = false;
        uses.each(|earlier, range, access| {
            let is_here = earlier < nth && range.handle.tag().slot == slot;
            is_healed |= is_here && access == MemoryAccess::WriteAll && self.is_whole(slot, range);
        });
        is_healed
    }

    /// Returns true if a range covers all that was asked for.
    fn is_whole(&self, slot: u32, range: &DeviceRange) -> bool {
        range.offset == 0 && range.bytes >= self.blocks.block(slot).requested
    }

    /// The first cause stays. Programs are loaded and corrected anew instead.
    fn poison(&mut self, slot: u32, cause: &Arc<StreamFault>) {
        let block = self.blocks.block_mut(slot);
        let is_memory = block.state == Some(BlockState::Live) && !block.is_program;
        if is_memory && block.poison.is_none() {
            block.poison = Some(Arc::clone(cause));
            self.poisoned += 1;
        }
    }

    pub(super) fn heal(&mut self, slot: u32) {
        if self.blocks.block_mut(slot).poison.take().is_some() {
            self.poisoned -= 1;
        }
    }
}
