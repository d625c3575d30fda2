use spyre_hal::{Allocations, DeviceRange};

use super::blocks::{Block, BlockState};
use super::pool::{Pool, State};
use crate::BLOCK_BYTES;

const FOREIGN: &str = "its handle is from before a reset, or from another card";
const UNKNOWN: &str = "its handle was never given out";
const FREED: &str = "its memory was freed before the launch was queued";

/// Checks ranges that programs name in their tables; the card asks when they run.
impl Allocations for Pool {
    fn first_refused(&self, ranges: &[DeviceRange]) -> Option<(usize, Box<str>)> {
        let state = self.state.lock();
        let refusal = |range| self.refusal_now(&state, range).err();
        let mut refusals = ranges.iter().map(refusal).enumerate();
        refusals.find_map(|(at, refusal)| Some((at, refusal?)))
    }
}

impl Pool {
    fn refusal_now(&self, state: &State, range: &DeviceRange) -> Result<(), Box<str>> {
        let tag = range.handle.tag();
        if !state.life.is(tag.epoch) {
            return Err(FOREIGN.into());
        }
        let block = state.blocks.get(tag.slot).ok_or(UNKNOWN)?;
        let age = block.generation.wrapping_sub(tag.generation).cast_signed();
        match age {
            0 if block.state == Some(BlockState::Live) => {}
            1.. if self.is_in_use(block) => {}
            1.. => return Err(FREED.into()),
            _ => return Err(UNKNOWN.into()),
        }
        if self.handle(state, tag.slot).location() != range.handle.location() {
            return Err(UNKNOWN.into());
        }
        let allocated = block.units * BLOCK_BYTES;
        match range.offset.checked_add(range.bytes) {
            Some(end) if end <= allocated => Ok(()),
            _ => {
                let DeviceRange { offset, bytes, .. } = range;
                let why = format!("{bytes} bytes at {offset} reach past its {allocated} bytes");
                Err(why.into())
            }
        }
    }

    /// Freed, and maybe given out again to the same stream, behind a block that is not done.
    fn is_in_use(&self, block: &Block) -> bool {
        !block.uses.iter().all(|&last_use| self.timelines.is_done(last_use))
    }
}
