use spyre_flex::{BLOCK_BYTES, Error};
use spyre_hal::StreamIndex;

use super::{Checked, Driver, broken, unexpected};
use crate::log::Step;
use crate::oracle::Allocation;
use crate::settings::Sabotage;
use crate::violation::Promise;

/// Freed handles that are kept, to be refused.
const STALE: usize = 32;

impl Driver {
    pub(super) fn allocate(&mut self) -> Checked {
        let at = self.stream_at();
        let bytes = self.allocation_bytes();
        self.allocate_on(at, bytes)
    }

    fn allocate_on(&mut self, at: usize, bytes: u64) -> Checked {
        let stream = self.streams[at].index();
        self.log(Step::Call("allocate", bytes));
        match self.streams[at].allocate(bytes) {
            Ok(handle) => self.given_out(handle, bytes, stream),
            Err(Error::OutOfMemory { largest, committed, limit, .. }) => {
                let rounded = rounded(bytes);
                self.log(Step::Result("out of memory", largest));
                if largest >= rounded && committed.saturating_add(rounded) <= limit {
                    broken(Promise::RightRefusal, "there is room, and it was refused")
                } else {
                    Ok(())
                }
            }
            Err(error) => unexpected("allocate", &error),
        }
    }

    fn allocation_bytes(&mut self) -> u64 {
        let largest = self.world.settings.region_bytes[0];
        match self.random.below(16) {
            0 => 1 + self.random.below(largest),
            1 => 1 + self.random.below(largest / 8),
            2 => 1 + self.random.below(128),
            _ => 128 * (1 + self.random.below(8)),
        }
    }

    fn given_out(
        &mut self,
        handle: spyre_flex::DeviceHandle,
        bytes: u64,
        stream: StreamIndex,
    ) -> Checked {
        let state = &mut *self.world.state();
        state.oracle.settle_all()?;
        let fronts: Vec<u64> = state.oracle.fronts();
        let front = |stream: StreamIndex| fronts[usize::from(stream.0)];
        let mut handle = handle;
        if self.world.settings.sabotage == Some(Sabotage::ReuseEarly) {
            handle = state.oracle.allocations.still_used(stream, front).unwrap_or(handle);
        }
        let allocation = Allocation::new(handle, rounded(bytes), bytes, stream);
        let place = allocation.place.number();
        let (id, is_reused) = state.oracle.allocations.add(allocation, front)?;
        state.report.allocations += 1;
        state.report.reused += u64::from(is_reused);
        let step = Step::Allocated { allocation: id as u64, place, bytes };
        state.log.add(self.world.now(), step);
        self.live.push(id);
        Ok(())
    }

    pub(super) fn free(&mut self) -> Checked {
        if self.live.is_empty() {
            return self.allocate();
        }
        let at = self.random.index(self.live.len());
        let id = self.live.swap_remove(at);
        let (bytes, user) = self.free_one(id)?;
        // The next to ask for as many bytes is who should not get them too early.
        match self.streams.iter().position(|stream| Some(stream.index()) == user) {
            Some(at) if !self.random.one_in(3) => self.allocate_on(at, bytes),
            _ => Ok(()),
        }
    }

    /// Says how long it was, and who used it.
    pub(super) fn free_one(&mut self, id: usize) -> Checked<(u64, Option<StreamIndex>)> {
        let mut state = self.world.state();
        let Allocation { handle, bytes, ref uses, .. } = *state.oracle.allocations.get(id);
        let user = uses.first().map(|(stream, _)| *stream);
        state.oracle.allocations.free(id);
        state.log.add(self.world.now(), Step::Freed { allocation: id as u64 });
        drop(state);
        self.remember_stale(handle);
        match self.context.free(handle) {
            Ok(()) => Ok((bytes, user)),
            Err(error) => unexpected("free", &error),
        }
    }

    pub(super) fn remember_stale(&mut self, handle: spyre_flex::DeviceHandle) {
        if self.stale.len() == STALE {
            let oldest = self.random.index(STALE);
            self.stale.swap_remove(oldest);
        }
        self.stale.push(handle);
    }

    pub(super) fn empty_cache(&mut self) -> Checked {
        self.log(Step::Call("empty the cache", 0));
        self.context.allocator().empty_cache();
        Ok(())
    }

    /// After every operation: the numbers add up; now and then, every block does.
    pub(super) fn check_memory(&mut self) -> Checked {
        let allocator = self.context.allocator();
        let statistics = allocator.statistics();
        let committed = allocator.budget().committed_bytes();
        let state = self.world.state();
        state.oracle.allocations.check_statistics(&statistics, committed)?;
        drop(state);
        if self.random.one_in(64) {
            let snapshot = self.context.allocator().snapshot();
            let state = self.world.state();
            state.oracle.allocations.check_snapshot(&snapshot, &statistics)?;
        }
        Ok(())
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES).max(1) * BLOCK_BYTES
}
