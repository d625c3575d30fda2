//! The only code of this crate that touches device memory.
//!
//! Blocks of two streams may touch the same bytes at the same time, if their program forgot to have
//! one wait for the other. On a device, what they then read or leave there is unspecified, and so it
//! is here. It is never worse than that: where an access goes is decided by the window's bounds and
//! by nests that were derived and checked on the host, never by bytes that lie in the window, and
//! every value of a byte is a value. Strictly, two such blocks are a data race, which Rust leaves
//! undefined; what it means here is what loads and stores of the machine do, as nothing is read
//! twice in the belief that it stayed the same. Code that reads more than bytes out of a window, such as a
//! program, copies them first and looks at the copy.
#![allow(unsafe_code, reason = "device memory is known by address")]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use spyre_hal::Pattern;
use spyre_layout::{
    Crew, DmaNest, Error, STICK_BYTES, StickGrid, copy_past_cache, copy_rows_past_cache,
    copy_stick_grid, copy_stick_grid_past_cache,
};
use spyre_numerics::{Converter, Rows};

use super::device_sticks::{DeviceSticks, prefetch};
use super::mapping::Mapping;

/// Some bytes of a region, for as long as one block needs them: they are not unmapped before, even
/// if the region is released or the card is reset.
pub(crate) struct Window {
    mapping: Arc<Mapping>,
    range: Range<usize>,
}

/// Some bytes of a window that is kept open for several users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySlice<'a> {
    window: &'a Window,
    start: usize,
    bytes: usize,
}

impl<'a> MemorySlice<'a> {
    /// Sticks from `at` on, for loops that take them from where they lie.
    pub(crate) fn sticks(
        &self,
        at: usize,
        counts: [usize; 2],
        strides: [usize; 2],
    ) -> DeviceSticks<'a> {
        self.check(at, reach_of_grid(counts, strides));
        let first = self.window.address(self.start + at, 0);
        // SAFETY: the sticks were looked at.
        unsafe { DeviceSticks::new(first, counts, strides) }
    }

    /// Address of so many bytes from `at` on, which are there while the window is open. Other blocks may write
    /// them at any time.
    pub(crate) fn address(&self, at: usize, bytes: usize) -> *mut u8 {
        self.check(at, bytes);
        self.window.address(self.start + at, 0)
    }

    /// Copies bytes from `at` on out of it.
    #[inline]
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) {
        self.check(at, target.len());
        self.window.read(self.start + at, target, Way::Cached);
    }

    /// Copies bytes into it, from `at` on.
    #[inline]
    pub(crate) fn write(&self, at: usize, source: &[u8]) {
        self.check(at, source.len());
        self.window.write(self.start + at, source, Way::Cached);
    }

    /// Copies elements at even distances out of it, from `at` on.
    #[inline]
    pub(crate) fn read_elements<const BYTES: usize>(
        &self,
        at: usize,
        stride: usize,
        target: &mut [[u8; BYTES]],
    ) {
        self.check(at, reach(target.len(), stride, BYTES));
        let source = self.window.address(self.start + at, 0);
        for (nth, target) in target.iter_mut().enumerate() {
            // SAFETY: the element lies inside of what was checked, and the target is not device memory.
            *target = unsafe { source.add(nth * stride).cast::<[u8; BYTES]>().read() };
        }
    }

    /// Copies elements to even distances in it, from `at` on.
    #[inline]
    pub(crate) fn write_elements<const BYTES: usize>(
        &self,
        at: usize,
        stride: usize,
        source: &[[u8; BYTES]],
    ) {
        self.check(at, reach(source.len(), stride, BYTES));
        let target = self.window.address(self.start + at, 0);
        for (nth, source) in source.iter().enumerate() {
            // SAFETY: the element lies inside of what was checked, and nothing here refers to it.
            unsafe { target.add(nth * stride).cast::<[u8; BYTES]>().write(*source) };
        }
    }

    /// Has the cache fetch rows of so many bytes, from `at` on, while something else is done.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize, rows: usize, stride: usize, row_bytes: usize) {
        self.check(at, reach(rows, stride, row_bytes));
        for row in 0..rows {
            for line in (0..row_bytes).step_by(LINE_BYTES) {
                prefetch(self.window.address(self.start + at + row * stride + line, 0));
            }
        }
    }

    /// Converts rows of elements out of it, from `at` on.
    pub(crate) fn convert_out(
        &self,
        converter: &Converter,
        at: usize,
        rows: Rows,
        target: &mut [u8],
    ) {
        let [from, to] = element_bytes(converter);
        self.check(at, reach(rows.count, rows.source_stride, rows.elements * from));
        assert!(reach(rows.count, rows.target_stride, rows.elements * to) <= target.len());
        let source = self.window.address(self.start + at, 0);
        // SAFETY: both ends hold the rows, and the target is not device memory.
        unsafe {
            match sticks_of(converter, rows, rows.elements * from) {
                Some(sticks) => copy_sticks(source, target.as_mut_ptr(), sticks),
                None => converter.convert_rows(source, target.as_mut_ptr(), rows),
            }
        }
    }

    /// Copies sticks out of it, from `at` on.
    pub(crate) fn copy_sticks_out(&self, at: usize, grid: StickGrid, target: &mut [u8]) {
        self.check(at, reach_of_grid(grid.counts, grid.source_strides));
        assert!(reach_of_grid(grid.counts, grid.target_strides) <= target.len());
        let source = self.window.address(self.start + at, 0);
        // SAFETY: both ends hold the sticks, and the target is not device memory.
        unsafe { copy_stick_grid(source, target.as_mut_ptr(), grid) };
    }

    /// Copies sticks into it, from `at` on. What goes past the cache is ordered before what follows by a
    /// fence of the caller.
    pub(crate) fn copy_sticks_in(&self, source: &[u8], at: usize, grid: StickGrid, way: Way) {
        self.check(at, reach_of_grid(grid.counts, grid.target_strides));
        assert!(reach_of_grid(grid.counts, grid.source_strides) <= source.len());
        let target = self.window.address(self.start + at, 0);
        let [column, row] = grid.target_strides;
        // SAFETY: both ends hold the sticks, and the source is not device memory; what is streamed
        // fills whole lines.
        unsafe {
            if way == Way::PastCache && are_lines([target.addr(), column, row]) {
                copy_stick_grid_past_cache(source.as_ptr(), target, grid);
            } else {
                copy_stick_grid(source.as_ptr(), target, grid);
            }
        }
    }

    /// Converts rows of elements into it, from `at` on. What goes past the cache is ordered before what
    /// follows by a fence of the caller.
    pub(crate) fn convert_in(
        &self,
        converter: &Converter,
        source: &[u8],
        at: usize,
        rows: Rows,
        way: Way,
    ) {
        let [from, to] = element_bytes(converter);
        let row_bytes = rows.elements * to;
        self.check(at, reach(rows.count, rows.target_stride, row_bytes));
        assert!(reach(rows.count, rows.source_stride, rows.elements * from) <= source.len());
        let target = self.window.address(self.start + at, 0);
        let is_in_lines = are_lines([target.addr(), row_bytes, rows.target_stride]);
        // SAFETY: both ends hold the rows, and the source is not device memory; what is streamed
        // fills whole lines.
        unsafe {
            match way {
                Way::PastCache if converter.is_copy() && rows.count == 1 => {
                    copy_past_cache(source.as_ptr(), target, row_bytes);
                }
                Way::PastCache if converter.is_copy() && is_in_lines => {
                    copy_rows_past_cache(source.as_ptr(), target, rows, row_bytes);
                }
                Way::PastCache if converter.streams() && is_in_lines => {
                    converter.stream_rows(source.as_ptr(), target, rows);
                }
                _ => match sticks_of(converter, rows, row_bytes) {
                    Some(sticks) => copy_sticks(source.as_ptr(), target, sticks),
                    None => converter.convert_rows(source.as_ptr(), target, rows),
                },
            }
        }
    }

    #[inline]
    fn check(&self, at: usize, bytes: usize) {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "inside its part");
    }
}

/// Bytes that stores past the cache fill at a time: a cache line.
const LINE_BYTES: usize = 64;

fn are_lines(places: [usize; 3]) -> bool {
    places.iter().all(|place| place.is_multiple_of(LINE_BYTES))
}

/// Longer rows than this are worth a call.
const MOST_STICKS: usize = 8;

/// Rows that are copied as they are, as rows of a stick each.
fn sticks_of(converter: &Converter, rows: Rows, row_bytes: usize) -> Option<Rows> {
    let count = row_bytes / STICK_BYTES;
    if !converter.is_copy() || !row_bytes.is_multiple_of(STICK_BYTES) {
        return None;
    }
    if count == 1 {
        Some(rows)
    } else if rows.count == 1 && count <= MOST_STICKS {
        let [source_stride, target_stride] = [STICK_BYTES; 2];
        Some(Rows { count, source_stride, target_stride, ..rows })
    } else {
        None
    }
}

/// Copies rows of a stick each: so short that a call for each would take longer than the copy.
///
/// # Safety
/// Both ends hold the rows, and do not overlap.
unsafe fn copy_sticks(source: *const u8, target: *mut u8, rows: Rows) {
    for row in 0..rows.count {
        // SAFETY: as the caller promises.
        unsafe {
            let from = source.add(row * rows.source_stride).cast::<[u8; STICK_BYTES]>();
            let to = target.add(row * rows.target_stride).cast::<[u8; STICK_BYTES]>();
            std::ptr::copy_nonoverlapping(from, to, 1);
        }
    }
}

/// Bytes up to the end of the last stick.
fn reach_of_grid(counts: [usize; 2], strides: [usize; 2]) -> usize {
    let column = reach(counts[1], strides[1], STICK_BYTES);
    reach(counts[0], strides[0], column)
}

/// Bytes up to the end of the last row.
fn reach(rows: usize, stride: usize, row_bytes: usize) -> usize {
    let before = rows.saturating_sub(1).checked_mul(stride);
    before.and_then(|bytes| bytes.checked_add(row_bytes)).unwrap_or(usize::MAX)
}

fn element_bytes(converter: &Converter) -> [usize; 2] {
    [converter.from(), converter.to()].map(|format| format.element_bytes().unwrap_or(usize::MAX))
}

/// Way in which bytes are written that are copied as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Into the cache.
    Cached,
    /// Past it: they are too many to stay there.
    PastCache,
}

/// Bytes that a fill writes at a time: a whole number of every pattern, small enough for the L1 cache.
const TILE_BYTES: usize = 12 << 10;

impl Window {
    /// Opens so many bytes from `start` on, if they lie inside the region.
    pub(super) fn open(mapping: Arc<Mapping>, start: u64, bytes: u64) -> Option<Self> {
        let end = start.checked_add(bytes).filter(|end| *end <= mapping.bytes())?;
        mapping.enter();
        Some(Self { mapping, range: start as usize..end as usize })
    }

    /// Number of bytes it shows.
    pub(crate) fn bytes(&self) -> usize {
        self.range.len()
    }

    /// Slice of so many bytes from `start` on, if the window shows them all.
    pub(crate) fn part(&self, start: usize, bytes: usize) -> Option<MemorySlice<'_>> {
        let end = start.checked_add(bytes)?;
        (end <= self.bytes()).then_some(MemorySlice { window: self, start, bytes })
    }

    /// Returns true if the two share a byte.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let a = &self.range;
        let b = &other.range;
        Arc::ptr_eq(&self.mapping, &other.mapping) && a.start.max(b.start) < a.end.min(b.end)
    }

    /// Copies bytes from `at` on out of it.
    pub(crate) fn read(&self, at: usize, target: &mut [u8], way: Way) {
        let source = self.address(at, target.len());
        // SAFETY: the bytes lie in the window, and the target is not device memory.
        unsafe { carry(source, target.as_mut_ptr(), target.len(), way) };
    }

    /// Copies bytes into it, from `at` on.
    pub(crate) fn write(&self, at: usize, source: &[u8], way: Way) {
        let target = self.address(at, source.len());
        // SAFETY: the bytes lie in the window, and the source is not device memory.
        unsafe { carry(source.as_ptr(), target, source.len(), way) };
    }

    /// Copies bytes to the same place of another window, which it does not overlap.
    pub(crate) fn copy_to(&self, target: &Self, at: usize, bytes: usize, way: Way) {
        debug_assert!(!self.overlaps(target));
        let source = self.address(at, bytes);
        let target = target.address(at, bytes);
        // SAFETY: the bytes lie in both windows, which do not overlap.
        unsafe { carry(source, target, bytes, way) };
    }

    /// Writes a pattern again and again. `at` is where the pattern begins anew.
    pub(crate) fn fill(&self, at: usize, bytes: usize, pattern: Pattern) {
        let target = self.address(at, bytes);
        if let [byte] = pattern.bytes() {
            // SAFETY: the bytes lie in the window.
            return unsafe { target.write_bytes(*byte, bytes) };
        }
        let mut tile = [0; TILE_BYTES];
        let tile = &mut tile[..bytes.min(TILE_BYTES)];
        pattern.fill(tile);
        for done in (0..bytes).step_by(TILE_BYTES) {
            let piece = TILE_BYTES.min(bytes - done);
            // SAFETY: the bytes lie in the window, and the tile is no device memory.
            unsafe { carry(tile.as_ptr(), target.add(done), piece, Way::Cached) };
        }
    }

    /// Runs a nest from the host to here.
    pub(crate) fn gather(
        &self,
        nest: &DmaNest,
        source: &[u8],
        crew: &dyn Crew,
    ) -> Result<(), Error> {
        // SAFETY: see the top of the file.
        nest.copy(source, unsafe { self.slice_mut() }, crew)
    }

    /// Runs a nest from here to the host.
    pub(crate) fn scatter(
        &self,
        nest: &DmaNest,
        target: &mut [u8],
        crew: &dyn Crew,
    ) -> Result<(), Error> {
        // SAFETY: see the top of the file.
        nest.copy(unsafe { self.slice() }, target, crew)
    }

    /// Runs a nest from here to another window, which it does not overlap.
    pub(crate) fn permute_to(
        &self,
        target: &Self,
        nest: &DmaNest,
        crew: &dyn Crew,
    ) -> Result<(), Error> {
        debug_assert!(!self.overlaps(target));
        // SAFETY: they do not overlap; for the rest, see the top of the file.
        unsafe { nest.copy(self.slice(), target.slice_mut(), crew) }
    }

    /// Host address of its first byte, for work outside the card.
    pub(crate) fn host_address(&self) -> usize {
        self.address(0, self.bytes()).expose_provenance()
    }

    /// Host address of the byte at `at`; so many bytes from there on lie in the window.
    fn address(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes() && bytes <= self.bytes() - at, "inside the window");
        // SAFETY: the window lies inside the mapping, and `at` inside the window.
        unsafe { self.mapping.start().add(self.range.start + at) }
    }

    /// # Safety
    /// For copies only: other blocks may write the bytes meanwhile.
    unsafe fn slice(&self) -> &[u8] {
        // SAFETY: the bytes are mapped for as long as the window lives.
        unsafe { std::slice::from_raw_parts(self.address(0, self.bytes()), self.bytes()) }
    }

    /// # Safety
    /// For copies only: other blocks may use the bytes meanwhile. This block has no other reference.
    #[expect(clippy::mut_from_ref, reason = "device memory is shared by its nature")]
    unsafe fn slice_mut(&self) -> &mut [u8] {
        // SAFETY: the bytes are mapped for as long as the window lives.
        unsafe { std::slice::from_raw_parts_mut(self.address(0, self.bytes()), self.bytes()) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.mapping.leave();
    }
}

/// Says how long it is, not where.
impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} bytes)", self.bytes())
    }
}

/// # Safety
/// Both ends hold so many bytes, and do not overlap.
unsafe fn carry(source: *const u8, target: *mut u8, bytes: usize, way: Way) {
    // SAFETY: as the caller promises.
    unsafe {
        match way {
            Way::Cached => std::ptr::copy_nonoverlapping(source, target, bytes),
            Way::PastCache => copy_past_cache(source, target, bytes),
        }
    }
}
