//! Sticks that loops take from where they lie.
#![allow(unsafe_code, reason = "device memory is known by address")]

use std::marker::PhantomData;

use super::Window;

/// Whole sticks in columns and rows, all inside of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSticks<'a> {
    first: *const u8,
    strides: [usize; 2],
    window: PhantomData<&'a Window>,
}

impl DeviceSticks<'_> {
    /// # Safety
    /// All of the sticks are inside of the window.
    pub(super) unsafe fn new(first: *const u8, strides: [usize; 2]) -> Self {
        Self { first, strides, window: PhantomData }
    }

    /// Address of the first one. What lies there may change at any time.
    pub(crate) fn first(self) -> *const u8 {
        self.first
    }

    /// Bytes from a column to the next one and from a row to the next one.
    pub(crate) fn strides(self) -> [usize; 2] {
        self.strides
    }
}
