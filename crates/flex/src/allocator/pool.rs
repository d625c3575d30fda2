use std::sync::Arc;

use crate::sync::Mutex;
use spyre_hal::{DeviceHandle, HandleTag, MemoryMode, PFDeviceHandle, Regions, VFDeviceHandle};

use super::blocks::{BlockState, Blocks};
use super::cache::Cache;
use super::epoch::Life;
use super::pages::Pages;
use super::region_table::RegionTable;
use super::stream_allocation_cache::StreamAllocationCache;
use super::{Settings, Statistics};
use crate::devices::budget::Sharer;
use crate::{BLOCK_BYTES, Error, StreamIndex, Timelines};

/// The memory behind an allocator. The other cards of its budget know it too.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) source: Arc<dyn Regions>,
    /// The card's mode, which does not change.
    pub(super) mode: MemoryMode,
    pub(super) timelines: Arc<dyn Timelines>,
    pub(super) settings: Settings,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) blocks: Blocks,
    pub(super) cache: Cache,
    pub(super) regions: RegionTable,
    pub(super) statistics: Statistics,
    pub(super) life: Life,
    /// Those of every stream that has some, by its number.
    pub(super) allocation_caches: Vec<Arc<StreamAllocationCache>>,
    /// Number of allocations that are poisoned.
    pub(super) poisoned: usize,
}

impl Pool {
    /// A block out of the cache, or out of the regions.
    #[inline]
    pub(super) fn allocate(&self, bytes: u64, stream: StreamIndex) -> Result<DeviceHandle, Error> {
        let units = bytes.div_ceil(BLOCK_BYTES).max(1);
        let state = &mut *self.state.lock();
        let slot = match state.cache.take(&state.blocks, units, stream, &*self.timelines) {
            Some(slot) => state.reuse(slot),
            None => self.carve(state, units, bytes)?,
        };
        state.blocks.block_mut(slot).requested = bytes;
        state.statistics.allocate(units * BLOCK_BYTES);
        Ok(self.handle(state, slot))
    }

    /// A block from the regions, within the budget.
    pub(super) fn carve(
        &self,
        state: &mut State,
        units: u64,
        requested: u64,
    ) -> Result<u32, Error> {
        state.life.begin()?;
        let bytes = units.saturating_mul(BLOCK_BYTES);
        if !self.fits_a_region(bytes) || !self.commit(state, bytes) {
            return Err(self.refusal(state, requested));
        }
        self.place(state, units).ok_or_else(|| {
            self.settings.budget.release(bytes);
            self.refusal(state, requested)
        })
    }

    /// Charges bytes to the budget, if need be in place of the cache.
    fn commit(&self, state: &mut State, bytes: u64) -> bool {
        let budget = &self.settings.budget;
        budget.try_commit(bytes) || {
            self.give_back_cached(state);
            budget.try_commit(bytes)
        }
    }

    /// A block from the regions: as they are, with the cache given back, with one more region.
    fn place(&self, state: &mut State, units: u64) -> Option<u32> {
        if let Some(slot) = state.blocks.take(units) {
            return Some(slot);
        }
        self.give_back_cached(state);
        if let Some(slot) = state.blocks.take(units) {
            return Some(slot);
        }
        self.add_region(state, units * BLOCK_BYTES)?;
        state.blocks.take(units)
    }

    /// Makes cached blocks free if there are too many of them.
    #[inline]
    pub(super) fn trim_cache(&self, state: &mut State) {
        let peak_units = state.statistics.peak_allocated_bytes / BLOCK_BYTES;
        if state.cache.is_too_large(peak_units) {
            let slots = state.cache.trim(&state.blocks, &*self.timelines, peak_units);
            self.give_back(state, slots);
        }
    }

    /// Makes every cached block free that no stream uses.
    pub(super) fn give_back_cached(&self, state: &mut State) {
        let slots = state.cache.drain(&state.blocks, &*self.timelines);
        self.give_back(state, slots);
    }

    /// Makes blocks free that were cached.
    fn give_back(&self, state: &mut State, slots: Vec<u32>) {
        slots.iter().for_each(|&slot| self.unprotect(state, slot));
        let units: u64 = slots.iter().map(|&slot| state.blocks.block(slot).units).sum();
        let pages = slots.into_iter().filter_map(|slot| state.blocks.release(slot)).collect();
        for pages in Pages::joined(pages) {
            self.discard(state, &pages);
        }
        self.settings.budget.release(units * BLOCK_BYTES);
    }

    /// Makes a block free.
    pub(super) fn release(&self, state: &mut State, slot: u32) {
        self.unprotect(state, slot);
        let units = state.blocks.block(slot).units;
        if let Some(pages) = state.blocks.release(slot) {
            self.discard(state, &pages);
        }
        self.settings.budget.release(units * BLOCK_BYTES);
    }

    /// Lets the card give free pages back to the host.
    ///
    /// The lock is held until it has: were it not, another thread could be given a block there in
    /// between, and lose what it writes. Pages are charged until they are gone.
    fn discard(&self, state: &State, pages: &Pages) {
        let region = state.regions.region(pages.region);
        let bytes = (pages.units.end - pages.units.start) * BLOCK_BYTES;
        self.source.discard(region.id, pages.units.start * BLOCK_BYTES, bytes);
    }

    /// Gives all regions back to the card, and what was committed to the budget.
    pub(super) fn surrender(&self, state: &State) {
        for region in state.regions.iter() {
            tracing::debug!(target: "spyre.memory", "region {} is released", region.id.0);
            self.source.release(region.id);
        }
        self.settings.budget.release(state.committed_bytes());
    }

    fn add_region(&self, state: &mut State, needed: u64) -> Option<()> {
        let sizes = self.settings.region_bytes.iter().filter(|&&bytes| bytes >= needed);
        let region = sizes.into_iter().find_map(|&bytes| self.source.try_allocate(bytes))?;
        tracing::debug!(target: "spyre.memory", "region {} is acquired: {} bytes", region.id.0, region.bytes);
        let index = state.regions.add(region);
        state.blocks.add_region(index, region.bytes / BLOCK_BYTES);
        Some(())
    }

    /// Returns true if a region could be large enough for a request.
    pub(super) fn fits_a_region(&self, bytes: u64) -> bool {
        self.settings.region_bytes.iter().any(|&region_bytes| bytes <= region_bytes)
    }

    /// Returns true if blocks that wait for streams are in the way. After a request has failed no
    /// others are cached, unless the streams are done by now: then to ask again is right as well.
    pub(super) fn may_gain_by_draining(&self, bytes: u64) -> bool {
        self.fits_a_region(bytes) && self.state.lock().cache.units() > 0
    }

    /// Returns true if no stream uses a block any more. Asks the streams, whose answers are on
    /// other cores.
    pub(super) fn is_done(&self, state: &State, slot: u32) -> bool {
        state.blocks.block(slot).uses.iter().all(|&last_use| self.timelines.is_done(last_use))
    }

    #[inline]
    pub(super) fn handle(&self, state: &State, slot: u32) -> DeviceHandle {
        let block = state.blocks.block(slot);
        let region = state.regions.region(block.region);
        let offset = block.offset * BLOCK_BYTES;
        let tag = HandleTag { epoch: state.life.epoch(), generation: block.generation, slot };
        match self.mode {
            MemoryMode::Pf => {
                let physical_address = region.base_address + offset;
                DeviceHandle::pf(PFDeviceHandle { physical_address }, tag)
            }
            MemoryMode::Vf => {
                let place = VFDeviceHandle { region_id: region.id.0, vf_offset: offset };
                DeviceHandle::vf(place, tag)
            }
        }
    }

    /// Slot of a handle that is live, and of this card and epoch.
    #[inline]
    pub(super) fn live_slot(&self, state: &State, handle: DeviceHandle) -> Result<u32, Error> {
        let tag = handle.tag();
        let refused = |why| Err(Error::BadHandle { handle, why });
        if !state.life.is(tag.epoch) {
            return refused("it is from before a reset, or from another card");
        }
        match state.blocks.get(tag.slot) {
            Some(block) if block.generation != tag.generation => refused("it was freed"),
            Some(block) if block.state != Some(BlockState::Live) => refused("it was freed"),
            Some(_) if self.handle(state, tag.slot) != handle => refused("it was never given out"),
            Some(_) => Ok(tag.slot),
            None => refused("it was never given out"),
        }
    }

    #[cold]
    fn refusal(&self, state: &State, requested: u64) -> Error {
        let error = Error::OutOfMemory {
            requested,
            free: state.blocks.free_units() * BLOCK_BYTES,
            reserved: state.regions.bytes(),
            largest: state.blocks.largest_free() * BLOCK_BYTES,
            committed: self.settings.budget.committed_bytes(),
            limit: self.settings.budget.limit_bytes(),
        };
        tracing::debug!(target: "spyre.memory", "{error}");
        error
    }
}

impl State {
    /// Given out, or kept for later.
    pub(super) fn committed_bytes(&self) -> u64 {
        self.statistics.allocated_bytes + self.cache.units() * BLOCK_BYTES
    }

    /// Makes a cached block live again.
    pub(super) fn reuse(&mut self, slot: u32) -> u32 {
        let block = self.blocks.block_mut(slot);
        (block.state, block.is_fresh) = (Some(BlockState::Live), true);
        slot
    }
}

impl Sharer for Pool {
    fn give_back(&self) {
        self.give_back_cached(&mut self.state.lock());
    }
}
