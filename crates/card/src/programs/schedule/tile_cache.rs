mod recall;

use spyre_artifact::Lane;

use crate::programs::execute::buffer::Buffer;

/// Tiles that a loop nest has made and later ones recall.
#[derive(Debug, Default)]
pub(in crate::programs) struct TileCache {
    values: Vec<Vec<Buffer>>,
    /// Number of tiles of each value, once all of them are there; zero before.
    counts: Vec<usize>,
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
        self.values.iter().flatten().map(Buffer::capacity_bytes).sum()
    }

    /// The room for a tile of a value.
    fn room(&mut self, value: u8, nth: usize, lane: Lane) -> &mut Buffer {
        let tiles = &mut self.values[usize::from(value)];
        while tiles.len() <= nth {
            tiles.push(Buffer::empty(lane));
        }
        let room = &mut tiles[nth];
        if room.lane() != lane {
            // Another program's, whose registers are of another lane.
            *room = Buffer::empty(lane);
        }
        room
    }
}
