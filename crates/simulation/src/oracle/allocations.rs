use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use spyre_flex::{BlockInfo, BlockState, Statistics};
use spyre_hal::{DeviceHandle, StreamIndex};

use super::allocation::{Allocation, RegionAddress};
use super::{Checked, Effect, Oracle, Span, broken, payload};
use crate::log::Fingerprint;
use crate::violation::Promise;

/// All memory that was given out, and what it must hold.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    all: HashMap<usize, Box<Allocation>, BuildHasherDefault<Fingerprint>>,
    next: usize,
    by_place: BTreeMap<RegionAddress, usize>,
    /// Freed, and perhaps still used.
    dead: Vec<usize>,
    live_bytes: u64,
}

impl Allocations {
    pub(crate) fn get(&self, id: usize) -> &Allocation {
        &self.all[&id]
    }

    pub(crate) fn get_mut(&mut self, id: usize) -> &mut Allocation {
        self.all.get_mut(&id).expect("an allocation is kept while a block names it")
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Allocation> {
        self.all.values_mut().map(|allocation| &mut **allocation)
    }

    pub(crate) fn live(&self) -> usize {
        self.by_place.len()
    }

    /// Memory was given out. No live allocation may overlap it, and of the streams that still use
    /// it, only the one that it is for may be left. The flag is true if that one still uses it.
    pub(crate) fn add(
        &mut self,
        mut new: Allocation,
        front: impl Fn(StreamIndex) -> u64,
    ) -> Checked<(usize, bool)> {
        self.check_free(&new)?;
        let all = &mut self.all;
        let dead = &mut self.dead;
        dead.retain(|id| {
            let is_used = all[id].uses.iter().any(|&(stream, last)| front(stream) < last);
            is_used || all.remove(id).is_none()
        });
        let before: Vec<&usize> = dead.iter().filter(|id| all[id].overlaps(&new)).collect();
        let is_reused = !before.is_empty();
        for id in before {
            for &(stream, last) in all[id].uses.iter().filter(|(s, last)| front(*s) < *last) {
                if stream != new.home {
                    let message = format!("{:?} is still used by stream {}", new.place, stream.0);
                    return broken(Promise::NoUseAfterFree, message);
                }
                new.behind = new.behind.max(last);
            }
        }
        let id = self.next;
        self.next += 1;
        self.live_bytes += new.bytes;
        self.by_place.insert(new.place, id);
        self.all.insert(id, Box::new(new));
        Ok((id, is_reused))
    }

    pub(crate) fn free(&mut self, id: usize) {
        let allocation = &self.all[&id];
        self.live_bytes -= allocation.bytes;
        self.by_place.remove(&allocation.place);
        self.dead.push(id);
    }

    /// Handle of a freed allocation that a stream other than `home` still uses.
    pub(crate) fn still_used(
        &self,
        home: StreamIndex,
        front: impl Fn(StreamIndex) -> u64,
    ) -> Option<DeviceHandle> {
        let is_used = |id: &&usize| {
            let uses = &self.all[id].uses;
            uses.iter().any(|&(stream, last)| stream != home && front(stream) < last)
        };
        self.dead.iter().find(is_used).map(|id| self.all[id].handle)
    }

    /// A reset: all memory is gone.
    pub(crate) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    /// Checks, when a block of an allocation runs, that no block of an older owner of its memory is
    /// left.
    pub(crate) fn check_older_owners(
        &self,
        id: usize,
        front: impl Fn(StreamIndex) -> u64,
    ) -> Checked {
        let Some(own) = self.all.get(&id) else { return Ok(()) };
        for older in self.dead.iter().filter(|older| **older < id) {
            let older = &self.all[older];
            let is_used = || older.uses.iter().any(|&(stream, last)| front(stream) < last);
            if older.overlaps(own) && is_used() {
                let message = format!("{:?} runs while an older owner is not done", own.place);
                return broken(Promise::NoUseAfterFree, message);
            }
        }
        Ok(())
    }

    /// The runtime's numbers are ours, and add up.
    pub(crate) fn check_statistics(&self, given: &Statistics, committed: u64) -> Checked {
        let Statistics { allocated_bytes, reserved_bytes, cached_bytes, free_bytes, .. } = *given;
        let is_right = allocated_bytes == self.live_bytes
            && given.allocations == self.live() as u64
            && allocated_bytes + cached_bytes + free_bytes == reserved_bytes
            && committed == allocated_bytes + cached_bytes
            && given.largest_free_bytes <= free_bytes;
        if is_right {
            Ok(())
        } else {
            let live = self.live_bytes;
            let message = format!("{given:?}, {committed} committed, {live} live");
            broken(Promise::RightNumbers, message)
        }
    }

    /// The blocks of a snapshot lie side by side, and those that are live are ours.
    pub(crate) fn check_snapshot(&self, blocks: &[BlockInfo], given: &Statistics) -> Checked {
        let total = |state| {
            let of_state = blocks.iter().filter(|block| block.state == state);
            of_state.map(|block| block.bytes).sum::<u64>()
        };
        let totals = [BlockState::Live, BlockState::Cached, BlockState::Free].map(total);
        let expected = [given.allocated_bytes, given.cached_bytes, given.free_bytes];
        let is_joined = blocks.windows(2).all(|pair| {
            pair[0].region != pair[1].region
                || pair[0].offset_bytes + pair[0].bytes == pair[1].offset_bytes
        });
        if totals == expected && is_joined {
            Ok(())
        } else {
            broken(Promise::RightNumbers, format!("{given:?}, but {blocks:?}"))
        }
    }

    fn check_free(&self, new: &Allocation) -> Checked {
        let before = self.by_place.range(..=new.place).next_back();
        let after = self.by_place.range(new.place..).next();
        for (_, id) in before.into_iter().chain(after) {
            if self.all[id].overlaps(new) {
                let message = format!("{:?} was given out twice", new.place);
                return broken(Promise::NoUseAfterFree, message);
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// Applies the effect of a block, or the first half of it, to the modelled memory.
    pub(crate) fn apply(&mut self, effect: Effect, is_half: bool) {
        let share = |span: Span| if is_half { span.bytes / 2 } else { span.bytes };
        match effect {
            Effect::Write { to, number } => {
                let bytes = payload(number, to.bytes);
                let window = &mut self.allocations.get_mut(to.allocation).window;
                window.write(to.offset, &bytes[..share(to)]);
            }
            Effect::Fill { to, pattern } => {
                let bytes: Vec<u8> = pattern.into_iter().cycle().take(share(to)).collect();
                self.allocations.get_mut(to.allocation).window.write(to.offset, &bytes);
            }
            Effect::Copy { from, to } => {
                let source = self.allocations.get(from.allocation).window.clone();
                let window = &mut self.allocations.get_mut(to.allocation).window;
                window.copy(to.offset, &source, from.offset, share(to));
            }
            Effect::Count { program } if !is_half => {
                self.allocations.get_mut(program).window.count();
            }
            Effect::Count { .. } | Effect::Read { .. } | Effect::None | Effect::WaitFor(_) => {}
        }
    }

    /// The bytes that a block read are those that were written last.
    pub(crate) fn check_bytes(&self, span: Span, seen: &[u8]) -> Checked {
        let allocation = self.allocations.get(span.allocation);
        match allocation.window.difference(span.offset, seen) {
            None => Ok(()),
            Some((offset, expected, seen)) => {
                let place = allocation.place;
                let message = format!("{place:?} + {offset} holds {seen}, not {expected}");
                broken(Promise::RightBytes, message)
            }
        }
    }
}
