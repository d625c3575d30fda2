//! Memory of the host that a region lies in.
#![allow(unsafe_code, reason = "maps, protects and unmaps memory")]

use std::ptr::{self, NonNull};

use parking_lot::Mutex;

/// A page of the host.
const PAGE_BYTES: usize = 4096;

/// The bytes of one region: zero until they are written, and only as large as what was.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: u64,
    mapped_bytes: usize,
    /// Number of open windows, if the memory is out of reach while none is open.
    guard: Option<Mutex<usize>>,
}

// SAFETY: the mapping belongs to this value and to no thread; the code that accesses its bytes, by way of a
// window, answers for that.
unsafe impl Send for Mapping {}
// SAFETY: as above; the count has a lock.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes addresses, not memory: pages come when they are written. `None` if there are none.
    pub(super) fn new(bytes: u64, is_guarded: bool) -> Option<Self> {
        let wanted = usize::try_from(bytes).ok()?.max(1);
        let mapped_bytes = wanted.checked_next_multiple_of(PAGE_BYTES)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = if is_guarded { CLOSED } else { OPEN };
        // SAFETY: a new mapping, at an address of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: advice about what was just mapped; a refusal costs speed only.
        unsafe { libc::madvise(start, mapped_bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast())?;
        Some(Self { start, bytes, mapped_bytes, guard: is_guarded.then(Mutex::default) })
    }

    /// The region's own bytes: the mapping may be longer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Address on the host. No code above this module is to see it.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Gives whole pages back to the host: they read as zero from now on.
    pub(super) fn discard(&self, offset_bytes: u64, bytes: u64) {
        let page = PAGE_BYTES as u64;
        let end = offset_bytes.saturating_add(bytes).min(self.mapped_bytes as u64) / page * page;
        let start = offset_bytes.next_multiple_of(page);
        if start >= end {
            return;
        }
        // SAFETY: the pages lie inside the mapping. The runtime says that they are free; were they
        // not, a block would read zeros there, and nothing worse.
        unsafe {
            let at = self.start().add(start as usize);
            libc::madvise(at.cast(), (end - start) as usize, libc::MADV_DONTNEED);
        }
    }

    /// A window is about to open.
    pub(super) fn enter(&self) {
        let Some(guard) = &self.guard else { return };
        let mut windows = guard.lock();
        if *windows == 0 {
            self.protect(OPEN);
        }
        *windows += 1;
    }

    /// A window has closed.
    pub(super) fn leave(&self) {
        let Some(guard) = &self.guard else { return };
        let mut windows = guard.lock();
        *windows -= 1;
        if *windows == 0 {
            self.protect(CLOSED);
        }
    }

    fn protect(&self, protection: libc::c_int) {
        // SAFETY: all of the mapping, which is ours. If the system refuses, an access that follows
        // ends the test: that is what guarded memory is for.
        unsafe { libc::mprotect(self.start().cast(), self.mapped_bytes, protection) };
    }
}

const OPEN: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const CLOSED: libc::c_int = libc::PROT_NONE;

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` and so long; every window held an `Arc` and is gone.
        unsafe { libc::munmap(self.start().cast(), self.mapped_bytes) };
    }
}
