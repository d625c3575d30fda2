//! Tiles of float32 as sticks, for what is done with each where it lies in device memory.

use spyre_numerics::STICK_BYTES;

use crate::programs::access::operand::Sticks;

/// Float32 elements of a stick.
pub(in crate::programs) const STICK: usize = STICK_BYTES / size_of::<f32>();

/// Number of a tile's rows, and of the sticks in each.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TileSticks {
    pub(in crate::programs) rows: usize,
    pub(in crate::programs) columns: usize,
}

impl TileSticks {
    /// Column and row of the first one of some sticks, if those of a row of memory are in one row of the tile.
    pub(in crate::programs) fn place(self, sticks: &Sticks) -> Option<[usize; 2]> {
        let Sticks { counts, in_tile, start, .. } = *sticks;
        let first = start / STICK_BYTES;
        let row = first / self.columns;
        let column = first % self.columns;
        let goes_down = counts[1] == 1 || in_tile[1] == self.columns * STICK_BYTES;
        let is_inside = column + counts[0] <= self.columns && row + counts[1] <= self.rows;
        let is_placed = start.is_multiple_of(STICK_BYTES) && goes_down && is_inside;
        is_placed.then_some([column, row])
    }
}
