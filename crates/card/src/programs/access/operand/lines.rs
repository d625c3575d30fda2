//! Tiles of an operand as lines of 32 elements in whole sticks.

use spyre_artifact::{Dim, Span};
use spyre_layout::AxisOffsets;

use super::Tensor;
use crate::memory::MemorySlice;
use crate::programs::access::axes::Axes;
use crate::programs::schedule::tiles::{Tiles, dims};
use crate::programs::strips::shape::TileShape;

/// Elements of a line.
const LINE: usize = 32;

/// Bytes at which a tile's lines lie.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TensorLines {
    pub(in crate::programs) first: *mut u8,
    pub(in crate::programs) row: usize,
    /// Lines of a stick, and bytes from line to line and from stick to stick.
    pub(in crate::programs) columns: [usize; 3],
}

impl Tensor {
    /// Lines of the current tile, if it lies in whole lines that are evenly spaced.
    pub(in crate::programs) fn lines(
        &self,
        part: MemorySlice<'_>,
        tiles: &Tiles,
        span: Span,
        shape: &TileShape,
    ) -> Option<TensorLines> {
        let Some(Axes::Apart(axes)) = &self.axes else { return None };
        let axis = |dim: Dim| axes[dim.index()].as_ref();
        let bytes = self.element_bytes;
        let mut start = 0;
        for dim in dims(span) {
            start += axis(dim)?.offset(&self.layout, tiles.starts[dim.index()]);
        }
        let columns = match *axis(shape.column_dim)? {
            AxisOffsets::Even { step: 1, .. } => [1, LINE * bytes, LINE * bytes],
            AxisOffsets::Sticks { step: 1, run, across, .. }
                if run.is_multiple_of(LINE)
                    && tiles.starts[shape.column_dim.index()].is_multiple_of(run) =>
            {
                [run / LINE, LINE * bytes, across * bytes]
            }
            _ => return None,
        };
        let is_even = |dim: &Dim| matches!(axis(*dim), Some(AxisOffsets::Even { .. }));
        if !shape.row_dims.iter().all(is_even) {
            return None;
        }
        let step = |dim| match axis(dim) {
            Some(AxisOffsets::Even { step, .. }) => step * bytes,
            _ => 0,
        };
        let row = shape.row_step(tiles, step)?;
        let last = shape.row_elements - 1;
        let last = last / (columns[0] * LINE) * columns[2] + last % (columns[0] * LINE) * bytes;
        let reach = (shape.rows - 1) * row + last + bytes;
        let first = part.address(start * bytes, reach);
        Some(TensorLines { first, row, columns })
    }

    /// Lines of a run of memory.
    pub(in crate::programs) fn run_lines(
        &self,
        part: MemorySlice<'_>,
        first: usize,
        elements: usize,
    ) -> TensorLines {
        let bytes = self.element_bytes;
        let first = part.address(first * bytes, elements * bytes);
        TensorLines { first, row: 0, columns: [1, LINE * bytes, LINE * bytes] }
    }
}
