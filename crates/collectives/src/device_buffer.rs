//! Device memory that a call reads or writes.
#![allow(unsafe_code, reason = "reads and writes device memory by address")]

use std::ptr;
use std::slice;

/// Range of device memory at an address of this process.
///
/// Elements are raw: the bytes of a buffer have the same layout on all ranks, padding included. An
/// address is not aligned further than the caller likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    address: usize,
    bytes: usize,
    elements: u64,
}

impl DeviceBuffer {
    /// A buffer of no bytes: a piece of [`AllToAll`](crate::Collective::AllToAll) that is empty.
    pub const EMPTY: Self = Self { address: 0, bytes: 0, elements: 0 };

    /// Describes `bytes` at `address`, of which the framework counts `elements` (for messages only).
    ///
    /// # Safety
    /// From the time at which a call with this buffer is ready until its `done` was called, the memory is
    /// mapped, and if the call writes it, no other code reads or writes it; if the call reads it, no other code
    /// writes it. Buffers of one call do not overlap, with one exception: this rank's own part may be input and
    /// output (all of a reduction, broadcast, its own output of a gather, its own input of a scatter).
    pub unsafe fn new(address: *mut u8, bytes: usize, elements: u64) -> Self {
        Self { address: address as usize, bytes, elements }
    }

    /// Address in this process.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Bytes, padding included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Elements, as the framework counts them.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The part from `start` on, cut where the buffer ends.
    pub(crate) fn part(&self, start: usize, bytes: usize) -> Self {
        let start = start.min(self.bytes);
        let bytes = bytes.min(self.bytes - start);
        Self { address: self.address + start, bytes, elements: 0 }
    }

    /// The bytes, while a call is carried out.
    pub(crate) fn read(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: `new` was promised that the memory is mapped and is not written until the call is done. The
        // engine itself writes an output only where it has read what it needs of an input.
        unsafe { slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// The bytes, to be written while a call is carried out.
    #[expect(clippy::mut_from_ref, reason = "the buffer is a name of memory, and does not hold it")]
    pub(crate) fn write(&self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: `new` was promised that no other code uses what a call writes until the call is done; the
        // group's thread is the only one that writes.
        unsafe { slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }

    /// Copies all of `source` here; the two may be the same memory.
    pub(crate) fn copy_from(&self, source: &Self) {
        let bytes = self.bytes.min(source.bytes);
        if bytes == 0 || self.address == source.address {
            return;
        }
        // SAFETY: both ranges are mapped, as promised to `new`; `copy` allows that they overlap.
        unsafe { ptr::copy(source.address as *const u8, self.address as *mut u8, bytes) };
    }
}
