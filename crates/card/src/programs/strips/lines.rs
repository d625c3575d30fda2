//! Addresses of a tile's lines: 32 elements that follow each other.

use crate::programs::strips::buffers::ScratchLine;
use crate::programs::strips::shape::LineStrip;

/// Elements of a line.
pub(in crate::programs) const LINE: usize = 32;

/// TileLines of a tile in columns and rows. All of them are there for as long as the tile is worked on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileLines {
    first: *mut u8,
    /// Bytes from a row to the next one.
    row: usize,
    column: Columns,
    pub(super) form: Form,
}

/// Bytes between columns: some lie beside each other in one stick, perhaps.
#[derive(Clone, Copy, Debug)]
struct Columns {
    per_stick: usize,
    line: usize,
    stick: usize,
}

/// Form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Elements one after the other.
    Whole,
    /// Whole lines in a strip of scratch: counted from the strip's first line, and without gaps.
    Scratch,
    /// Whole lines of a tile on its way from or to device memory, which is float32 already.
    Staged,
    /// One number that stands for all of the line.
    One,
    /// Whole lines of memory that are stored past the cache.
    PastCache,
}

/// TileLines of one strip, in two loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripLines {
    pub(super) first: *mut u8,
    pub(super) outer: usize,
    pub(super) inner: usize,
    pub(super) form: Form,
}

impl TileLines {
    pub(super) fn new(first: *mut u8, row: usize, column: usize, form: Form) -> Self {
        let column = Columns { per_stick: 1, line: column, stick: column };
        Self { first, row, column, form }
    }

    /// TileLines in sticks that hold several of them.
    pub(super) fn in_sticks(
        first: *mut u8,
        row: usize,
        [per_stick, line, stick]: [usize; 3],
    ) -> Self {
        let is_even = stick == per_stick * line;
        let column = if is_even {
            Columns { per_stick: 1, line, stick: line }
        } else {
            Columns { per_stick, line, stick }
        };
        Self { first, row, column, form: Form::Whole }
    }

    /// TileLines of a strip of scratch.
    pub(super) fn in_scratch<T>(first: *mut ScratchLine) -> Self {
        let line = LINE * size_of::<T>();
        Self::new(first.cast(), line, line, Form::Scratch)
    }

    /// Returns true if each fills whole lines of a cache.
    pub(super) fn are_lines_of_memory(&self) -> bool {
        let Columns { line, stick, .. } = self.column;
        [self.first.addr(), self.row, line, stick].iter().all(|at| at.is_multiple_of(64))
    }

    pub(super) fn with_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// Bytes from a row to the next one.
    pub(super) fn row_bytes(&self) -> usize {
        self.row
    }

    /// Bytes from a column to the next one, if all columns lie so.
    pub(super) fn column_bytes(&self) -> Option<usize> {
        (self.column.per_stick == 1).then_some(self.column.stick)
    }

    /// Address of a line.
    #[inline(always)]
    pub(super) fn at(&self, column: usize, row: usize) -> *mut u8 {
        let Columns { per_stick, line, stick } = self.column;
        let along = if per_stick == 1 {
            column * stick
        } else {
            column / per_stick * stick + column % per_stick * line
        };
        self.first.wrapping_add(along + row * self.row)
    }

    /// The lines of a strip; columns lie evenly.
    #[inline(always)]
    pub(super) fn of(&self, strip: &LineStrip) -> StripLines {
        if self.form == Form::Scratch {
            let inner = if strip.is_by_rows { strip.columns } else { strip.rows };
            let outer = inner * self.row;
            return StripLines { first: self.first, outer, inner: self.row, form: self.form };
        }
        let first = self.at(strip.column, strip.row);
        let (outer, inner) = if strip.is_by_rows {
            (self.row, self.column.stick)
        } else {
            (self.column.stick, self.row)
        };
        StripLines { first, outer, inner, form: self.form }
    }
}

impl StripLines {
    /// Address of a line.
    #[inline(always)]
    pub(super) fn at(&self, outer: usize, inner: usize) -> *mut u8 {
        self.first.wrapping_add(outer * self.outer + inner * self.inner)
    }
}
