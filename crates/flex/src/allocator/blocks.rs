//! The blocks of all regions: who lies beside whom, and which are free.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::StreamIndex;

use super::bins::{Bins, NONE};
use super::pages::Pages;
use crate::{LastUse, StreamFault};

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Given out.
    Live,
    /// Freed and kept as it is, for a request of the same size.
    Cached,
    /// Free, and joined with its free neighbours.
    Free,
}

/// A block's record. Its slot is what handles name.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) region: u16,
    pub(super) state: Option<BlockState>,
    /// True if it is an allocation for programs, or was one and is not free again yet.
    pub(super) is_program: bool,
    /// True if it was given out again and not used since: its uses are of the time before.
    pub(super) is_fresh: bool,
    pub(super) generation: u32,
    /// Units of 128 bytes from the start of the region.
    pub(super) offset: u64,
    pub(super) units: u64,
    /// The bytes that were asked for, while it is live.
    pub(super) requested: u64,
    /// The neighbours by address.
    before: u32,
    after: u32,
    /// The neighbours in the bin.
    previous: u32,
    next: u32,
    pub(super) uses: SmallVec<[LastUse; 1]>,
    /// The last write of each stream, since it was given out.
    pub(super) writes: SmallVec<[LastUse; 1]>,
    /// The first cause of a write that was cancelled and that no write of all of it has followed.
    pub(super) poison: Option<Arc<StreamFault>>,
}

impl Block {
    /// Notes that a stream writes it; number 0 stands for none.
    #[inline]
    pub(super) fn note_write(&mut self, write: LastUse) {
        note_write(&mut self.writes, write);
    }

    /// The number of a stream's last block that writes it, as far as it is noted here; 0 for none.
    pub(super) fn written_by(&self, stream: StreamIndex) -> u64 {
        let known = self.writes.iter().find(|known| known.stream == stream);
        known.map_or(0, |known| known.sequence)
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.units
    }
}

#[inline]
pub(super) fn note_write(writes: &mut SmallVec<[LastUse; 1]>, write: LastUse) {
    if write.sequence == 0 {
        return;
    }
    match writes.iter_mut().find(|known| known.stream == write.stream) {
        Some(known) => known.sequence = known.sequence.max(write.sequence),
        None => writes.push(write),
    }
}

/// All blocks, in slots that are used again.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    slots: Vec<Block>,
    unused: Vec<u32>,
    bins: Bins,
    free_units: u64,
}

impl Blocks {
    pub(super) fn get(&self, slot: u32) -> Option<&Block> {
        self.slots.get(slot as usize)
    }

    pub(super) fn block(&self, slot: u32) -> &Block {
        &self.slots[slot as usize]
    }

    pub(super) fn block_mut(&mut self, slot: u32) -> &mut Block {
        &mut self.slots[slot as usize]
    }

    /// Every block that exists, with its slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        let slots = self.slots.iter().enumerate().filter(|(_, block)| block.state.is_some());
        slots.map(|(slot, block)| (slot as u32, block))
    }

    pub(super) fn free_units(&self) -> u64 {
        self.free_units
    }

    /// The units of the largest free block.
    pub(super) fn largest_free(&self) -> u64 {
        let Some(bin) = self.bins.last_filled() else { return 0 };
        self.in_bin(bin).map(|slot| self.block(slot).units).max().unwrap_or(0)
    }

    /// A new region, as one free block.
    pub(super) fn add_region(&mut self, region: u16, units: u64) {
        let slot = self.new_slot(region, 0, units);
        self.release(slot);
    }

    /// Takes a free block of at least so many units, the smallest of the first bin that has one,
    /// and cuts off the rest.
    pub(super) fn take(&mut self, units: u64) -> Option<u32> {
        let slot = self.best_fit(units)?;
        self.unlink(slot);
        self.block_mut(slot).state = Some(BlockState::Live);
        let rest = self.block(slot).units - units;
        if rest > 0 {
            self.cut(slot, units, rest);
        }
        Some(slot)
    }

    /// Makes a block free and joins it with its free neighbours. Says which pages that freed.
    pub(super) fn release(&mut self, slot: u32) -> Option<Pages> {
        let released = self.block(slot).range();
        let slot = self.join(slot);
        let block = self.block_mut(slot);
        block.state = Some(BlockState::Free);
        block.is_program = false;
        block.uses.clear();
        self.link(slot);
        let block = self.block(slot);
        Pages::freed(block.region, released, block.range())
    }

    /// Free blocks that are a whole region.
    pub(super) fn whole_regions(&self) -> Vec<u32> {
        let is_whole =
            |slot: u32| self.block(slot).before == NONE && self.block(slot).after == NONE;
        let slots = self.iter().map(|(slot, _)| slot);
        slots.filter(|&slot| self.is_free(slot) && is_whole(slot)).collect()
    }

    /// Forgets a free block that is a whole region.
    pub(super) fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.retire(slot);
    }

    fn join(&mut self, slot: u32) -> u32 {
        let before = self.block(slot).before;
        let after = self.block(slot).after;
        if self.is_free(after) {
            self.unlink(after);
            self.absorb(slot, after);
        }
        if self.is_free(before) {
            self.unlink(before);
            self.absorb(before, slot);
            return before;
        }
        slot
    }

    fn best_fit(&self, units: u64) -> Option<u32> {
        /// Blocks that are compared in a bin whose blocks all fit.
        const COMPARED: usize = 8;
        let bin = Bins::of(units);
        let fitting = |slot: &u32| self.block(*slot).units >= units;
        let smallest = |slot: &u32| self.block(*slot).units;
        if let Some(slot) = self.in_bin(bin).filter(fitting).min_by_key(smallest) {
            return Some(slot);
        }
        let bin = self.bins.next_filled(bin + 1)?;
        self.in_bin(bin).take(COMPARED).min_by_key(smallest)
    }

    fn in_bin(&self, bin: usize) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.bins.head(bin)).filter(|&slot| slot != NONE);
        std::iter::successors(first, |&slot| {
            Some(self.block(slot).next).filter(|&slot| slot != NONE)
        })
    }

    fn is_free(&self, slot: u32) -> bool {
        slot != NONE && self.block(slot).state == Some(BlockState::Free)
    }

    fn cut(&mut self, slot: u32, units: u64, rest: u64) {
        let region = self.block(slot).region;
        let offset = self.block(slot).offset;
        let after = self.block(slot).after;
        let tail = self.new_slot(region, offset + units, rest);
        self.block_mut(slot).units = units;
        self.block_mut(slot).after = tail;
        self.block_mut(tail).before = slot;
        self.block_mut(tail).after = after;
        if after != NONE {
            self.block_mut(after).before = tail;
        }
        self.block_mut(tail).state = Some(BlockState::Free);
        self.link(tail);
    }

    /// Makes `other`, which lies behind it, a part of a block.
    fn absorb(&mut self, slot: u32, other: u32) {
        let units = self.block(other).units;
        let after = self.block(other).after;
        self.block_mut(slot).units += units;
        self.block_mut(slot).after = after;
        if after != NONE {
            self.block_mut(after).before = slot;
        }
        self.retire(other);
    }

    /// Keeps a slot, with its generation, for a later block.
    fn retire(&mut self, slot: u32) {
        let block = self.block_mut(slot);
        block.state = None;
        block.is_program = false;
        block.uses.clear();
        self.unused.push(slot);
    }

    fn new_slot(&mut self, region: u16, offset: u64, units: u64) -> u32 {
        let generation = |old: u32| old.wrapping_add(1);
        let block = |generation| Block {
            region,
            state: Some(BlockState::Live),
            is_program: false,
            is_fresh: false,
            generation,
            offset,
            units,
            requested: 0,
            before: NONE,
            after: NONE,
            previous: NONE,
            next: NONE,
            uses: SmallVec::new(),
            writes: SmallVec::new(),
            poison: None,
        };
        if let Some(slot) = self.unused.pop() {
            let old = self.block(slot).generation;
            *self.block_mut(slot) = block(generation(old));
            return slot;
        }
        self.slots.push(block(0));
        (self.slots.len() - 1) as u32
    }

    fn link(&mut self, slot: u32) {
        let units = self.block(slot).units;
        let bin = Bins::of(units);
        let head = self.bins.head(bin);
        self.block_mut(slot).previous = NONE;
        self.block_mut(slot).next = head;
        if head != NONE {
            self.block_mut(head).previous = slot;
        }
        self.bins.set_head(bin, slot);
        self.free_units += units;
    }

    fn unlink(&mut self, slot: u32) {
        let Block { units, previous, next, .. } = *self.block(slot);
        match previous {
            NONE => self.bins.set_head(Bins::of(units), next),
            _ => self.block_mut(previous).next = next,
        }
        if next != NONE {
            self.block_mut(next).previous = previous;
        }
        self.free_units -= units;
    }
}
