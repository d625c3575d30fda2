//! Memory that does not hold what it should, because the work that was to write it was cancelled.

use crate::stream::ring::Line;
use crate::sync::{AtomicU64, Ordering};

/// Says whether any stream of a card has failed and not gone on yet, or any allocation is poisoned.
///
/// Until then, uses of memory are not looked at for poison: all that it costs is one load.
#[derive(Debug, Default)]
pub(crate) struct PoisonWatch {
    /// [`IS_SET`], and above it how often it was set: to end the watch must not undo a set that came
    /// meanwhile.
    ///
    /// Every launch reads it, so that nothing else that is written may share its cache line.
    state: Line<AtomicU64>,
}

const IS_SET: u64 = 1;
const ONCE: u64 = 2;

impl PoisonWatch {
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) & IS_SET != 0
    }

    /// Has uses looked at from now on.
    pub(crate) fn set(&self) {
        self.state.fetch_add(ONCE, Ordering::SeqCst);
        self.state.fetch_or(IS_SET, Ordering::SeqCst);
    }

    /// Has uses looked at from now on if there is a reason, and no longer if there is none. It stays set
    /// while reasons are looked for, as other streams rely on it, and if it is set meanwhile.
    pub(crate) fn update(&self, is_needed: impl FnOnce() -> bool) {
        let seen = self.state.load(Ordering::SeqCst);
        let is_set = seen & IS_SET != 0;
        if is_needed() {
            if !is_set {
                self.set();
            }
        } else if is_set {
            let cleared = seen & !IS_SET;
            // If it fails, it was set again.
            _ = self.state.compare_exchange(seen, cleared, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
