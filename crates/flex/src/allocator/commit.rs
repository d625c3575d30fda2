use spyre_hal::{ControlBlock, DeviceRange, StreamIndex};

use super::FlexAllocator;
use super::pool::{Pool, State};
use crate::{BLOCK_BYTES, Error, LastUse};

/// The ranges that blocks name, each with the place of its block among them.
pub(crate) trait Uses {
    /// Whether there are none.
    fn is_empty(&self) -> bool;

    /// Calls `use_range` for each until one fails.
    fn try_each(
        &self,
        use_range: impl FnMut(u64, &DeviceRange) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl Uses for [ControlBlock] {
    #[inline]
    fn is_empty(&self) -> bool {
        self.iter().all(|block| block.ranges() == [None, None])
    }

    #[inline]
    fn try_each(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (nth, block) in (0..).zip(self) {
            for range in block.ranges().iter().flatten() {
                use_range(nth, range)?;
            }
        }
        Ok(())
    }
}

impl Uses for [(u64, DeviceRange)] {
    fn is_empty(&self) -> bool {
        <[_]>::is_empty(self)
    }

    fn try_each(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.iter().try_for_each(|(nth, range)| use_range(*nth, range))
    }
}

/// What blocks name, and what their last one uses besides.
pub(crate) struct UsedWith<'a> {
    pub(crate) blocks: &'a [ControlBlock],
    pub(crate) others: &'a [DeviceRange],
}

impl Uses for UsedWith<'_> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.others.is_empty() && Uses::is_empty(self.blocks)
    }

    #[inline]
    fn try_each(
        &self,
        mut use_range: impl FnMut(u64, &DeviceRange) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.blocks.try_each(&mut use_range)?;
        let last = self.blocks.len().saturating_sub(1) as u64;
        self.others.iter().try_for_each(|range| use_range(last, range))
    }
}

impl FlexAllocator {
    /// Checks that ranges lie inside live allocations, takes places in a queue, and notes the uses:
    /// all in one step, so that no allocation is freed between the check and the note. `reserve`
    /// returns the number of the first place, too.
    #[inline]
    pub(crate) fn commit<R, E>(
        &self,
        uses: &(impl Uses + ?Sized),
        stream: StreamIndex,
        reserve: impl FnOnce() -> Result<(R, u64), E>,
    ) -> Result<Result<(R, u64), E>, Error> {
        if uses.is_empty() {
            return Ok(reserve());
        }
        let mut state = self.pool.state.lock();
        uses.try_each(|_, range| self.pool.check_range(&state, range))?;
        let reserved = reserve();
        if let Ok((_, first)) = &reserved {
            uses.try_each(|nth, range| {
                let last_use = LastUse { stream, sequence: first + nth };
                state.note_use(range.handle.tag().slot, last_use);
                Ok(())
            })?;
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

impl State {
    #[inline]
    pub(super) fn note_use(&mut self, slot: u32, last_use: LastUse) {
        let uses = &mut self.blocks.block_mut(slot).uses;
        match uses.iter_mut().find(|known| known.stream == last_use.stream) {
            Some(known) => known.sequence = known.sequence.max(last_use.sequence),
            None => uses.push(last_use),
        }
    }
}
