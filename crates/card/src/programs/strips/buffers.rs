use crate::programs::execute::buffer::Buffer;
use crate::programs::execute::vector::LANES;
use crate::programs::strips::lines::{Form, LINE, TileLines};
use crate::programs::strips::shape::TileShape;

/// A line of scratch, which is read and written by address.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct ScratchLine {
    numbers: [f32; LINE],
}

/// Tile of float32 in the order of strips: column by column of lines, which are whole lines of a cache.
#[derive(Debug, Default)]
pub(in crate::programs) struct StripTile {
    lines: Vec<ScratchLine>,
    rows: usize,
    row_elements: usize,
}

impl StripTile {
    /// Makes it a tile of this size, which may hold anything.
    pub(in crate::programs) fn resize(&mut self, rows: usize, row_elements: usize) {
        self.rows = rows;
        self.row_elements = row_elements;
        self.lines.resize(rows * row_elements.div_ceil(LINE), ScratchLine::default());
    }

    /// Makes it no tile; its memory stays.
    pub(in crate::programs) fn clear(&mut self) {
        self.rows = 0;
    }

    pub(in crate::programs) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(in crate::programs) fn capacity_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<ScratchLine>()
    }

    /// Copies it to a tile that is row by row.
    pub(in crate::programs) fn copy_to(&self, tile: &mut Vec<f32>) {
        tile.clear();
        for row in 0..self.rows {
            for first in (0..self.row_elements).step_by(LINE) {
                let line = &self.lines[first / LINE * self.rows + row];
                let elements = LINE.min(self.row_elements - first);
                tile.extend_from_slice(&line.numbers[..elements]);
            }
        }
    }

    /// Its lines, if it is of this size.
    pub(super) fn lines(&mut self, shape: &TileShape) -> Option<TileLines> {
        let line = size_of::<ScratchLine>();
        let is_alike = (self.rows, self.row_elements) == (shape.rows, shape.row_elements);
        let first = self.lines.as_mut_ptr().cast();
        is_alike.then(|| TileLines::new(first, line, self.rows * line, Form::Whole))
    }
}

/// Memory that segments work in.
#[derive(Debug, Default)]
pub(in crate::programs) struct StripBuffers {
    /// Strips of values, and some for what kernels need in between.
    pub(super) scratch: Vec<ScratchLine>,
    /// Partial results of each row, for each reduction.
    pub(super) lanes: Vec<[f32; LANES]>,
    /// Tiles on their way from and to device memory, where they do not lie in whole sticks.
    pub(super) staged: Vec<Buffer>,
}

impl StripBuffers {
    pub(in crate::programs) fn capacity_bytes(&self) -> usize {
        let staged: usize = self.staged.iter().map(Buffer::capacity_bytes).sum();
        self.scratch.capacity() * size_of::<ScratchLine>()
            + self.lanes.capacity() * size_of::<[f32; LANES]>()
            + staged
    }
}
