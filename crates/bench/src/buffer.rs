//! Memory for benchmarks: aligned, on huge pages where the system grants them, and touched.
#![allow(unsafe_code, reason = "asks the system for aligned memory")]

use std::ops::{Deref, DerefMut};

/// A huge page.
const PAGE_BYTES: usize = 2 << 20;

/// Bytes that lie on huge pages.
#[derive(Debug)]
pub struct Buffer {
    start: *mut u8,
    bytes: usize,
    layout: std::alloc::Layout,
}

// SAFETY: the buffer owns its memory.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer filled with bytes that differ from each other.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(bytes: usize) -> Self {
        let size = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let layout = std::alloc::Layout::from_size_align(size, PAGE_BYTES).expect("a small buffer");
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        assert!(!start.is_null(), "no memory for {size} bytes");
        // SAFETY: advice about memory that we just got; a refusal costs speed only.
        unsafe { libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE) };
        let mut buffer = Self { start, bytes, layout };
        buffer.fill();
        buffer
    }

    /// Ordinary numbers in every float format: exponents near zero, no NaN, no infinity.
    fn fill(&mut self) {
        let mut word = 0x9E37_79B9_7F4A_7C15_u64;
        // SAFETY: fresh memory of this many bytes, written before it is read.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) };
        for slot in slots.as_chunks_mut::<8>().0 {
            word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            *slot = (word & 0x83FF_83FF_83FF_83FF | 0x3C00_3C00_3C00_3C00).to_le_bytes();
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `fill` initialised all of it.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `fill` initialised all of it, and we own it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}
