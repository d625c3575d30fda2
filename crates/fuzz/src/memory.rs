//! Memory that is taken at once, and in all.
#![allow(unsafe_code, reason = "an allocator that notes the largest request")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which notes the largest single allocation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LARGEST_HERE: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // A thread that ends has no cell any more.
    let _ = LARGEST_HERE.try_with(|largest| {
        if bytes > largest.get() {
            largest.set(bytes);
        }
    });
}

/// The largest allocation of this thread since it was last asked.
pub(crate) fn take_largest() -> usize {
    let bytes = LARGEST_HERE.replace(0);
    if bytes > LARGEST.load(Ordering::Relaxed) {
        LARGEST.fetch_max(bytes, Ordering::Relaxed);
    }
    bytes
}

/// The largest allocation that any thread was asked about.
pub(crate) fn largest() -> usize {
    LARGEST.load(Ordering::Relaxed)
}

/// Bytes that the process has in memory now, and the most that it ever had; zeros if the system does not say.
pub(crate) fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
