//! The peers of a copy: the best that plain code does with the same bytes and the same threads.
#![allow(unsafe_code, reason = "stores past the cache, as the best copy does them")]

use std::time::Duration;

use spyre_layout::Crew;

use crate::Buffer;
use crate::compare::time;

/// A copy of bytes in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// libc's.
    Memcpy,
    /// Line by line, past the cache.
    Stream,
    /// Eight rows side by side, past the cache.
    StreamBlocks,
}

const ROW: usize = 8192;
const ROWS: usize = 8;
const STICK: usize = 128;
const LINE: usize = 64;

impl Plain {
    const ALL: [Self; 3] = [Self::Memcpy, Self::Stream, Self::StreamBlocks];

    /// The one that is fastest here and now.
    pub(crate) fn fastest(source: &Buffer, target: &mut Buffer, crew: &dyn Crew) -> Self {
        let best = |way: &Self, target: &mut Buffer| -> Duration {
            let runs = (0..7).map(|_| time(&mut || way.copy(source, target, crew)));
            runs.min().unwrap_or_default()
        };
        let times = Self::ALL.map(|way| (best(&way, target), way));
        times.into_iter().min_by_key(|(time, _)| *time).map_or(Self::Memcpy, |(_, way)| way)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::Stream => "streamed copy",
            Self::StreamBlocks => "streamed copy, 8 rows",
        }
    }

    /// Copies all of `source` with all threads.
    pub(crate) fn copy(self, source: &Buffer, target: &mut Buffer, crew: &dyn Crew) {
        let bytes = source.len().min(target.len()) / (ROWS * ROW) * (ROWS * ROW);
        let parts = crew.threads();
        let share = (bytes / parts).next_multiple_of(ROWS * ROW);
        let ends = Ends { source: source.as_ptr(), target: target.as_mut_ptr() };
        crew.run(parts, &|part| {
            let start = (part * share).min(bytes);
            let end = (start + share).min(bytes);
            // SAFETY: parts are disjoint and inside both buffers.
            unsafe { ends.copy(self, start, end - start) }
        });
    }
}

struct Ends {
    source: *const u8,
    target: *mut u8,
}

// SAFETY: threads write to disjoint parts of a buffer that outlives them.
unsafe impl Sync for Ends {}

impl Ends {
    unsafe fn copy(&self, way: Plain, start: usize, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            let from = self.source.add(start);
            let to = self.target.add(start);
            match way {
                Plain::Memcpy => std::ptr::copy_nonoverlapping(from, to, bytes),
                Plain::Stream => stream(from, to, bytes),
                Plain::StreamBlocks => {
                    for block in (0..bytes).step_by(ROWS * ROW) {
                        for column in (0..ROW).step_by(STICK) {
                            for row in 0..ROWS {
                                let at = block + row * ROW + column;
                                stream(from.add(at), to.add(at), STICK);
                            }
                        }
                    }
                    fence();
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every x86-64 has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm_stream_si128, _mm512_loadu_si512, _mm512_stream_si512,
    };

    #[target_feature(enable = "avx512f")]
    unsafe fn wide(from: *const u8, to: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(LINE) {
            // SAFETY: as the caller promises; buffers and steps are multiples of a line.
            unsafe {
                _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
            };
        }
    }

    // SAFETY: as the caller promises; buffers and steps are multiples of a line.
    unsafe {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return wide(from, to, bytes);
        }
        for at in (0..bytes).step_by(16) {
            _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}
