//! Memory that does not hold what it should, because the work that was to write it was cancelled.

use crate::sync::{AtomicBool, Ordering};

/// Says whether any stream of a card has failed and not gone on yet, or any allocation is poisoned.
///
/// Until then, uses of memory are not looked at for poison: all that it costs is one load.
#[derive(Debug, Default)]
pub(crate) struct PoisonWatch {
    is_set: AtomicBool,
}

impl PoisonWatch {
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Has uses looked at from now on.
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// Ends that, unless there is a reason not to: it is asked once nothing more would be missed.
    pub(crate) fn clear_unless(&self, is_needed: impl FnOnce() -> bool) {
        self.is_set.store(false, Ordering::SeqCst);
        if is_needed() {
            self.set();
        }
    }
}
