//! Pieces of a tile that lie alike: whole sticks of them are copied in one go.

use spyre_layout::StickGrid;
use spyre_numerics::Converter;

use super::{Piece, STICK_BYTES, Tensor};
use crate::memory::MemorySlice;
use crate::programs::access::nest::Row;
use crate::programs::schedule::stop::Stop;

/// Pieces that are alike, one beside the other in the tile and at one stride in device memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Series {
    pub(super) first: Piece,
    pub(super) count: usize,
    pub(super) step_bytes: usize,
}

impl Series {
    /// Each for itself.
    pub(in crate::programs) fn pieces(self) -> impl Iterator<Item = Piece> {
        let Self { first, count, step_bytes } = self;
        (0..count).map(move |nth| Piece {
            at: first.at + nth * step_bytes,
            place: first.place + nth * first.elements,
            ..first
        })
    }
}

/// Whole sticks in columns and rows: bytes from one to the next in device memory and in the tile, and
/// where they start in the tile.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Sticks {
    /// Its first byte in device memory.
    pub(in crate::programs) at: usize,
    pub(in crate::programs) counts: [usize; 2],
    pub(in crate::programs) there: [usize; 2],
    pub(in crate::programs) in_tile: [usize; 2],
    pub(in crate::programs) start: usize,
}

impl Tensor {
    /// Copies a series of whole sticks into the tile in `target`; whether it is one.
    pub(in crate::programs) fn load_sticks(
        &self,
        part: MemorySlice<'_>,
        series: Series,
        converter: &Converter,
        target: &mut [u8],
    ) -> bool {
        let Some(sticks) = self.sticks(series, converter) else { return false };
        let grid = StickGrid {
            counts: sticks.counts,
            source_strides: sticks.there,
            target_strides: sticks.in_tile,
        };
        part.copy_sticks_out(sticks.at, grid, &mut target[sticks.start..]);
        true
    }

    /// Copies a series of whole sticks from the tile in `source`; whether it is one.
    pub(in crate::programs) fn store_sticks(
        &self,
        part: MemorySlice<'_>,
        series: Series,
        converter: &Converter,
        source: &[u8],
    ) -> bool {
        let Some(sticks) = self.sticks(series, converter) else { return false };
        let grid = StickGrid {
            counts: sticks.counts,
            source_strides: sticks.in_tile,
            target_strides: sticks.there,
        };
        let way = self.way(series.first.count());
        part.copy_sticks_in(&source[sticks.start..], sticks.at, grid, way);
        true
    }

    /// A series as sticks that are copied as they are, if it is one.
    pub(in crate::programs) fn sticks(
        &self,
        series: Series,
        converter: &Converter,
    ) -> Option<Sticks> {
        self.whole_sticks(series).filter(|_| converter.is_copy())
    }

    /// A series as whole sticks, if it is one. Places in the tile count its elements as the device keeps them.
    pub(in crate::programs) fn whole_sticks(&self, series: Series) -> Option<Sticks> {
        let Series { first, count, step_bytes } = series;
        let bytes = self.element_bytes;
        let stick = STICK_BYTES as usize;
        let is_whole = first.elements * bytes == stick && self.is_dense(first);
        is_whole.then(|| Sticks {
            at: first.at,
            counts: [count, first.rows],
            there: [step_bytes, first.row_stride_bytes],
            in_tile: [stick, first.pitch * bytes],
            start: first.place * bytes,
        })
    }

    /// A series as whole sticks, of a tile with so many in each row. Sticks that follow each other are one run,
    /// which may have several rows.
    pub(in crate::programs) fn sticks_in_rows(
        &self,
        series: Series,
        columns: usize,
    ) -> Option<Sticks> {
        let Series { first, count, .. } = series;
        let bytes = self.element_bytes;
        let stick = STICK_BYTES as usize;
        let run = first.elements * bytes / stick;
        let is_run = self.is_dense(first) && (first.elements * bytes).is_multiple_of(stick);
        if count > 1 || run < 2 || !is_run {
            return self.whole_sticks(series);
        }
        let row = columns * stick;
        let start = first.place * bytes;
        let sticks = Sticks {
            at: first.at,
            counts: [run, 1],
            there: [stick, row],
            in_tile: [stick, row],
            start,
        };
        if first.rows > 1 {
            let there = [stick, first.row_stride_bytes];
            let in_tile = [stick, first.pitch * bytes];
            return Some(Sticks { counts: [run, first.rows], there, in_tile, ..sticks });
        }
        let is_rows = run.is_multiple_of(columns) && start.is_multiple_of(row);
        Some(if is_rows { Sticks { counts: [columns, run / columns], ..sticks } } else { sticks })
    }

    /// The pieces like the first one that follow each other in all rows. As with rows, the last piece of
    /// the last row speaks for all.
    pub(super) fn sticks_like(
        &self,
        first: Piece,
        rows: Row,
        row: Row,
        done: usize,
    ) -> Result<Option<Series>, Stop> {
        let whole = (row.elements - done) / first.elements;
        let element = usize::try_from(row.start + done as i64 * row.stride).unwrap_or(usize::MAX);
        if whole < 2 {
            return Ok(None);
        }
        let across = self.layout.run_from(element, first.elements as i64 * row.stride);
        let down = self.layout.run_from(element, rows.stride);
        let (Some(across), Some(down)) = (across, down) else { return Ok(None) };
        let sticks = whole.min(across.elements);
        if sticks < 2 || rows.elements > 1 && down.elements < rows.elements {
            return Ok(None);
        }
        let step = across.stride * self.element_bytes;
        let row_stride_bytes = if rows.elements > 1 { down.stride * self.element_bytes } else { 0 };
        let below = (rows.elements - 1) as i64 * rows.stride;
        let before = done + (sticks - 1) * first.elements;
        let last = self.piece(Row { start: row.start + below, ..row }, before)?;
        let far = (sticks - 1) * step + (rows.elements - 1) * row_stride_bytes;
        let is_alike = last.elements >= first.elements
            && last.stride_bytes == first.stride_bytes
            && last.at == first.at + far;
        let first = Piece { rows: rows.elements, row_stride_bytes, ..first };
        Ok(is_alike.then_some(Series { first, count: sticks, step_bytes: step }))
    }
}
