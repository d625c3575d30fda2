//! Hints to the cache, which operations give while they work.
#![allow(unsafe_code, reason = "hints are by address")]

use crate::programs::strips::lines::StripLines;

/// Lines that the cache is to fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchedLines {
    pub(super) lines: StripLines,
    pub(super) line_bytes: usize,
}

impl FetchedLines {
    /// Has the cache fetch the line of a step.
    #[inline(always)]
    pub(super) fn fetch(&self, outer: usize, inner: usize) {
        let line = self.lines.at(outer, inner);
        fetch(line);
        if self.line_bytes > MEMORY_LINE {
            fetch(line.wrapping_add(MEMORY_LINE));
        }
    }
}

/// Has the cache fetch the lines of a step. Not inlined: the loops around it are small.
#[inline(never)]
pub(super) fn fetch_each(many: &[FetchedLines], outer: usize, inner: usize) {
    many.iter().for_each(|lines| lines.fetch(outer, inner));
}

/// Bytes that a cache fetches at a time.
const MEMORY_LINE: usize = 64;

#[inline(always)]
fn fetch(line: *const u8) {
    // SAFETY: a hint, wherever it leads.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
