use crate::ring::Line;
use crate::sync::{AtomicU64, Ordering};

/// Lets one thread at a time do the work of all: whoever comes while one is at it leaves the work
/// to that one, and goes on.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    /// Calls that somebody has yet to look after.
    calls: Line<AtomicU64>,
}

impl Combiner {
    /// Has the work done that is there now, by this thread or by the one that is at it. `work` does
    /// all that it finds; it is called again for what came while it ran.
    #[inline]
    pub(crate) fn run(&self, mut work: impl FnMut()) {
        if self.calls.0.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        loop {
            let seen = self.calls.0.load(Ordering::Acquire);
            work();
            if self.calls.0.fetch_sub(seen, Ordering::AcqRel) == seen {
                return;
            }
        }
    }
}
