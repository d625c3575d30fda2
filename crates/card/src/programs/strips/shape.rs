//! Tiles as columns and rows of lines, and the strips that they are cut into.

use smallvec::SmallVec;
use spyre_artifact::{Dim, Span};

use crate::programs::schedule::tiles::{Tiles, dims};
use crate::programs::strips::kernels::StripLoops;
use crate::programs::strips::lines::LINE;
use crate::programs::strips::prefetch::FetchedLines;

/// TileLines of a strip: 1,024 elements.
pub(super) const LINES: usize = 32;
/// Shorter rows than this are better worked on together, as whole tiles.
const LEAST_ROW: usize = 32;
/// Tiles of fewer elements are not worth their addresses.
const LEAST_ELEMENTS: usize = 512;

/// Tile of the wide dims: rows along its last dim of more than one element.
#[derive(Clone, Debug)]
pub(in crate::programs) struct TileShape {
    pub(in crate::programs) column_dim: Dim,
    /// The other dims of more than one element, outermost first.
    pub(in crate::programs) row_dims: SmallVec<[Dim; 4]>,
    pub(in crate::programs) rows: usize,
    /// Elements of a row.
    pub(in crate::programs) row_elements: usize,
}

/// Elements from one to the next, of something that repeats along rows or columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineSteps {
    pub(super) row: usize,
    pub(super) has_columns: bool,
}

/// TileLines that operations work on at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStrip {
    pub(super) column: usize,
    pub(super) row: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Elements of each line: fewer in the last column only.
    pub(super) elements: usize,
    /// True if the columns of a row follow each other, rather than the rows of a column.
    pub(super) is_by_rows: bool,
}

impl TileShape {
    /// The current tile of some dims, if it is worth strips; `narrow` are spans of what repeats in it.
    pub(super) fn of(tiles: &Tiles, wide: Span, narrow: &[Span]) -> Option<Self> {
        let long: SmallVec<[Dim; 4]> =
            dims(wide).filter(|dim| tiles.elements[dim.index()] != 1).collect();
        let (&column_dim, row_dims) = long.split_last()?;
        let row_elements = tiles.elements[column_dim.index()];
        let rows = row_dims.iter().map(|dim| tiles.elements[dim.index()]).product();
        let shape = Self { column_dim, row_dims: row_dims.into(), rows, row_elements };
        let is_large = row_elements >= LEAST_ROW && rows * row_elements >= LEAST_ELEMENTS;
        let is_regular = || narrow.iter().all(|&span| shape.steps(tiles, span).is_some());
        (is_large && is_regular()).then_some(shape)
    }

    /// LineSteps of a register with some of the dims; `None` if rows do not follow each other evenly.
    pub(super) fn steps(&self, tiles: &Tiles, own: Span) -> Option<LineSteps> {
        let stride = |dim: Dim| {
            if !own.contains(dim) {
                return 0;
            }
            let after = dims(own).filter(|other| *other > dim);
            after.map(|dim| tiles.elements[dim.index()]).product()
        };
        let row = self.row_step(tiles, stride)?;
        Some(LineSteps { row, has_columns: own.contains(self.column_dim) })
    }

    /// Step from row to row, of something with these steps along dims.
    pub(in crate::programs) fn row_step(
        &self,
        tiles: &Tiles,
        step: impl Fn(Dim) -> usize,
    ) -> Option<usize> {
        let mut dims = self.row_dims.iter().rev();
        let Some(&last) = dims.next() else { return Some(0) };
        let row = step(last);
        let mut reach = row * tiles.elements[last.index()];
        for &dim in dims {
            if step(dim) != reach {
                return None;
            }
            reach *= tiles.elements[dim.index()];
        }
        Some(row)
    }

    pub(super) fn columns(&self) -> usize {
        self.row_elements.div_ceil(LINE)
    }

    pub(super) fn elements(&self) -> usize {
        self.rows * self.row_elements
    }

    /// Calls `act` with all strips, column by column. In tiles, as opposed to device memory, the columns of a row lie
    /// beside each other: whole rows of them are taken together.
    #[inline(always)]
    pub(super) fn each_strip<E>(
        &self,
        is_in_tiles: bool,
        mut act: impl FnMut(&LineStrip) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.columns();
        let last = self.row_elements - (count - 1) * LINE;
        // A last column of short lines is a strip of its own.
        let whole = if last == LINE { count } else { count - 1 };
        let is_by_rows = self.rows == 1 || is_in_tiles && last == LINE;
        let [most, most_rows] = if is_by_rows {
            [LINES, (LINES / count).max(1)]
        } else {
            [(LINES / self.rows).max(1), LINES]
        };
        let mut column = 0;
        while column < count {
            let is_short = column == whole;
            let columns = if is_short { 1 } else { most.min(whole - column) };
            let elements = if is_short { last } else { LINE };
            let mut row = 0;
            while row < self.rows {
                let rows = most_rows.min(self.rows - row);
                act(&LineStrip { column, row, columns, rows, elements, is_by_rows })?;
                row += rows;
            }
            column += columns;
        }
        Ok(())
    }
}

impl LineStrip {
    /// The loops over its lines, that have the cache fetch some others.
    pub(super) fn loops<'a>(&self, fetched: &'a [FetchedLines]) -> StripLoops<'a> {
        let [outer, inner] =
            if self.is_by_rows { [self.rows, self.columns] } else { [self.columns, self.rows] };
        StripLoops { outer, inner, elements: self.elements, fetched }
    }

    /// LineStrip whose lines are worth fetching now: what is further ahead would leave the L1 cache again. It may be
    /// behind the tile, where the next one begins.
    pub(super) fn later(self) -> Self {
        Self { column: self.column + self.columns, ..self }
    }

    pub(super) fn lines(&self) -> usize {
        self.columns * self.rows
    }

    pub(super) fn is_whole(&self) -> bool {
        self.elements == LINE
    }
}
