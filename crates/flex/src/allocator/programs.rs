//! Allocations for programs, which the card guards.

use spyre_hal::DeviceHandle;

use super::FlexAllocator;
use super::pool::{Pool, State};
use crate::{BLOCK_BYTES, Error};

impl FlexAllocator {
    /// Memory for programs: the card lets copies to the device and corrections write there, nothing
    /// else, and launches programs from nowhere else.
    ///
    /// It stays so until it was freed and no stream uses it. A launch notes the use of the image
    /// that it names; what that names in turn, its code and its tensors, is noted by
    /// [`record_use`](Self::record_use).
    pub fn allocate_program(&self, bytes: u64) -> Result<DeviceHandle, Error> {
        self.check_process()?;
        match self.pool.allocate_program(bytes) {
            Err(Error::OutOfMemory { .. }) if self.pool.fits_a_region(bytes) => {
                self.budget().reclaim(bytes);
                self.pool.allocate_program(bytes)
            }
            other => other,
        }
    }

    /// The same; and if there is no room while freed blocks still wait for streams, `drain` is
    /// called to wait for these streams, and the request is made once more.
    pub fn allocate_program_or_drain(
        &self,
        bytes: u64,
        drain: impl FnOnce() -> Result<(), Error>,
    ) -> Result<DeviceHandle, Error> {
        match self.allocate_program(bytes) {
            Err(Error::OutOfMemory { .. }) if self.pool.may_gain_by_draining(bytes) => {
                drain()?;
                self.allocate_program(bytes)
            }
            other => other,
        }
    }
}

impl Pool {
    /// Always from the regions: a cached block may still be written by the stream that freed it.
    fn allocate_program(&self, bytes: u64) -> Result<DeviceHandle, Error> {
        let units = bytes.div_ceil(BLOCK_BYTES).max(1);
        let state = &mut *self.state.lock();
        self.release_programs(state);
        let slot = self.carve(state, units, bytes)?;
        state.blocks.block_mut(slot).is_program = true;
        state.statistics.allocate(units * BLOCK_BYTES);
        let (region, offset, bytes) = state.place_of(slot);
        self.source.protect(region, offset, bytes);
        Ok(self.handle(state, slot))
    }

    /// Makes those free that were freed and that no stream uses any more.
    pub(super) fn release_programs(&self, state: &mut State) {
        if !state.cache.has_programs() {
            return;
        }
        for slot in state.cache.drain_programs(&state.blocks, &*self.timelines) {
            self.release(state, slot);
        }
    }

    /// Tells the card that a block holds no programs any more, if it did.
    pub(super) fn unprotect(&self, state: &State, slot: u32) {
        if state.blocks.block(slot).is_program {
            let (region, offset, bytes) = state.place_of(slot);
            self.source.unprotect(region, offset, bytes);
        }
    }
}

impl State {
    fn place_of(&self, slot: u32) -> (spyre_hal::RegionId, u64, u64) {
        let block = self.blocks.block(slot);
        let region = self.regions.region(block.region).id;
        (region, block.offset * BLOCK_BYTES, block.units * BLOCK_BYTES)
    }
}
