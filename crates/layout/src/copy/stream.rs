//! Stores that go past the cache, for results too large to stay in it.

use spyre_numerics::{Rows, Tier};

/// A cache line: what one stream of stores must fill.
pub(super) const LINE: usize = 64;

/// Copies rows with stores that leave no trace in the cache.
///
/// # Safety
/// Both ends hold the rows of `bytes` each; the target, its stride and the bytes are multiples of
/// [`LINE`].
#[inline]
pub(super) unsafe fn copy_rows(
    tier: Tier,
    source: *const u8,
    target: *mut u8,
    rows: Rows,
    bytes: usize,
) {
    debug_assert!((target as usize | rows.target_stride | bytes).is_multiple_of(LINE));
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match tier {
            Tier::Avx512 => x86::copy_rows_512(source, target, rows, bytes),
            _ => x86::copy_rows_128(source, target, rows, bytes),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            _ = tier;
            for row in 0..rows.count {
                let from = row * rows.source_stride;
                let to = row * rows.target_stride;
                std::ptr::copy_nonoverlapping(source.add(from), target.add(to), bytes);
            }
        }
    }
}

/// Copies bytes to any address: whole lines past the cache, the ends through it.
///
/// # Safety
/// Both ends hold the bytes.
pub(super) unsafe fn copy_unaligned(tier: Tier, source: *const u8, target: *mut u8, bytes: usize) {
    let head = target.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE * LINE;
    let row = Rows { count: 1, elements: lines, source_stride: 0, target_stride: 0 };
    // SAFETY: as the caller promises; the lines start at a multiple of `LINE`.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, head);
        if lines > 0 {
            copy_rows(tier, source.add(head), target.add(head), row, lines);
        }
        let done = head + lines;
        std::ptr::copy_nonoverlapping(source.add(done), target.add(done), bytes - done);
    }
}

/// Asks for a line to be brought close; any address will do.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Orders the streamed stores of this thread before everything it does next.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LINE, Rows};

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn copy_rows_512(
        source: *const u8,
        target: *mut u8,
        rows: Rows,
        bytes: usize,
    ) {
        for row in 0..rows.count {
            // SAFETY: the rows lie inside both ends, and the target is aligned to a line.
            unsafe {
                let from = source.add(row * rows.source_stride);
                let to = target.add(row * rows.target_stride);
                for at in (0..bytes).step_by(LINE) {
                    _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
                }
            }
        }
    }

    pub(super) unsafe fn copy_rows_128(
        source: *const u8,
        target: *mut u8,
        rows: Rows,
        bytes: usize,
    ) {
        for row in 0..rows.count {
            // SAFETY: the rows lie inside both ends, and the target is aligned to a line.
            unsafe {
                let from = source.add(row * rows.source_stride);
                let to = target.add(row * rows.target_stride);
                for at in (0..bytes).step_by(16) {
                    _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
                }
            }
        }
    }
}
