//! Sticks that loops take from where they lie.
#![allow(unsafe_code, reason = "device memory is known by address")]

use std::marker::PhantomData;

use spyre_layout::STICK_BYTES;
use zerocopy::FromBytes;

use super::Window;
use super::window::prefetch;

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

impl<'a> DeviceSticks<'a> {
    /// # Safety
    /// All of the sticks are inside of the window.
    pub(super) unsafe fn new(first: *const u8, counts: [usize; 2], strides: [usize; 2]) -> Self {
        Self { first, counts, strides, window: PhantomData }
    }

    /// Address of the first one. What lies there may change at any time.
    pub(crate) fn first(self) -> *const u8 {
        self.first
    }

    /// Bytes from a column to the next one and from a row to the next one.
    pub(crate) fn strides(self) -> [usize; 2] {
        self.strides
    }

    #[inline(always)]
    pub(crate) fn column(self, column: usize) -> StickColumn<'a> {
        assert!(column < self.counts[0], "a column of the sticks");
        let first = self.first.wrapping_add(column * self.strides[0]);
        let next = first.wrapping_add(self.strides[0]);
        let [count, stride] = [self.counts[1], self.strides[1]];
        StickColumn { first, next, count, stride, window: PhantomData }
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
