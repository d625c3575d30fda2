//! Tiles of float32 as sticks, for what is done with each where it lies in device memory.

use spyre_artifact::Register;
use spyre_numerics::STICK_BYTES;

use super::machine::Machine;
use super::operand::Sticks;

/// What a stick holds of float32.
pub(super) const STICK: usize = STICK_BYTES / size_of::<f32>();

pub(super) type Stick = [f32; STICK];

/// How many sticks a tile has.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileSticks {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Sticks of a tile, and where they lie in device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) strides: [usize; 2],
    /// Columns and rows of them.
    pub(super) counts: [usize; 2],
    /// The first one's column and row in the tile.
    pub(super) first: [usize; 2],
}

impl Machine<'_> {
    /// A register's tile as sticks, if it is rows of whole ones.
    pub(super) fn sticks_of(&self, register: Register) -> Option<TileSticks> {
        let nest = self.nest_of(register, register);
        let rows = match nest.outer() {
            [] => 1,
            [rows] => rows.elements,
            _ => return None,
        };
        let elements = nest.row().elements;
        let is_whole = elements > 0 && elements.is_multiple_of(STICK);
        is_whole.then_some(TileSticks { rows, columns: elements / STICK })
    }
}

impl TileSticks {
    /// Where sticks of the tile lie, if those of a row of memory are in one row of the tile.
    pub(super) fn place(self, sticks: &Sticks) -> Option<Place> {
        let Sticks { at, counts, there, in_tile, start } = *sticks;
        let first = start / STICK_BYTES;
        let (row, column) = (first / self.columns, first % self.columns);
        let goes_down = counts[1] == 1 || in_tile[1] == self.columns * STICK_BYTES;
        let is_inside = column + counts[0] <= self.columns && row + counts[1] <= self.rows;
        let is_placed = start.is_multiple_of(STICK_BYTES) && goes_down && is_inside;
        is_placed.then_some(Place { at, strides: there, counts, first: [column, row] })
    }
}
