use spyre_artifact::{Dim, MAX_DIMS, OperandType, OperandWords};
use spyre_hal::{DeviceHandle, DeviceRange, Fault};
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat;

use super::nest::{Nest, Row};
use super::tiles::Tiles;
use super::{Stop, named};
use crate::memory::{Memory, Way, Window};

/// A tensor of one launch: where its elements are, and the bytes that may be touched.
#[derive(Debug)]
pub(super) struct Tensor {
    handle: DeviceHandle,
    window: Window,
    format: DataFormat,
    layout: SpyreTensorLayout,
    element_bytes: usize,
    offset: i64,
    strides: [i64; MAX_DIMS],
}

/// A piece of a row that lies at one stride in device memory.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    stride_bytes: usize,
    elements: usize,
}

impl Tensor {
    /// The tensor that a table describes; `None` if it has no elements. It is refused before
    /// anything runs if its first or last element lies outside.
    pub(super) fn bind(
        memory: &Memory,
        of: OperandType,
        words: &OperandWords,
        extents: &[usize; MAX_DIMS],
    ) -> Result<Option<Self>, Stop> {
        let layout = words.layout(of.format)?;
        if of.access.writes() && layout.has_replicas() {
            return Err(Stop::refused("it stores to a layout that repeats elements"));
        }
        let outside = |dim: usize| !of.span.contains(Dim(dim as u8));
        if let Some(dim) = (0..MAX_DIMS).find(|&dim| outside(dim) && words.strides[dim] != 0) {
            return Err(Stop::refused(format!("d{dim} moves an operand that does not span it")));
        }
        if of.span.dims().any(|dim| extents[dim.index()] == 0) {
            return Ok(None);
        }
        let handle = named(words.handle, "operand")?;
        let window = memory.window(DeviceRange::start_of(handle, words.limit_bytes))?;
        let element_bytes = of.format.element_bytes().unwrap_or(1);
        let OperandWords { offset, strides, .. } = *words;
        let tensor =
            Self { handle, window, format: of.format, layout, element_bytes, offset, strides };
        tensor.check_ends(extents)?;
        Ok(Some(tensor))
    }

    pub(super) fn format(&self) -> DataFormat {
        self.format
    }

    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Copies the current tile's bytes, in the order of `dims`, into all of `target`.
    pub(super) fn gather(
        &self,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        target: &mut [u8],
    ) -> Result<(), Stop> {
        let mut rest = target;
        self.each_piece(tiles, dims, |piece| {
            let bytes = piece.elements * self.element_bytes;
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
            self.read(piece, now);
            rest = later;
        })
    }

    /// Writes the current tile from bytes in the order of `dims`.
    pub(super) fn scatter(
        &self,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        source: &[u8],
    ) -> Result<(), Stop> {
        let mut rest = source;
        self.each_piece(tiles, dims, |piece| {
            let (now, later) = rest.split_at(piece.elements * self.element_bytes);
            self.write(piece, now);
            rest = later;
        })
    }

    fn each_piece(
        &self,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        mut act: impl FnMut(Piece),
    ) -> Result<(), Stop> {
        let starts = tiles.starts.iter().zip(&self.strides);
        let first = starts.fold(self.offset, |at, (&start, stride)| at + start as i64 * stride);
        let step = |dim: Dim| (tiles.elements[dim.index()], self.strides[dim.index()]);
        Nest::over(dims.into_iter().map(step)).each_row(first, |row| {
            let mut done = 0;
            while done < row.elements {
                let piece = self.piece(row, done)?;
                act(piece);
                done += piece.elements;
            }
            Ok(())
        })
    }

    /// The piece of a row that starts behind `done` elements; it lies inside the window.
    fn piece(&self, row: Row, done: usize) -> Result<Piece, Stop> {
        let element = row.start + done as i64 * row.stride;
        let run = usize::try_from(element).ok();
        let run = run.and_then(|element| self.layout.run_from(element, row.stride));
        let run = run.ok_or_else(|| self.illegal(self.window.bytes()))?;
        let elements = run.elements.min(row.elements - done);
        let (at, stride_bytes) = (run.start * self.element_bytes, run.stride * self.element_bytes);
        let end = at + (elements - 1) * stride_bytes + self.element_bytes;
        match end <= self.window.bytes() {
            true => Ok(Piece { at, stride_bytes, elements }),
            false => Err(self.illegal(end - self.element_bytes)),
        }
    }

    fn check_ends(&self, extents: &[usize; MAX_DIMS]) -> Result<(), Stop> {
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        for (&extent, &stride) in extents.iter().zip(&self.strides).filter(|(_, s)| **s != 0) {
            let reach = (extent as i128 - 1) * i128::from(stride);
            *(if stride < 0 { &mut low } else { &mut high }) += reach;
        }
        for end in [low, high] {
            let start = i64::try_from(end).map_err(|_| self.illegal(self.window.bytes()))?;
            self.piece(Row { start, elements: 1, stride: 0 }, 0)?;
        }
        Ok(())
    }

    fn read(&self, piece: Piece, target: &mut [u8]) {
        let Piece { at, stride_bytes, elements } = piece;
        if stride_bytes == self.element_bytes || elements == 1 {
            return self.window.read(at, target, Way::Cached);
        }
        match self.element_bytes {
            1 => self.read_each::<1>(piece, target),
            2 => self.read_each::<2>(piece, target),
            4 => self.read_each::<4>(piece, target),
            _ => self.read_each::<8>(piece, target),
        }
    }

    fn read_each<const BYTES: usize>(&self, piece: Piece, target: &mut [u8]) {
        let mut element = [0; BYTES];
        for (nth, target) in target.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
            if nth == 0 || piece.stride_bytes > 0 {
                self.window.read(piece.at + nth * piece.stride_bytes, &mut element, Way::Cached);
            }
            *target = element;
        }
    }

    fn write(&self, piece: Piece, source: &[u8]) {
        let Piece { at, stride_bytes, elements } = piece;
        if stride_bytes == self.element_bytes || elements == 1 {
            return self.window.write(at, source, Way::Cached);
        }
        match self.element_bytes {
            1 => self.write_each::<1>(piece, source),
            2 => self.write_each::<2>(piece, source),
            4 => self.write_each::<4>(piece, source),
            _ => self.write_each::<8>(piece, source),
        }
    }

    fn write_each<const BYTES: usize>(&self, piece: Piece, source: &[u8]) {
        for (nth, element) in source.as_chunks::<BYTES>().0.iter().enumerate() {
            self.window.write(piece.at + nth * piece.stride_bytes, element, Way::Cached);
        }
    }

    #[cold]
    fn illegal(&self, offset: usize) -> Stop {
        let (offset, bytes) = (offset as u64, self.element_bytes as u64);
        Fault::IllegalAccess { range: DeviceRange { handle: self.handle, offset, bytes } }.into()
    }
}
