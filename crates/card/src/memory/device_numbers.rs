//! Numbers that are read where they lie, in place of a copy.
#![allow(unsafe_code, reason = "device memory is known by address")]

/// Numbers of a window, lent to a register of a program that runs. The loan ends before the window closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DeviceNumbers {
    first: *const f32,
    count: usize,
}

// SAFETY: an address of memory that all threads see; loans end before the window closes.
unsafe impl Send for DeviceNumbers {}
// SAFETY: as above.
unsafe impl Sync for DeviceNumbers {}

impl DeviceNumbers {
    /// # Safety
    /// The window has so many numbers from `first` on, which is aligned, until the loan ends.
    pub(super) unsafe fn new(first: *const f32, count: usize) -> Self {
        Self { first, count }
    }

    /// The numbers as they are now. Other blocks may write them meanwhile: see the top of `window.rs`.
    pub(crate) fn get(&self) -> &[f32] {
        // SAFETY: the numbers are there until the loan ends, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }
}
