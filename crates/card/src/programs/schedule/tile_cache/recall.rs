//! Loop nests of a launch that keep tiles, and those that recall them.

use spyre_artifact::{Dim, Lane, RegisterType, Tile};

use super::{ActiveLoopNest, MOST_BYTES, Room};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::reuse::{LoopNest, ReuseMark};
use crate::programs::strips::plan::ReuseState;

impl Machine<'_> {
    /// A loop nest begins here, perhaps.
    pub(in crate::programs) fn begin_nest(&mut self, at: usize) {
        let reuse = self.code.reuse();
        let Some((nth, loop_nest)) = reuse.loop_nest_at(at) else { return };
        let tiles = self.tiles_of(loop_nest);
        let bytes_of = |value: &u8| self.bytes_of(loop_nest, reuse.values[usize::from(*value)]);
        let bytes = loop_nest.keeps.iter().map(bytes_of).fold(0, usize::saturating_add);
        let is_kept = |value: &u8| self.tile_cache.counts[usize::from(*value)] == tiles;
        let recalled = !loop_nest.recalls.is_empty() && loop_nest.recalls.iter().all(is_kept);
        loop_nest.keeps.iter().for_each(|&value| self.tile_cache.counts[usize::from(value)] = 0);
        self.active_nest = Some(ActiveLoopNest {
            loop_nest: nth,
            tile_end: loop_nest.tile_end(),
            end: loop_nest.end(),
            nth: 0,
            keeps: !loop_nest.keeps.is_empty() && bytes <= MOST_BYTES / reuse.values.len(),
            recalls: recalled,
            in_rooms: 0,
        });
    }

    /// A tile of the loop nest has ended here, perhaps.
    pub(in crate::programs) fn end_nest_tile(&mut self, at: usize) {
        let Some(active_nest) =
            self.active_nest.as_mut().filter(|active_nest| active_nest.tile_end == at)
        else {
            return;
        };
        if active_nest.keeps {
            let in_rooms = std::mem::take(&mut active_nest.in_rooms);
            let taken = &self.code.reuse().loop_nest(active_nest.loop_nest).taken;
            for &(value, register) in taken.iter().filter(|(value, _)| in_rooms >> value & 1 == 0) {
                let tile = self.registers.tile_mut(register);
                let room = self.tile_cache.room(value, active_nest.nth, tile.lane());
                std::mem::swap(tile, room.tile_mut());
            }
        }
        active_nest.nth += 1;
    }

    /// The loop nest has ended here, perhaps.
    pub(in crate::programs) fn end_nest(&mut self, at: usize) {
        let Some(active_nest) = self.active_nest.take_if(|active_nest| active_nest.end == at)
        else {
            return;
        };
        if active_nest.keeps {
            for &value in &self.code.reuse().loop_nest(active_nest.loop_nest).keeps {
                self.tile_cache.counts[usize::from(value)] = active_nest.nth;
            }
        }
    }

    /// Restores the result of an instruction. Returns true if it is there, or not needed.
    pub(in crate::programs) fn recalls(&mut self, mark: ReuseMark) -> bool {
        let Some(active_nest) = self.active_nest.filter(|active_nest| active_nest.recalls) else {
            return false;
        };
        let (Some((value, is_last)), Some(target)) = (mark.recall, mark.target) else {
            return mark.is_idle;
        };
        let kept = &mut self.tile_cache.values[usize::from(value)][active_nest.nth];
        let tile = self.registers.tile_mut(target);
        if is_last {
            std::mem::swap(tile, kept.tile());
        } else {
            tile.copy_from(kept.tile());
        }
        true
    }

    /// Keeps what an instruction has made, if it is to.
    pub(in crate::programs) fn keep(&mut self, mark: ReuseMark) {
        let active_nest = self.active_nest.filter(|active_nest| active_nest.keeps);
        let (Some(active_nest), Some((value, true))) = (active_nest, mark.keep) else { return };
        if let Some(tile) = mark.target.map(|target| self.registers.tile(target)) {
            let room = self.tile_cache.room(value, active_nest.nth, tile.lane());
            room.tile_mut().copy_from(tile);
        }
    }

    /// State of the loop nest that is under way.
    pub(in crate::programs) fn reuse_state(&self) -> ReuseState {
        let state = |nest: ActiveLoopNest| ReuseState { keeps: nest.keeps, recalls: nest.recalls };
        self.active_nest.map_or_else(ReuseState::default, state)
    }

    /// Room for the current tile of a value, in which strips make and read it.
    pub(in crate::programs) fn room_for(&mut self, value: u8, lane: Lane) -> Option<&mut Room> {
        let active_nest = self.active_nest.as_mut()?;
        active_nest.in_rooms |= 1 << value;
        Some(self.tile_cache.room(value, active_nest.nth, lane))
    }

    fn tiles_of(&self, loop_nest: &LoopNest) -> usize {
        let tiles = |&(dim, tile): &(Dim, Tile)| {
            let extent = self.binding.extents[dim.index()];
            extent.div_ceil(self.binding.steps.elements(dim, tile, extent).max(1))
        };
        loop_nest.loops.iter().map(tiles).fold(1, usize::saturating_mul)
    }

    /// Bytes of all tiles of a value.
    fn bytes_of(&self, loop_nest: &LoopNest, of: RegisterType) -> usize {
        let length = |dim: Dim| {
            if loop_nest.loops.iter().any(|(own, _)| *own == dim) {
                self.binding.extents[dim.index()]
            } else {
                self.tiles.elements[dim.index()]
            }
        };
        of.span.dims().map(length).fold(of.lane.element_bytes(), usize::saturating_mul)
    }
}
