//! Check that this is still the process that opened the card.
#![allow(unsafe_code, reason = "the C library tells when a process forks")]

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of forks, from a process that had opened a card, down to this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A process: threads, and what locks protect, do not survive a fork.
///
/// An owner of locks notes the process that made them, and asks before it takes one.
///
/// ```
/// use spyre_flex::Process;
///
/// let opened_by = Process::current();
/// assert!(opened_by.is_current()); // no longer, in a forked child
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The one that calls.
    pub fn current() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: `in_child` only adds to an atomic, which may be done after a fork.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns true if it is the one that calls. One load: it is asked at every entry.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
