use spyre_artifact::{Dim, Lane, RegisterType};

use super::buffer::Buffer;
use super::limits::tile_elements;
use super::machine::Machine;
use super::recall::{Part, Sweep};

/// Tiles that a sweep has made and later ones recall.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    values: Vec<Vec<Buffer>>,
    /// How many tiles of each are all there are; zero if they are not there.
    counts: Vec<usize>,
}

/// A sweep that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweeping {
    sweep: u8,
    tile_end: usize,
    end: usize,
    nth: usize,
    keeps: bool,
    recalls: bool,
}

/// What is kept at a time: as much as a core's LX. More is made again.
const MOST_BYTES: usize = 2 << 20;

impl Shelf {
    /// Nothing is kept of what was; the buffers stay.
    pub(super) fn clear(&mut self, values: usize) {
        self.values.resize_with(values.max(self.values.len()), Vec::new);
        self.counts.clear();
        self.counts.resize(values, 0);
    }

    /// What all buffers hold of the host.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.values.iter().flatten().map(Buffer::capacity_bytes).sum()
    }

    /// The room for a tile of a value.
    fn room(&mut self, value: u8, nth: usize, lane: Lane) -> &mut Buffer {
        let tiles = &mut self.values[usize::from(value)];
        while tiles.len() <= nth {
            tiles.push(Buffer::empty(lane));
        }
        &mut tiles[nth]
    }
}

impl Machine<'_> {
    /// A sweep begins here, perhaps.
    pub(super) fn begin_sweep(&mut self, at: usize) {
        let recalls = self.code.recalls();
        let Some((nth, sweep)) = recalls.sweep_at(at) else { return };
        let tiles = self.tiles_of(sweep);
        let bytes_of = |value: &u8| self.bytes_of(sweep, recalls.values[usize::from(*value)]);
        let bytes = sweep.keeps.iter().map(bytes_of).fold(0, usize::saturating_add);
        let is_kept = |value: &u8| self.shelf.counts[usize::from(*value)] == tiles;
        let recalled = !sweep.recalls.is_empty() && sweep.recalls.iter().all(is_kept);
        sweep.keeps.iter().for_each(|&value| self.shelf.counts[usize::from(value)] = 0);
        self.sweeping = Some(Sweeping {
            sweep: nth,
            tile_end: sweep.tile_end(),
            end: sweep.end(),
            nth: 0,
            keeps: !sweep.keeps.is_empty() && bytes <= MOST_BYTES / recalls.values.len(),
            recalls: recalled,
        });
    }

    /// A tile of the sweep has ended here, perhaps.
    pub(super) fn end_sweep_tile(&mut self, at: usize) {
        let Some(sweeping) = self.sweeping.as_mut().filter(|sweeping| sweeping.tile_end == at)
        else {
            return;
        };
        if sweeping.keeps {
            for &(value, register) in &self.code.recalls().sweep(sweeping.sweep).taken {
                let tile = self.registers.tile_mut(register);
                std::mem::swap(tile, self.shelf.room(value, sweeping.nth, tile.lane()));
            }
        }
        sweeping.nth += 1;
    }

    /// The sweep has ended here, perhaps.
    pub(super) fn end_sweep(&mut self, at: usize) {
        let Some(sweeping) = self.sweeping.take_if(|sweeping| sweeping.end == at) else { return };
        if sweeping.keeps {
            for &value in &self.code.recalls().sweep(sweeping.sweep).keeps {
                self.shelf.counts[usize::from(value)] = sweeping.nth;
            }
        }
    }

    /// Whether what an instruction makes is there, or not needed.
    pub(super) fn recalls(&mut self, part: Part) -> bool {
        let Some(sweeping) = self.sweeping.filter(|sweeping| sweeping.recalls) else {
            return false;
        };
        let (Some((value, is_last)), Some(target)) = (part.recall, part.target) else {
            return part.is_idle;
        };
        let kept = &mut self.shelf.values[usize::from(value)][sweeping.nth];
        let tile = self.registers.tile_mut(target);
        match is_last {
            true => std::mem::swap(tile, kept),
            false => tile.copy_from(kept),
        }
        true
    }

    /// Keeps what an instruction has made, if it is to.
    pub(super) fn keep(&mut self, part: Part) {
        let sweeping = self.sweeping.filter(|sweeping| sweeping.keeps);
        let (Some(sweeping), Some((value, true))) = (sweeping, part.keep) else { return };
        if let Some(tile) = part.target.map(|target| self.registers.tile(target)) {
            self.shelf.room(value, sweeping.nth, tile.lane()).copy_from(tile);
        }
    }

    fn tiles_of(&self, sweep: &Sweep) -> usize {
        let tiles = |&(dim, tile): &(Dim, _)| {
            let extent = self.bound.extents[dim.index()];
            extent.div_ceil(tile_elements(tile, extent).max(1))
        };
        sweep.loops.iter().map(tiles).fold(1, usize::saturating_mul)
    }

    /// What all tiles of a value take.
    fn bytes_of(&self, sweep: &Sweep, of: RegisterType) -> usize {
        let length = |dim: Dim| match sweep.loops.iter().any(|(own, _)| *own == dim) {
            true => self.bound.extents[dim.index()],
            false => self.tiles.elements[dim.index()],
        };
        of.span.dims().map(length).fold(of.lane.element_bytes(), usize::saturating_mul)
    }
}
