mod recall;

use spyre_artifact::Lane;

use crate::programs::execute::buffer::{Buffer, Element};
use crate::programs::strips::buffers::StripTile;

/// Tiles that a loop nest has made and later ones recall.
#[derive(Debug, Default)]
pub(in crate::programs) struct TileCache {
    values: Vec<Vec<Room>>,
    /// Number of tiles of each value, once all of them are there; zero before.
    counts: Vec<usize>,
}

/// Room for a tile of a value: row by row, or as strips have it.
#[derive(Debug)]
pub(in crate::programs) struct Room {
    tile: Buffer,
    strips: StripTile,
}

/// A loop nest that is under way.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct ActiveLoopNest {
    loop_nest: u8,
    tile_end: usize,
    end: usize,
    nth: usize,
    keeps: bool,
    recalls: bool,
    /// Values whose tiles were made in their rooms, a bit for each.
    in_rooms: u32,
}

/// Bytes that are kept at a time: as much as a core's LX. More is computed again.
const MOST_BYTES: usize = 2 << 20;

impl TileCache {
    /// Forgets all tiles; the buffers stay.
    pub(in crate::programs) fn clear(&mut self, values: usize) {
        self.values.resize_with(values.max(self.values.len()), Vec::new);
        self.counts.clear();
        self.counts.resize(values, 0);
    }

    /// Bytes of the host that all buffers hold.
    pub(in crate::programs) fn capacity_bytes(&self) -> usize {
        self.values.iter().flatten().map(Room::capacity_bytes).sum()
    }

    /// The room for a tile of a value.
    fn room(&mut self, value: u8, nth: usize, lane: Lane) -> &mut Room {
        let rooms = &mut self.values[usize::from(value)];
        while rooms.len() <= nth {
            rooms.push(Room { tile: Buffer::empty(lane), strips: StripTile::default() });
        }
        let room = &mut rooms[nth];
        if room.tile.lane() != lane {
            // Another program's, whose registers are of another lane.
            room.tile = Buffer::empty(lane);
        }
        room
    }
}

impl Room {
    fn capacity_bytes(&self) -> usize {
        self.tile.capacity_bytes() + self.strips.capacity_bytes()
    }

    /// The tile row by row, to be replaced.
    pub(in crate::programs) fn tile_mut(&mut self) -> &mut Buffer {
        self.strips.clear();
        &mut self.tile
    }

    /// The tile row by row.
    fn tile(&mut self) -> &mut Buffer {
        if !self.strips.is_empty() {
            self.strips.copy_to(f32::of_mut(&mut self.tile));
            self.strips.clear();
        }
        &mut self.tile
    }

    /// The tile as strips have it, if they made it.
    pub(in crate::programs) fn strips(&mut self) -> Option<&mut StripTile> {
        (!self.strips.is_empty()).then_some(&mut self.strips)
    }

    /// The tile as strips have it, of so many rows and elements of each, to be made.
    pub(in crate::programs) fn make_strips(&mut self, rows: usize, row_elements: usize) {
        self.strips.resize(rows, row_elements);
    }

    /// The tile row by row, if strips did not make it.
    pub(in crate::programs) fn rows(&mut self) -> &mut Buffer {
        &mut self.tile
    }
}
