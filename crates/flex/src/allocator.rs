mod bins;
mod blocks;
mod cache;
mod commit;
mod statistics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use parking_lot::Mutex;
use spyre_hal::{
    DeviceHandle, HandleTag, MemoryMode, PFDeviceHandle, Region, Regions, VFDeviceHandle,
};

use crate::{BLOCK_BYTES, Error, LastUse, StreamIndex, Timelines};
pub use blocks::BlockState;
use blocks::Blocks;
use cache::Cache;
pub(crate) use commit::Uses;
pub use statistics::{BlockInfo, Statistics};

/// How an allocator takes memory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sizes of regions to ask for, largest first: what the card refuses is asked for smaller.
    pub region_bytes: Vec<u64>,
    /// Bytes that may be given out or kept in the cache.
    pub limit_bytes: u64,
}

impl Default for Settings {
    /// Regions of 12, 8 or 4 GB, and no limit.
    fn default() -> Self {
        Self { region_bytes: vec![12 << 30, 8 << 30, 4 << 30], limit_bytes: u64::MAX }
    }
}

/// Device memory, in blocks of 128 bytes carved from lazily acquired regions.
///
/// A freed block of up to 512 KiB is kept as it is for the next request of its size; the others are
/// joined with their neighbours and found again by best fit. The cache gives back when memory runs
/// short. A block that streams still use is given out again at once to the same stream, and to
/// others when the uses are done.
#[derive(Debug)]
pub struct FlexAllocator {
    source: Arc<dyn Regions>,
    timelines: Arc<dyn Timelines>,
    settings: Settings,
    /// Which life of which card its handles belong to: no two allocators share one.
    epoch: u16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: Blocks,
    cache: Cache,
    regions: Vec<Region>,
    statistics: Statistics,
}

impl FlexAllocator {
    /// An allocator that has taken nothing yet.
    pub fn new(
        source: Arc<dyn Regions>,
        timelines: Arc<dyn Timelines>,
        settings: Settings,
    ) -> Self {
        static NEXT_EPOCH: AtomicU16 = AtomicU16::new(0);
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        Self { source, timelines, settings, epoch, state: Mutex::default() }
    }

    /// A block of at least so many bytes, and at least one of 128, for use on `stream`.
    pub fn allocate(&self, bytes: u64, stream: StreamIndex) -> Result<DeviceHandle, Error> {
        let units = bytes.div_ceil(BLOCK_BYTES).max(1);
        let state = &mut *self.state.lock();
        let slot = match state.cache.take(&state.blocks, units, stream, &*self.timelines) {
            Some(slot) => state.reuse(slot),
            None => self.carve(state, units).ok_or_else(|| self.refusal(state, bytes))?,
        };
        state.statistics.allocate(units * BLOCK_BYTES);
        Ok(self.handle(state, slot))
    }

    /// Takes a block back. Streams may still be using it.
    pub fn free(&self, handle: DeviceHandle) -> Result<(), Error> {
        let mut state = self.state.lock();
        let slot = self.live_slot(&state, handle)?;
        let block = state.blocks.block_mut(slot);
        block.generation = block.generation.wrapping_add(1);
        block.state = Some(BlockState::Cached);
        let units = block.units;
        let is_done = block.uses.iter().all(|&last_use| self.timelines.is_done(last_use));
        state.statistics.free(units * BLOCK_BYTES);
        if Cache::keeps(units) || !is_done {
            state.cache.put(slot, units);
        } else {
            state.blocks.release(slot);
        }
        Ok(())
    }

    /// Notes the last block of a stream that touches an allocation.
    pub fn record_use(&self, handle: DeviceHandle, last_use: LastUse) -> Result<(), Error> {
        let mut state = self.state.lock();
        let slot = self.live_slot(&state, handle)?;
        let uses = &mut state.blocks.block_mut(slot).uses;
        match uses.iter_mut().find(|known| known.stream == last_use.stream) {
            Some(known) => known.sequence = known.sequence.max(last_use.sequence),
            None => uses.push(last_use),
        }
        Ok(())
    }

    /// Whether so many bytes at an offset lie inside a live allocation.
    pub fn check(&self, handle: DeviceHandle, offset: u64, bytes: u64) -> Result<(), Error> {
        let state = self.state.lock();
        let slot = self.live_slot(&state, handle)?;
        let allocated = state.blocks.block(slot).units * BLOCK_BYTES;
        match offset.checked_add(bytes) {
            Some(end) if end <= allocated => Ok(()),
            _ => Err(Error::OutOfRange { handle, offset, bytes, allocated }),
        }
    }

    /// Gives every cached block that no stream uses back to its region.
    pub fn empty_cache(&self) {
        self.give_back(&mut self.state.lock());
    }

    /// What is given out, kept and free.
    pub fn statistics(&self) -> Statistics {
        let state = self.state.lock();
        let reserved_bytes = state.regions.iter().map(|region| region.bytes).sum();
        Statistics {
            reserved_bytes,
            free_bytes: state.blocks.free_units() * BLOCK_BYTES,
            cached_bytes: state.cache.units() * BLOCK_BYTES,
            largest_free_bytes: state.blocks.largest_free() * BLOCK_BYTES,
            ..state.statistics
        }
    }

    /// Every block, by region and offset.
    pub fn snapshot(&self) -> Vec<BlockInfo> {
        let state = self.state.lock();
        let mut blocks: Vec<BlockInfo> =
            state.blocks.iter().filter_map(|(_, block)| BlockInfo::of(block)).collect();
        blocks.sort_by_key(|info| (info.region, info.offset_bytes));
        blocks
    }

    /// A block from the regions: as they are, with the cache given back, with one more region.
    fn carve(&self, state: &mut State, units: u64) -> Option<u32> {
        let largest_region = self.settings.region_bytes.iter().copied().max().unwrap_or(0);
        let needed = units.checked_mul(BLOCK_BYTES).filter(|&bytes| bytes <= largest_region)?;
        let is_within_limit = |state: &State| {
            let room = self.settings.limit_bytes.checked_sub(state.committed_bytes());
            room.is_some_and(|room| room >= needed)
        };
        if !is_within_limit(state) {
            self.give_back(state);
        }
        if !is_within_limit(state) {
            return None;
        }
        if let Some(slot) = state.blocks.take(units) {
            return Some(slot);
        }
        self.give_back(state);
        if let Some(slot) = state.blocks.take(units) {
            return Some(slot);
        }
        self.add_region(state, needed)?;
        state.blocks.take(units)
    }

    fn give_back(&self, state: &mut State) {
        for slot in state.cache.drain(&state.blocks, &*self.timelines) {
            state.blocks.release(slot);
        }
    }

    fn add_region(&self, state: &mut State, needed: u64) -> Option<()> {
        let sizes = self.settings.region_bytes.iter().filter(|&&bytes| bytes >= needed);
        let region = sizes.into_iter().find_map(|&bytes| self.source.try_allocate(bytes))?;
        state.blocks.add_region(state.regions.len() as u16, region.bytes / BLOCK_BYTES);
        state.regions.push(region);
        Some(())
    }

    fn handle(&self, state: &State, slot: u32) -> DeviceHandle {
        let block = state.blocks.block(slot);
        let region = state.regions[usize::from(block.region)];
        let offset = block.offset * BLOCK_BYTES;
        let tag = HandleTag { epoch: self.epoch, generation: block.generation, slot };
        match self.source.mode() {
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

    /// The slot of a handle that is live, and nobody else's.
    fn live_slot(&self, state: &State, handle: DeviceHandle) -> Result<u32, Error> {
        let tag = handle.tag();
        let refused = |why| Err(Error::BadHandle { handle, why });
        if tag.epoch != self.epoch {
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
        Error::OutOfMemory {
            requested,
            free: state.blocks.free_units() * BLOCK_BYTES,
            reserved: state.regions.iter().map(|region| region.bytes).sum(),
            largest: state.blocks.largest_free() * BLOCK_BYTES,
            committed: state.committed_bytes(),
            limit: self.settings.limit_bytes,
        }
    }
}

impl State {
    /// Given out, or kept for later.
    fn committed_bytes(&self) -> u64 {
        self.statistics.allocated_bytes + self.cache.units() * BLOCK_BYTES
    }

    /// Makes a cached block live again.
    fn reuse(&mut self, slot: u32) -> u32 {
        self.blocks.block_mut(slot).state = Some(BlockState::Live);
        slot
    }
}

impl Drop for FlexAllocator {
    fn drop(&mut self) {
        for region in &self.state.lock().regions {
            self.source.release(region.id);
        }
    }
}
