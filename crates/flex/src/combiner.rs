use crate::ring::Line;
use crate::sync::{AtomicU32, Ordering, fence};

/// Nobody is at it.
const IDLE: u32 = 0;
/// Somebody is.
const BUSY: u32 = 1;
/// Somebody is, and is to look once more.
const AGAIN: u32 = 2;

/// Lets one thread at a time do the work of all: whoever comes while one is at it leaves the work
/// to that one, and goes on.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    state: Line<AtomicU32>,
}

impl Combiner {
    /// Has the work done that is there now, by this thread or by the one that is at it. `work` does
    /// all that it finds; it is called again for what came while it ran.
    ///
    /// Whoever brings work makes it visible, has a fence, and then calls this. If the other is to
    /// look once more anyway, nothing is written: the line stays where it is.
    #[inline]
    pub(crate) fn run(&self, mut work: impl FnMut()) {
        if self.is_left_to_another() {
            return;
        }
        loop {
            work();
            if self.change(BUSY, IDLE) {
                return;
            }
            self.state.0.swap(BUSY, Ordering::AcqRel);
            // What was made visible before the other's look at the state is seen from here on.
            fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn is_left_to_another(&self) -> bool {
        loop {
            match self.state.0.load(Ordering::Acquire) {
                IDLE if self.change(IDLE, BUSY) => return false,
                BUSY if self.change(BUSY, AGAIN) => return true,
                AGAIN => return true,
                _ => {}
            }
        }
    }

    #[inline]
    fn change(&self, from: u32, to: u32) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.state.0.compare_exchange(from, to, order.0, order.1).is_ok()
    }
}
