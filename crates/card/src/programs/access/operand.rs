use spyre_artifact::{Dim, HandleWords, MAX_DIMS, OPERAND_WORDS, OperandType, OperandWords, Span};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_layout::{STREAM_BYTES, SpyreTensorLayout};
use spyre_numerics::{Converter, Rows};

use crate::memory::{MemorySlice, Way};
use crate::programs::access::axes::Axes;
use crate::programs::access::nest::{Nest, Row};
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::stop::handle_of;
use crate::programs::schedule::tiles::Tiles;

mod lines;
mod rows;
mod series;

pub(in crate::programs) use lines::TensorLines;
pub(in crate::programs) use rows::{TileRun, TileRuns};
pub(in crate::programs) use series::{Series, Sticks};

/// A tensor of a launch: where its elements are, and the bytes that may be touched.
#[derive(Debug)]
pub(in crate::programs) struct Tensor {
    operand: usize,
    is_written: bool,
    /// Table words it was made of.
    words: [u64; OPERAND_WORDS],
    handle: DeviceHandle,
    limit_bytes: usize,
    /// End of its first or last element, whichever is further. Others may be further, in a layout with holes.
    reach_bytes: usize,
    layout: SpyreTensorLayout,
    element_bytes: usize,
    offset: i64,
    strides: [i64; MAX_DIMS],
    /// Axes, for a program with coordinates in registers.
    axes: Option<Axes>,
}

/// Elements of a tile that lie in rows at one stride, each at one stride, in device memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Piece {
    at: usize,
    stride_bytes: usize,
    elements: usize,
    rows: usize,
    row_stride_bytes: usize,
    /// Its first element in the tile, and from one row to the next there.
    place: usize,
    pitch: usize,
}

/// The words that a tensor has in a table before those of its view and its layout.
const PLACE_WORDS: usize = 4;

const STICK_BYTES: u64 = 128;
/// Rows of so many elements are worth stores that go past the cache, if the tensor is large.
const LEAST_STREAMED: usize = 512;
/// Longer pieces are read ahead by the memory itself.
const MOST_PREFETCHED: usize = 8 << 10;

impl Piece {
    /// All of its elements.
    pub(in crate::programs) fn count(&self) -> usize {
        self.rows * self.elements
    }
}

impl Tensor {
    /// The tensor that a table describes; `None` if it has no elements. It is refused before
    /// anything runs if its first or last element lies outside.
    pub(in crate::programs) fn bind(
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
        let offset = named_words.offset;
        let spanned = of.span.count();
        let beyond = named_words.strides.iter().skip(spanned).find(|&&stride| stride != 0);
        if let Some(stride) = beyond {
            let why = format!("it spans {spanned} dims, and has a stride of {stride} for another");
            return Err(refused(why));
        }
        let mut strides = [0; MAX_DIMS];
        let own = of.span.dims().zip(named_words.strides);
        own.for_each(|(dim, stride)| strides[dim.index()] = stride);
        if of.span.dims().any(|dim| extents[dim.index()] == 0) {
            return Ok(None);
        }
        let mut tensor = Self {
            operand,
            is_written: of.access.writes(),
            words: *words,
            handle: operand_handle(operand, words)?,
            limit_bytes: usize::try_from(words[3]).unwrap_or(usize::MAX),
            reach_bytes: 0,
            layout,
            element_bytes: of.format.element_bytes().unwrap_or(1),
            offset,
            strides,
            axes: None,
        };
        tensor.reach_bytes = tensor.check_ends(extents)?;
        Ok(Some(tensor))
    }

    /// Gets ready for coordinates that registers hold.
    pub(in crate::programs) fn prepare_axes(&mut self, span: Span, extents: &[usize; MAX_DIMS]) {
        let device_bytes = self.layout.device_bytes();
        self.axes = Some(if device_bytes <= self.limit_bytes {
            Axes::of(&self.layout, self.offset, &self.strides, span, extents)
        } else {
            Axes::Joined
        });
        if matches!(self.axes, Some(Axes::Apart(_))) {
            self.reach_bytes = self.reach_bytes.max(device_bytes);
        }
    }

    /// Returns true if steps add up to bytes of the device, so that runs stay runs wherever they begin.
    pub(in crate::programs) fn is_apart(&self) -> bool {
        matches!(self.axes, Some(Axes::Apart(_)))
    }

    pub(in crate::programs) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Sum of steps at coordinates of zero.
    pub(in crate::programs) fn first_step(&self) -> i64 {
        if self.is_apart() { 0 } else { self.offset }
    }

    /// Step of a coordinate inside of its dim. The sum of the steps of all dims says where an element lies.
    #[inline]
    pub(in crate::programs) fn step(&self, dim: Dim, coordinate: usize) -> i64 {
        match &self.axes {
            Some(Axes::Apart(axes)) => match &axes[dim.index()] {
                Some(axis) => (axis.offset(&self.layout, coordinate) * self.element_bytes) as i64,
                None => 0,
            },
            _ => coordinate as i64 * self.strides[dim.index()],
        }
    }

    /// The byte at which an element lies whose steps have this sum, and all of it is inside.
    #[inline]
    pub(in crate::programs) fn byte(&self, sum: i64) -> Result<usize, Stop> {
        if self.is_apart() {
            return Ok(sum as usize);
        }
        let element = usize::try_from(sum).ok();
        let byte = element.and_then(|element| self.layout.device_byte(element));
        let byte = byte.ok_or_else(|| self.illegal(self.limit_bytes))?;
        if byte + self.element_bytes <= self.limit_bytes {
            Ok(byte)
        } else {
            Err(self.illegal(byte))
        }
    }

    /// Makes it the tensor of these words, if it differs in its place only and fits there.
    pub(in crate::programs) fn move_to(&mut self, words: &[u64; OPERAND_WORDS]) -> bool {
        let limit_bytes = usize::try_from(words[3]).unwrap_or(usize::MAX);
        if self.words[PLACE_WORDS..] != words[PLACE_WORDS..] || limit_bytes < self.reach_bytes {
            return false;
        }
        let Ok(handle) = operand_handle(self.operand, words) else { return false };
        (self.handle, self.limit_bytes) = (handle, limit_bytes);
        self.words[..PLACE_WORDS].copy_from_slice(&words[..PLACE_WORDS]);
        true
    }

    /// Returns true if its elements lie as another tensor's do, each from its own start.
    pub(in crate::programs) fn lies_like(&self, other: &Self) -> bool {
        self.element_bytes == other.element_bytes
            && self.words[PLACE_WORDS..] == other.words[PLACE_WORDS..]
    }

    /// Returns true if so many elements of some dims are all that its memory holds, each once.
    pub(in crate::programs) fn fills(
        &self,
        span: Span,
        extents: &[usize; MAX_DIMS],
        elements: usize,
    ) -> bool {
        let mut steps: Vec<(i64, usize)> =
            span.dims().map(|dim| (self.strides[dim.index()], extents[dim.index()])).collect();
        steps.sort_unstable();
        let mut reached = 1;
        let is_dense = steps.iter().filter(|(_, extent)| *extent > 1).all(|&(stride, extent)| {
            let goes_on = stride == reached;
            reached *= extent as i64;
            goes_on
        });
        self.offset == 0
            && is_dense
            && self.layout.device_elements() == elements
            && self.layout.device_bytes() == elements * self.element_bytes
            && self.layout.device_bytes() <= self.limit_bytes
            && self.layout.storage_elements().is_none_or(|storage| storage == elements)
            && !self.layout.has_replicas()
            && self.layout.device_element(elements - 1).is_some()
    }

    /// Elements that follow each other in memory, of a tensor that fills it.
    pub(in crate::programs) fn run(&self, first: usize, elements: usize) -> Piece {
        Piece {
            at: first * self.element_bytes,
            stride_bytes: self.element_bytes,
            elements,
            rows: 1,
            row_stride_bytes: 0,
            place: 0,
            pitch: elements,
        }
    }

    /// Index of the operand.
    pub(in crate::programs) fn operand(&self) -> usize {
        self.operand
    }

    pub(in crate::programs) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Range that it may touch.
    pub(in crate::programs) fn range(&self) -> DeviceRange {
        DeviceRange::start_of(self.handle, self.limit_bytes as u64)
    }

    /// The dim along which its sticks run.
    pub(in crate::programs) fn stick_dim(&self, span: Span) -> Option<Dim> {
        let lane = self.layout.placing_map().last().copied().unwrap_or(0);
        span.dims().find(|dim| lane > 0 && self.strides[dim.index()] == lane)
    }

    /// The bytes of all sticks that it touches, about: each once, and all of a stick.
    pub(in crate::programs) fn stick_bytes(&self, span: Span, extents: &[usize; MAX_DIMS]) -> u64 {
        let lane = self.layout.placing_map().last().copied().unwrap_or(0);
        let in_stick = STICK_BYTES / self.element_bytes as u64;
        let mut sticks = 1_u64;
        let mut has_lane = false;
        for dim in span.dims().filter(|dim| self.strides[dim.index()] != 0) {
            let extent = extents[dim.index()] as u64;
            let is_lane = !has_lane && self.strides[dim.index()] == lane;
            has_lane |= is_lane;
            sticks =
                sticks.saturating_mul(if is_lane { extent.div_ceil(in_stick) } else { extent });
        }
        sticks.saturating_mul(STICK_BYTES).min(self.layout.device_bytes() as u64)
    }

    /// Distance between neighbours along a dim: one along sticks, and the most where they are one element.
    pub(in crate::programs) fn distance(&self, dim: Dim) -> u64 {
        let lane = self.layout.placing_map().last().copied().unwrap_or(0);
        match self.strides[dim.index()] {
            0 => u64::MAX,
            stride if stride == lane => 1,
            stride => stride.unsigned_abs().saturating_add(1),
        }
    }

    /// Has the cache fetch a piece of a large tensor, if it is so short that the memory does not read
    /// ahead by itself.
    #[inline]
    pub(in crate::programs) fn prefetch(&self, part: MemorySlice<'_>, piece: Piece) {
        let row_bytes = piece.elements * self.element_bytes;
        if self.is_streamed() && self.is_dense(piece) && row_bytes * piece.rows <= MOST_PREFETCHED {
            part.prefetch(piece.at, piece.rows, piece.row_stride_bytes, row_bytes);
        }
    }

    /// Way in which pieces of so many elements are stored.
    fn way(&self, elements: usize) -> Way {
        if self.is_streamed() && elements >= LEAST_STREAMED { Way::PastCache } else { Way::Cached }
    }

    /// Converts a piece into the tile in `target`, by way of `raw` if its elements lie apart.
    pub(in crate::programs) fn load(
        &self,
        part: MemorySlice<'_>,
        piece: Piece,
        converter: &Converter,
        target: &mut [u8],
        raw: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let Piece { at, elements, rows, row_stride_bytes, place, pitch, .. } = piece;
        let bytes = converter.to().element_bytes().unwrap_or(1);
        if self.is_dense(piece) {
            let target = &mut target[place * bytes..];
            let source_stride = row_stride_bytes;
            let target_stride = pitch * bytes;
            let rows = Rows { count: rows, elements, source_stride, target_stride };
            part.convert_out(converter, at, rows, target);
            return Ok(());
        }
        raw.resize(elements * self.element_bytes, 0);
        for row in 0..rows {
            let piece = Piece { at: at + row * row_stride_bytes, ..piece };
            let target = &mut target[(place + row * pitch) * bytes..][..elements * bytes];
            if converter.is_copy() {
                self.read(part, piece, target);
            } else {
                self.read(part, piece, raw);
                converter.convert(raw, target)?;
            }
        }
        Ok(())
    }

    /// Converts a piece of the tile in `source` to where it lies, by way of `raw` if its elements lie
    /// apart.
    pub(in crate::programs) fn store(
        &self,
        part: MemorySlice<'_>,
        piece: Piece,
        converter: &Converter,
        source: &[u8],
        raw: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let Piece { at, elements, rows, row_stride_bytes, place, pitch, .. } = piece;
        let bytes = converter.from().element_bytes().unwrap_or(1);
        if self.is_dense(piece) {
            let source = &source[place * bytes..];
            let source_stride = pitch * bytes;
            let target_stride = row_stride_bytes;
            let rows = Rows { count: rows, elements, source_stride, target_stride };
            part.convert_in(converter, source, at, rows, self.way(piece.count()));
            return Ok(());
        }
        raw.resize(elements * self.element_bytes, 0);
        for row in 0..rows {
            let piece = Piece { at: at + row * row_stride_bytes, ..piece };
            let source = &source[(place + row * pitch) * bytes..][..elements * bytes];
            converter.convert(source, raw)?;
            self.write(part, piece, raw);
        }
        Ok(())
    }

    /// Returns true if it is so large that it is stored past the cache.
    pub(in crate::programs) fn is_streamed(&self) -> bool {
        self.limit_bytes >= STREAM_BYTES
    }

    fn is_dense(&self, piece: Piece) -> bool {
        piece.stride_bytes == self.element_bytes || piece.elements == 1
    }

    /// Calls `act` with every piece of the current tile, in the order of `dims`.
    pub(in crate::programs) fn each_piece(
        &self,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        mut act: impl FnMut(Piece) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.each_series(tiles, dims, |series| series.pieces().try_for_each(&mut act))
    }

    /// Like [`each_piece`](Self::each_piece), with pieces that are alike in one call.
    pub(in crate::programs) fn each_series(
        &self,
        tiles: &Tiles,
        dims: impl IntoIterator<Item = Dim>,
        mut act: impl FnMut(Series) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let starts = tiles.starts.iter().zip(&self.strides);
        let first = starts.fold(self.offset, |at, (&start, stride)| at + start as i64 * stride);
        let step = |dim: Dim| (tiles.elements[dim.index()], self.strides[dim.index()]);
        // Where a row is cut into sticks anyway, rows that lie alike are better taken together.
        let goes_on = |elements: usize, stride: i64| {
            let run = usize::try_from(first).ok();
            let run = run.and_then(|first| self.layout.run_from(first, stride));
            run.is_none_or(|run| run.elements > elements)
        };
        let mut place = 0;
        Nest::joined_where(dims.into_iter().map(step), goes_on).each_block(first, |rows, row| {
            self.pieces_of(rows, row, place, &mut act)?;
            place += rows.elements * row.elements;
            Ok(())
        })
    }

    /// The pieces of some rows, cut where rows stop lying at one stride: a dim may be several of the device's.
    fn pieces_of(
        &self,
        rows: Row,
        row: Row,
        place: usize,
        act: &mut impl FnMut(Series) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut done = 0;
        while done < rows.elements {
            let start = row.start + done as i64 * rows.stride;
            let left = rows.elements - done;
            let elements =
                if left > 1 { self.rows_at_one_stride(start, rows.stride, left) } else { 1 };
            let rows = Row { elements, ..rows };
            self.pieces_of_even_rows(rows, Row { start, ..row }, place + done * row.elements, act)?;
            done += elements;
        }
        Ok(())
    }

    /// Number of rows, of so many that are left, whose first elements lie at one stride.
    fn rows_at_one_stride(&self, start: i64, stride: i64, left: usize) -> usize {
        let run = usize::try_from(start).ok();
        let run = run.and_then(|start| self.layout.run_from(start, stride));
        run.map_or(left, |run| run.elements.min(left))
    }

    /// The pieces of some rows. Rows whose elements follow each other alike are one piece.
    fn pieces_of_even_rows(
        &self,
        rows: Row,
        row: Row,
        place: usize,
        act: &mut impl FnMut(Series) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut done = 0;
        while done < row.elements {
            let first = self.piece(row, done)?;
            let first = Piece { place: place + done, pitch: row.elements, ..first };
            if let Some(series) = self.sticks_like(first, rows, row, done)? {
                act(series)?;
                done += series.count * first.elements;
                continue;
            }
            let mut act = |first| act(Series { first, count: 1, step_bytes: 0 });
            match self.rows_like(first, rows, row, done)? {
                Some(block) => act(block)?,
                None => self.single_rows(first, rows, row, done, &mut act)?,
            }
            done += first.elements;
        }
        Ok(())
    }

    /// The piece in all rows, if it lies in each as in the first. With steps that are not negative,
    /// whatever room is left shrinks from row to row, so the last one speaks for all.
    fn rows_like(
        &self,
        first: Piece,
        rows: Row,
        row: Row,
        done: usize,
    ) -> Result<Option<Piece>, Stop> {
        if rows.elements == 1 {
            return Ok(Some(first));
        }
        let element = usize::try_from(row.start + done as i64 * row.stride).unwrap_or(usize::MAX);
        let down = self.layout.run_from(element, rows.stride);
        let Some(down) = down.filter(|down| down.elements >= rows.elements) else {
            return Ok(None);
        };
        let row_stride_bytes = down.stride * self.element_bytes;
        let below = (rows.elements - 1) as i64 * rows.stride;
        let last = self.piece(Row { start: row.start + below, ..row }, done)?;
        let is_alike = last.elements >= first.elements
            && last.stride_bytes == first.stride_bytes
            && last.at == first.at + (rows.elements - 1) * row_stride_bytes;
        Ok(is_alike.then_some(Piece { rows: rows.elements, row_stride_bytes, ..first }))
    }

    fn single_rows(
        &self,
        first: Piece,
        rows: Row,
        row: Row,
        done: usize,
        act: &mut impl FnMut(Piece) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for nth in 0..rows.elements {
            let start = row.start + nth as i64 * rows.stride;
            let mut past = 0;
            while past < first.elements {
                let piece = self.piece(Row { start, ..row }, done + past)?;
                let elements = piece.elements.min(first.elements - past);
                let place = first.place + nth * first.pitch + past;
                act(Piece { elements, place, ..piece })?;
                past += elements;
            }
        }
        Ok(())
    }

    /// The piece of a row that starts behind `done` elements; it lies inside the window.
    fn piece(&self, row: Row, done: usize) -> Result<Piece, Stop> {
        let element = row.start + done as i64 * row.stride;
        let run = usize::try_from(element).ok();
        let run = run.and_then(|element| self.layout.run_from(element, row.stride));
        let run = run.ok_or_else(|| self.illegal(self.limit_bytes))?;
        let elements = run.elements.min(row.elements - done);
        let at = run.start * self.element_bytes;
        let stride_bytes = run.stride * self.element_bytes;
        let end = at + (elements - 1) * stride_bytes + self.element_bytes;
        let single =
            Piece { at, stride_bytes, elements, rows: 1, row_stride_bytes: 0, place: 0, pitch: 0 };
        if end <= self.limit_bytes {
            Ok(single)
        } else {
            Err(self.illegal(end - self.element_bytes))
        }
    }

    /// End of its first or last element, whichever is further. An error if one of them lies outside.
    fn check_ends(&self, extents: &[usize; MAX_DIMS]) -> Result<usize, Stop> {
        let mut low = i128::from(self.offset);
        let mut high = i128::from(self.offset);
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

    fn read(&self, part: MemorySlice<'_>, piece: Piece, target: &mut [u8]) {
        match self.element_bytes {
            1 => read_each::<1>(part, piece, target),
            2 => read_each::<2>(part, piece, target),
            4 => read_each::<4>(part, piece, target),
            _ => read_each::<8>(part, piece, target),
        }
    }

    fn write(&self, part: MemorySlice<'_>, piece: Piece, source: &[u8]) {
        let Piece { at, stride_bytes, .. } = piece;
        match self.element_bytes {
            1 => part.write_elements(at, stride_bytes, source.as_chunks::<1>().0),
            2 => part.write_elements(at, stride_bytes, source.as_chunks::<2>().0),
            4 => part.write_elements(at, stride_bytes, source.as_chunks::<4>().0),
            _ => part.write_elements(at, stride_bytes, source.as_chunks::<8>().0),
        }
    }

    #[cold]
    fn illegal(&self, offset: usize) -> Stop {
        let bytes = self.element_bytes;
        let limit = self.limit_bytes;
        let why = format!("{bytes} bytes at {offset} of {} are past its {limit}", self.handle);
        Stop::operand(self.operand, why)
    }
}

fn read_each<const BYTES: usize>(part: MemorySlice<'_>, piece: Piece, target: &mut [u8]) {
    let target = target.as_chunks_mut::<BYTES>().0;
    if piece.stride_bytes > 0 {
        return part.read_elements(piece.at, piece.stride_bytes, target);
    }
    // One element that repeats.
    let Some((first, others)) = target.split_first_mut() else { return };
    part.read(piece.at, first);
    others.fill(*first);
}

fn operand_handle(operand: usize, words: &[u64; OPERAND_WORDS]) -> Result<DeviceHandle, Stop> {
    handle_of(HandleWords([words[0], words[1], words[2]]), "memory")
        .map_err(|_| Stop::operand(operand, "its words name no handle"))
}
