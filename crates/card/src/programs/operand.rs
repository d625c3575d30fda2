use spyre_artifact::{Dim, HandleWords, MAX_DIMS, OPERAND_WORDS, OperandType, OperandWords};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_layout::SpyreTensorLayout;

use super::nest::{Nest, Row};
use super::tiles::Tiles;
use super::{Stop, named};
use crate::memory::{Way, Window};

/// A tensor of a launch: where its elements are, and the bytes that may be touched.
#[derive(Debug)]
pub(super) struct Tensor {
    operand: usize,
    is_written: bool,
    /// What it was made of.
    words: [u64; OPERAND_WORDS],
    handle: DeviceHandle,
    limit_bytes: usize,
    /// Where its last byte ends; some before may be further, of a layout with holes.
    reach_bytes: usize,
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

/// The words that a tensor has in a table before those of its view and its layout.
const PLACE_WORDS: usize = 4;

impl Tensor {
    /// The tensor that a table describes; `None` if it has no elements. It is refused before
    /// anything runs if its first or last element lies outside.
    pub(super) fn bind(
        operand: usize,
        of: OperandType,
        words: &[u64; OPERAND_WORDS],
        extents: &[usize; MAX_DIMS],
    ) -> Result<Option<Self>, Stop> {
        let refused = |why: String| Stop::operand(operand, why);
        if *words == [0; OPERAND_WORDS] {
            return Err(refused("it is not filled: launch the correction program first".into()));
        }
        let named_words =
            OperandWords::decode(words).map_err(|error| refused(error.to_string()))?;
        let layout = named_words.layout(of.format).map_err(|error| refused(error.to_string()))?;
        if of.access.writes() && layout.has_replicas() {
            let why = "its layout repeats elements, which can be loaded but not stored";
            return Err(refused(why.into()));
        }
        let outside = |dim: usize| !of.span.contains(Dim(dim as u8));
        let OperandWords { offset, strides, .. } = named_words;
        if let Some(dim) = (0..MAX_DIMS).find(|&dim| outside(dim) && strides[dim] != 0) {
            return Err(refused(format!("d{dim} moves it, which it does not span")));
        }
        if of.span.dims().any(|dim| extents[dim.index()] == 0) {
            return Ok(None);
        }
        let mut tensor = Self {
            operand,
            is_written: of.access.writes(),
            words: *words,
            handle: handle_of(operand, words)?,
            limit_bytes: usize::try_from(words[3]).unwrap_or(usize::MAX),
            reach_bytes: 0,
            layout,
            element_bytes: of.format.element_bytes().unwrap_or(1),
            offset,
            strides,
        };
        tensor.reach_bytes = tensor.check_ends(extents)?;
        Ok(Some(tensor))
    }

    /// Makes it the tensor of these words, if it differs in its place only and fits there.
    pub(super) fn move_to(&mut self, words: &[u64; OPERAND_WORDS]) -> bool {
        let limit_bytes = usize::try_from(words[3]).unwrap_or(usize::MAX);
        if self.words[PLACE_WORDS..] != words[PLACE_WORDS..] || limit_bytes < self.reach_bytes {
            return false;
        }
        let Ok(handle) = handle_of(self.operand, words) else { return false };
        (self.handle, self.limit_bytes) = (handle, limit_bytes);
        self.words[..PLACE_WORDS].copy_from_slice(&words[..PLACE_WORDS]);
        true
    }

    /// Which operand it is.
    pub(super) fn operand(&self) -> usize {
        self.operand
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written
    }

    /// What it may touch.
    pub(super) fn range(&self) -> DeviceRange {
        DeviceRange::start_of(self.handle, self.limit_bytes as u64)
    }

    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Copies the current tile's bytes, in the order of `dims`, into all of `target`.
    pub(super) fn gather(
        &self,
        window: &Window,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        target: &mut [u8],
    ) -> Result<(), Stop> {
        let mut rest = target;
        self.each_piece(tiles, dims, |piece| {
            let bytes = piece.elements * self.element_bytes;
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
            self.read(window, piece, now);
            rest = later;
        })
    }

    /// Writes the current tile from bytes in the order of `dims`.
    pub(super) fn scatter(
        &self,
        window: &Window,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        source: &[u8],
    ) -> Result<(), Stop> {
        let mut rest = source;
        self.each_piece(tiles, dims, |piece| {
            let (now, later) = rest.split_at(piece.elements * self.element_bytes);
            self.write(window, piece, now);
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
        let run = run.ok_or_else(|| self.illegal(self.limit_bytes))?;
        let elements = run.elements.min(row.elements - done);
        let (at, stride_bytes) = (run.start * self.element_bytes, run.stride * self.element_bytes);
        let end = at + (elements - 1) * stride_bytes + self.element_bytes;
        match end <= self.limit_bytes {
            true => Ok(Piece { at, stride_bytes, elements }),
            false => Err(self.illegal(end - self.element_bytes)),
        }
    }

    /// Where the further one of its first and its last element ends.
    fn check_ends(&self, extents: &[usize; MAX_DIMS]) -> Result<usize, Stop> {
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        for (&extent, &stride) in extents.iter().zip(&self.strides).filter(|(_, s)| **s != 0) {
            let reach = (extent as i128 - 1) * i128::from(stride);
            *(if stride < 0 { &mut low } else { &mut high }) += reach;
        }
        let mut reach_bytes = 0;
        for end in [low, high] {
            let start = i64::try_from(end).map_err(|_| self.illegal(self.limit_bytes))?;
            let piece = self.piece(Row { start, elements: 1, stride: 0 }, 0)?;
            reach_bytes = reach_bytes.max(piece.at + self.element_bytes);
        }
        Ok(reach_bytes)
    }

    fn read(&self, window: &Window, piece: Piece, target: &mut [u8]) {
        let Piece { at, stride_bytes, elements } = piece;
        if stride_bytes == self.element_bytes || elements == 1 {
            return window.read(at, target, Way::Cached);
        }
        match self.element_bytes {
            1 => self.read_each::<1>(window, piece, target),
            2 => self.read_each::<2>(window, piece, target),
            4 => self.read_each::<4>(window, piece, target),
            _ => self.read_each::<8>(window, piece, target),
        }
    }

    fn read_each<const BYTES: usize>(&self, window: &Window, piece: Piece, target: &mut [u8]) {
        let mut element = [0; BYTES];
        for (nth, target) in target.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
            if nth == 0 || piece.stride_bytes > 0 {
                window.read(piece.at + nth * piece.stride_bytes, &mut element, Way::Cached);
            }
            *target = element;
        }
    }

    fn write(&self, window: &Window, piece: Piece, source: &[u8]) {
        let Piece { at, stride_bytes, elements } = piece;
        if stride_bytes == self.element_bytes || elements == 1 {
            return window.write(at, source, Way::Cached);
        }
        match self.element_bytes {
            1 => self.write_each::<1>(window, piece, source),
            2 => self.write_each::<2>(window, piece, source),
            4 => self.write_each::<4>(window, piece, source),
            _ => self.write_each::<8>(window, piece, source),
        }
    }

    fn write_each<const BYTES: usize>(&self, window: &Window, piece: Piece, source: &[u8]) {
        for (nth, element) in source.as_chunks::<BYTES>().0.iter().enumerate() {
            window.write(piece.at + nth * piece.stride_bytes, element, Way::Cached);
        }
    }

    #[cold]
    fn illegal(&self, offset: usize) -> Stop {
        let (bytes, limit) = (self.element_bytes, self.limit_bytes);
        let why = format!("{bytes} bytes at {offset} of {} are past its {limit}", self.handle);
        Stop::operand(self.operand, why)
    }
}

fn handle_of(operand: usize, words: &[u64; OPERAND_WORDS]) -> Result<DeviceHandle, Stop> {
    named(HandleWords([words[0], words[1], words[2]]), "memory")
        .map_err(|_| Stop::operand(operand, "its words name no handle"))
}
