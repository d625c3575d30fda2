mod bins;
mod blocks;
mod cache;
mod commit;
mod epoch;
mod pages;
mod poison;
mod pool;
mod programs;
mod range_check;
mod region_table;
mod statistics;
mod stream_allocation_cache;

use std::sync::Arc;

use crate::sync::Mutex;
use spyre_hal::{DeviceHandle, DeviceRange, Regions};

use crate::process::Process;
use crate::{BLOCK_BYTES, Budget, Error, LastUse, StreamIndex, Timelines};
use blocks::Block;
pub use blocks::BlockState;
use cache::Cache;
use commit::Noted;
pub(crate) use commit::{UsedWith, Uses};
use pool::Pool;
pub use statistics::{BlockInfo, Statistics};
pub(crate) use stream_allocation_cache::StreamAllocationCache;

/// Settings of an allocator: how it takes memory from the card.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sizes of regions to ask for, largest first: what the card refuses is asked for smaller.
    pub region_bytes: Vec<u64>,
    /// Budget that memory is charged to, whether given out or kept in the cache. Cards may share
    /// one.
    pub budget: Arc<Budget>,
}

impl Default for Settings {
    /// Regions of 12, 8 or 4 GB, and a budget of its own without a limit.
    fn default() -> Self {
        let region_bytes = vec![12 << 30, 8 << 30, 4 << 30];
        Self { region_bytes, budget: Arc::new(Budget::new(u64::MAX)) }
    }
}

/// Device memory, in blocks of 128 bytes carved from lazily acquired regions.
///
/// A freed block of up to 512 KiB is kept as it is for the next request of its size; the others are
/// joined with their neighbours and found again by best fit. The cache gives back when memory runs
/// short, and when it keeps more than was ever given out at a time and 32 MiB. A block that streams
/// still use is given out again at once to the same stream, and to others when the uses are done.
///
/// Cached blocks stay charged to the [`Budget`], so that to use them again touches nothing shared.
/// Where the budget refuses, the allocator gives its own cache back, then has the other cards of
/// the budget do the same, one after the other until there is room, with no lock of its own held.
///
/// Pages that become free go back to the host ([`Regions::discard`]), each once.
#[derive(Debug)]
pub struct FlexAllocator {
    pool: Arc<Pool>,
    process: Process,
}

impl FlexAllocator {
    /// An allocator that has taken nothing yet.
    pub fn new(
        source: Arc<dyn Regions>,
        timelines: Arc<dyn Timelines>,
        settings: Settings,
    ) -> Self {
        let budget = settings.budget.clone();
        let mode = source.mode();
        let pool = Arc::new(Pool { source, mode, timelines, settings, state: Mutex::default() });
        budget.join(Arc::<Pool>::downgrade(&pool));
        pool.source.attach(Arc::<Pool>::downgrade(&pool));
        Self { pool, process: Process::current() }
    }

    /// A block of at least so many bytes, and at least one of 128, for use on `stream`.
    ///
    /// Fails when all caches were given back and there is still no room. Blocks that streams use do
    /// not count as room: [`Self::allocate_or_drain`] can wait for them.
    pub fn allocate(&self, bytes: u64, stream: StreamIndex) -> Result<DeviceHandle, Error> {
        self.check_process()?;
        match self.pool.allocate(bytes, stream) {
            Ok(handle) => Ok(handle),
            Err(refusal) => self.reclaim_and_allocate(refusal, bytes, stream),
        }
    }

    /// The same; and if there is no room while freed blocks still wait for streams, `drain` is
    /// called to wait for these streams, and the request is made once more.
    ///
    /// `drain` runs without the lock: it may free blocks itself.
    pub fn allocate_or_drain(
        &self,
        bytes: u64,
        stream: StreamIndex,
        drain: impl FnOnce() -> Result<(), Error>,
    ) -> Result<DeviceHandle, Error> {
        match self.allocate(bytes, stream) {
            Err(Error::OutOfMemory { .. }) if self.pool.may_gain_by_draining(bytes) => {
                drain()?;
                self.allocate(bytes, stream)
            }
            other => other,
        }
    }

    /// Takes a block back. Streams may still be using it.
    pub fn free(&self, handle: DeviceHandle) -> Result<(), Error> {
        self.check_process()?;
        let mut state = self.pool.state.lock();
        let slot = self.pool.live_slot(&state, handle)?;
        state.evict_from_streams(slot);
        state.heal(slot);
        let block = state.blocks.block_mut(slot);
        block.writes.clear();
        block.generation = block.generation.wrapping_add(1);
        block.state = Some(BlockState::Cached);
        let units = block.units;
        let is_program = block.is_program;
        state.statistics.free(units * BLOCK_BYTES);
        if is_program {
            state.cache.put_program(slot, units);
            self.pool.release_programs(&mut state);
        } else if Cache::keeps(units) || !self.pool.is_done(&state, slot) {
            state.cache.put(slot, units);
            self.pool.trim_cache(&mut state);
        } else {
            self.pool.release(&mut state, slot);
        }
        Ok(())
    }

    /// Notes the last block of a stream that touches an allocation.
    pub fn record_use(&self, handle: DeviceHandle, last_use: LastUse) -> Result<(), Error> {
        self.check_process()?;
        let mut state = self.pool.state.lock();
        let slot = self.pool.live_slot(&state, handle)?;
        if state.note_use(slot, last_use, false) == Noted::ByStream {
            state.allocation_cache_of(last_use.stream).open().note(slot, last_use.sequence, false);
        }
        Ok(())
    }

    /// Checks that so many bytes at an offset lie inside a live allocation.
    pub fn check(&self, handle: DeviceHandle, offset: u64, bytes: u64) -> Result<(), Error> {
        self.check_process()?;
        let range = DeviceRange { handle, offset, bytes };
        self.pool.check_range(&self.pool.state.lock(), &range)
    }

    /// Gives every cached block that no stream uses back to its region, and regions of which
    /// nothing is left in use back to the card. The first stays, as the next request needs it.
    pub fn empty_cache(&self) {
        if !self.process.is_current() {
            return;
        }
        let state = &mut *self.pool.state.lock();
        self.pool.give_back_cached(state);
        for slot in state.blocks.whole_regions() {
            let index = state.blocks.block(slot).region;
            if index != 0 {
                state.blocks.remove(slot);
                self.pool.source.release(state.regions.remove(index).id);
            }
        }
    }

    /// Forgets everything: the regions are released, and all handles given out so far are refused
    /// as from before a reset. Statistics start anew, but for totals.
    ///
    /// For use when no stream runs, as after a reset of the card: blocks are not waited for.
    pub fn reset(&self) {
        if !self.process.is_current() {
            return;
        }
        let state = &mut *self.pool.state.lock();
        self.pool.surrender(state);
        state.allocation_caches.iter().for_each(|cache| cache.clear());
        let old = std::mem::take(state);
        state.life = old.life.ended();
        state.statistics = old.statistics.totals();
    }

    /// Budget that committed memory is charged to.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.pool.settings.budget
    }

    /// Bytes that are given out, kept and free. A forked child has none.
    pub fn statistics(&self) -> Statistics {
        if !self.process.is_current() {
            return Statistics::default();
        }
        let state = self.pool.state.lock();
        Statistics {
            reserved_bytes: state.regions.bytes(),
            free_bytes: state.blocks.free_units() * BLOCK_BYTES,
            cached_bytes: state.cache.units() * BLOCK_BYTES,
            largest_free_bytes: state.blocks.largest_free() * BLOCK_BYTES,
            ..state.statistics
        }
    }

    /// Every block, by region and offset. A forked child has none.
    pub fn snapshot(&self) -> Vec<BlockInfo> {
        if !self.process.is_current() {
            return Vec::new();
        }
        let state = self.pool.state.lock();
        let info = |block: &Block| BlockInfo::of(block, state.regions.region(block.region).id);
        let blocks = state.blocks.iter().filter_map(|(_, block)| info(block));
        let mut blocks: Vec<BlockInfo> = blocks.collect();
        blocks.sort_by_key(|info| (info.region, info.offset_bytes));
        blocks
    }

    /// Place and state of the block of a handle, as in [`Self::snapshot`].
    pub fn block(&self, handle: DeviceHandle) -> Result<BlockInfo, Error> {
        self.check_process()?;
        let state = self.pool.state.lock();
        let slot = self.pool.live_slot(&state, handle)?;
        let refused = Error::BadHandle { handle, why: "it was freed" };
        let block = state.blocks.get(slot).ok_or(refused.clone())?;
        BlockInfo::of(block, state.regions.region(block.region).id).ok_or(refused)
    }

    /// Asked before any lock is taken: a thread that the child does not have may hold it.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    #[cold]
    fn reclaim_and_allocate(
        &self,
        refusal: Error,
        bytes: u64,
        stream: StreamIndex,
    ) -> Result<DeviceHandle, Error> {
        match refusal {
            Error::OutOfMemory { .. } if self.pool.fits_a_region(bytes) => {
                self.budget().reclaim(bytes);
                self.pool.allocate(bytes, stream)
            }
            other => Err(other),
        }
    }
}

impl Drop for FlexAllocator {
    /// Here and not with the pool, which another card may be looking at just now. A forked child
    /// leaves all as it is: the lock may be held by a thread that it does not have.
    fn drop(&mut self) {
        self.reset();
    }
}
