//! Freed blocks that wait for a request of their size, or for the streams that still use them.

use std::collections::HashMap;

use super::blocks::Blocks;
use crate::{LastUse, StreamIndex, Timelines};

/// Blocks of up to so many units are kept: 512 KiB.
const KEPT_UNITS: u64 = 4096;

/// Blocks of one size that are looked at for one request.
const LOOKED_AT: usize = 8;

/// Units that may be kept beside as many as were ever given out at a time: 32 MiB. A process whose sizes
/// are never the same would else keep a block of every size.
const SPARE_UNITS: u64 = 1 << 18;

/// Freed blocks by size.
#[derive(Debug, Default)]
pub(super) struct Cache {
    small: Vec<Vec<u32>>,
    large: HashMap<u64, Vec<u32>>,
    /// Allocations for programs that streams still use: they are not given out before that is over.
    programs: Vec<u32>,
    units: u64,
    /// Units up to which it is not trimmed: streams used the rest when it was trimmed last.
    trimmed_units: u64,
    /// The size of small blocks that is trimmed next.
    hand: usize,
}

impl Cache {
    /// Returns true if blocks of this size are kept though no stream uses them.
    #[inline]
    pub(super) fn keeps(units: u64) -> bool {
        units <= KEPT_UNITS
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    #[inline]
    pub(super) fn put(&mut self, slot: u32, units: u64) {
        self.units += units;
        if !Self::keeps(units) {
            self.large.entry(units).or_default().push(slot);
            return;
        }
        if self.small.is_empty() {
            self.small.resize_with(KEPT_UNITS as usize + 1, Vec::new);
        }
        self.small[units as usize].push(slot);
    }

    pub(super) fn put_program(&mut self, slot: u32, units: u64) {
        self.units += units;
        self.programs.push(slot);
    }

    pub(super) fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Takes out every allocation for programs that no stream uses any more.
    pub(super) fn drain_programs(
        &mut self,
        blocks: &Blocks,
        timelines: &dyn Timelines,
    ) -> Vec<u32> {
        let is_done = |slot: &mut u32| is_done(blocks, *slot, timelines);
        let drained: Vec<u32> = self.programs.extract_if(.., is_done).collect();
        self.units -= drained.iter().map(|&slot| blocks.block(slot).units).sum::<u64>();
        drained
    }

    /// A block of this size that `stream` may use now: the one freed last that it may.
    #[inline]
    pub(super) fn take(
        &mut self,
        blocks: &Blocks,
        units: u64,
        stream: StreamIndex,
        timelines: &dyn Timelines,
    ) -> Option<u32> {
        let class = if Self::keeps(units) {
            self.small.get_mut(units as usize)?
        } else {
            self.large.get_mut(&units)?
        };
        let may_use =
            |last_use: &LastUse| last_use.stream == stream || timelines.is_done(*last_use);
        let is_ready = |slot: &u32| blocks.block(*slot).uses.iter().all(may_use);
        let newest = class.iter().rev().take(LOOKED_AT).position(is_ready)?;
        let at = class.len() - 1 - newest;
        self.units -= units;
        Some(class.swap_remove(at))
    }

    /// Returns true if it keeps too much, given the most units that were given out at a time.
    #[inline]
    pub(super) fn is_too_large(&self, peak_units: u64) -> bool {
        self.units > (SPARE_UNITS + peak_units).max(self.trimmed_units)
    }

    /// Takes out blocks that no stream uses, until three quarters of what it may keep are left: large
    /// ones first, then those of one size after another.
    pub(super) fn trim(
        &mut self,
        blocks: &Blocks,
        timelines: &dyn Timelines,
        peak_units: u64,
    ) -> Vec<u32> {
        let wanted = (SPARE_UNITS + peak_units) / 4 * 3;
        let mut trimmed = Vec::new();
        for class in self.large.values_mut() {
            trimmed.extend(class.extract_if(.., |slot| is_done(blocks, *slot, timelines)));
        }
        self.large.retain(|_, class| !class.is_empty());
        self.units -= trimmed.iter().map(|&slot| blocks.block(slot).units).sum::<u64>();
        for _ in 0..self.small.len() {
            if self.units <= wanted {
                break;
            }
            self.hand = (self.hand + 1) % self.small.len();
            let class = &mut self.small[self.hand];
            let before = trimmed.len();
            trimmed.extend(class.extract_if(.., |slot| is_done(blocks, *slot, timelines)));
            self.units -= (trimmed.len() - before) as u64 * self.hand as u64;
        }
        self.trimmed_units = self.units + SPARE_UNITS / 4;
        trimmed
    }

    /// Takes out every block that no stream uses.
    pub(super) fn drain(&mut self, blocks: &Blocks, timelines: &dyn Timelines) -> Vec<u32> {
        let mut drained = Vec::new();
        for class in self.small.iter_mut().chain(self.large.values_mut()) {
            drained.extend(class.extract_if(.., |slot| is_done(blocks, *slot, timelines)));
        }
        self.large.retain(|_, class| !class.is_empty());
        self.units -= drained.iter().map(|&slot| blocks.block(slot).units).sum::<u64>();
        drained.extend(self.drain_programs(blocks, timelines));
        drained
    }
}

fn is_done(blocks: &Blocks, slot: u32, timelines: &dyn Timelines) -> bool {
    blocks.block(slot).uses.iter().all(|&last_use| timelines.is_done(last_use))
}
