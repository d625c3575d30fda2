//! Stores that go past the cache, for results too large to stay in it.

use spyre_numerics::Tier;

/// A cache line: what one stream of stores must fill.
pub(super) const LINE: usize = 64;

/// Rows of bytes at both ends.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) bytes: usize,
    pub(super) source_stride: usize,
    pub(super) target_stride: usize,
}

/// Copies rows with stores that leave no trace in the cache.
///
/// # Safety
/// Both ends hold the rows; the target and its stride are multiples of [`LINE`], and so are the
/// bytes of a row.
#[inline]
pub(super) unsafe fn copy_rows(tier: Tier, source: *const u8, target: *mut u8, rows: Rows) {
    debug_assert!((target as usize | rows.target_stride | rows.bytes).is_multiple_of(LINE));
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match tier {
            Tier::Avx512 => x86::copy_rows_512(source, target, rows),
            _ => x86::copy_rows_128(source, target, rows),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            _ = tier;
            for row in 0..rows.count {
                let (from, to) = (row * rows.source_stride, row * rows.target_stride);
                std::ptr::copy_nonoverlapping(source.add(from), target.add(to), rows.bytes);
            }
        }
    }
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
    pub(super) unsafe fn copy_rows_512(source: *const u8, target: *mut u8, rows: Rows) {
        for row in 0..rows.count {
            // SAFETY: the rows lie inside both ends, and the target is aligned to a line.
            unsafe {
                let from = source.add(row * rows.source_stride);
                let to = target.add(row * rows.target_stride);
                for at in (0..rows.bytes).step_by(LINE) {
                    _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
                }
            }
        }
    }

    pub(super) unsafe fn copy_rows_128(source: *const u8, target: *mut u8, rows: Rows) {
        for row in 0..rows.count {
            // SAFETY: the rows lie inside both ends, and the target is aligned to a line.
            unsafe {
                let from = source.add(row * rows.source_stride);
                let to = target.add(row * rows.target_stride);
                for at in (0..rows.bytes).step_by(16) {
                    _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
                }
            }
        }
    }
}
