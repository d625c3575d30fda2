//! Sticks that loops take from where they lie.
#![allow(unsafe_code, reason = "device memory is known by address")]

use std::marker::PhantomData;

use spyre_layout::STICK_BYTES;
use zerocopy::FromBytes;

use super::Window;

/// Whole sticks in columns and rows, all inside of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSticks<'a> {
    first: *const u8,
    counts: [usize; 2],
    strides: [usize; 2],
    window: PhantomData<&'a Window>,
}

/// One column of sticks, and the address of the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StickColumn<'a> {
    first: *const u8,
    next: *const u8,
    count: usize,
    stride: usize,
    window: PhantomData<&'a Window>,
}

/// Sticks of some columns in some rows.
#[derive(Clone, Copy)]
pub(crate) struct StickBlock<'a, const COLUMNS: usize, const ROWS: usize> {
    first: *const u8,
    strides: [usize; 2],
    window: PhantomData<&'a Window>,
}

impl<'a> DeviceSticks<'a> {
    /// # Safety
    /// All of the sticks are inside of the window.
    pub(super) unsafe fn new(
        first: *const u8,
        counts: [usize; 2],
        strides: [usize; 2],
    ) -> DeviceSticks<'a> {
        Self { first, counts, strides, window: PhantomData }
    }

    /// Address of the first one. What lies there may change at any time.
    pub(crate) fn first(self) -> *const u8 {
        self.first
    }

    /// Number of columns and of rows.
    pub(crate) fn counts(self) -> [usize; 2] {
        self.counts
    }

    /// Bytes from a column to the next one and from a row to the next one.
    pub(crate) fn strides(self) -> [usize; 2] {
        self.strides
    }

    /// One of the columns.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub(crate) fn column(self, column: usize) -> StickColumn<'a> {
        assert!(column < self.counts[0], "a column of the sticks");
        let first = self.first.wrapping_add(column * self.strides[0]);
        let next = first.wrapping_add(self.strides[0]);
        let [count, stride] = [self.counts[1], self.strides[1]];
        StickColumn { first, next, count, stride, window: PhantomData }
    }

    /// Those of some columns and rows, from a first one on.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub(crate) fn part(self, from: [usize; 2], counts: [usize; 2]) -> Self {
        let is_inside = (0..2).all(|at| from[at] + counts[at] <= self.counts[at]);
        assert!(is_inside, "sticks of these columns and rows");
        let offset = from[0] * self.strides[0] + from[1] * self.strides[1];
        Self { first: self.first.wrapping_add(offset), counts, ..self }
    }

    /// Calls `act` with each block of so many columns and rows, down the rows first, and with its column and row. What
    /// is left over is not visited. To be inlined into code for a tier.
    #[inline(always)]
    pub(crate) fn each<const COLUMNS: usize, const ROWS: usize>(
        self,
        mut act: impl FnMut([usize; 2], StickBlock<'a, COLUMNS, ROWS>),
    ) {
        /// Rows of sticks that are on their way while one is used: pages of each column.
        const AHEAD: usize = 32;
        let Self { first, counts, strides, window } = self;
        let at =
            |column: usize, row: usize| first.wrapping_add(column * strides[0] + row * strides[1]);
        for column in (0..counts[0] / COLUMNS).map(|group| group * COLUMNS) {
            for row in (0..counts[1] / ROWS).map(|group| group * ROWS) {
                let ahead = match row + AHEAD {
                    next if next < counts[1] => at(column, next),
                    next => at(column + COLUMNS, next - counts[1]),
                };
                for nth in 0..COLUMNS * ROWS {
                    let offset = nth % COLUMNS * strides[0] + nth / COLUMNS * strides[1];
                    prefetch(ahead.wrapping_add(offset));
                    prefetch(ahead.wrapping_add(offset + STICK_BYTES / 2));
                }
                act([column, row], StickBlock { first: at(column, row), strides, window });
            }
        }
    }
}

impl StickColumn<'_> {
    /// Sixteen numbers of a row's stick, each of so many bytes, whatever they mean.
    #[inline(always)]
    pub(crate) fn numbers<T: FromBytes>(self, row: usize, at: usize) -> [T; 16] {
        let bytes = size_of::<[T; 16]>();
        assert!(row < self.count && (at + 1) * bytes <= STICK_BYTES, "numbers of the sticks");
        // SAFETY: the column's sticks are inside of the window; any bits are a number.
        unsafe {
            let stick = self.first.add(row * self.stride);
            stick.cast::<[T; 16]>().add(at).read_unaligned()
        }
    }

    /// Has the cache fetch a stick that is used some time after that of a row.
    #[inline(always)]
    pub(crate) fn prefetch_after(self, row: usize) {
        /// Rows of sticks that are on their way while one is used.
        const AHEAD: usize = 32;
        let later = row + AHEAD;
        let stick = if later < self.count {
            self.first.wrapping_add(later * self.stride)
        } else {
            self.next.wrapping_add((later - self.count) * self.stride)
        };
        prefetch(stick);
        prefetch(stick.wrapping_add(STICK_BYTES / 2));
    }
}

impl<const COLUMNS: usize, const ROWS: usize> StickBlock<'_, COLUMNS, ROWS> {
    /// Sixteen numbers of a stick, each of so many bytes, whatever they mean.
    #[inline(always)]
    pub(crate) fn numbers<T: FromBytes>(self, [column, row]: [usize; 2], at: usize) -> [T; 16] {
        let bytes = size_of::<[T; 16]>();
        let is_inside = column < COLUMNS && row < ROWS && (at + 1) * bytes <= STICK_BYTES;
        assert!(is_inside, "numbers of the sticks");
        let offset = column * self.strides[0] + row * self.strides[1];
        // SAFETY: `DeviceSticks` makes blocks of sticks that are inside of the window; any bits are a number.
        unsafe { self.first.add(offset).cast::<[T; 16]>().add(at).read_unaligned() }
    }
}

/// Has the cache fetch a line.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a hint, wherever it leads.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
