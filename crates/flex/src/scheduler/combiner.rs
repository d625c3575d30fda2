use crate::stream::ring::Line;
use crate::sync::{AtomicU32, Ordering, fence, often, spin_loop};

/// No thread is at work.
const IDLE: u32 = 0;
/// A thread is at work.
const BUSY: u32 = 1;
/// A thread is at work, and is to look once more.
const AGAIN: u32 = 2;
/// A thread has done a share, and leaves the rest to the next that comes.
const OFFERED: u32 = 3;

/// Number of looks for a thread that takes over or brings more: a busy submitter comes by in that
/// time.
const LOOKS: u32 = often(8, 1);

/// Lets one thread at a time do the work of all. A thread that comes while another is at work
/// leaves its own to that one, and goes on. A thread that has done a share lets the next that comes
/// take over, so that no thread is kept for as long as others bring work.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    state: Line<AtomicU32>,
}

impl Combiner {
    /// Has the work done that is there now, by this thread or by the one that is at it. `work` does
    /// a share of what it finds, and says whether there may be more; it is called again for that,
    /// and for what came while it ran.
    ///
    /// A thread that brings work makes it visible, has a fence, and then calls this. If the other
    /// is to look once more anyway, nothing is written: the line stays where it is.
    #[inline]
    pub(crate) fn run(&self, mut work: impl FnMut() -> bool) {
        if self.is_left_to_another() {
            return;
        }
        let mut is_alone = true;
        loop {
            if work() {
                if self.is_taken_over() {
                    return;
                }
                continue;
            }
            if !is_alone {
                self.wait_for_another();
            }
            if self.change(BUSY, IDLE) {
                return;
            }
            is_alone = false;
            self.state.0.swap(BUSY, Ordering::AcqRel);
            // What was made visible before the other's look at the state is seen from here on.
            fence(Ordering::SeqCst);
        }
    }

    /// Gives others a moment to bring more: to hand the work over costs more than to do it.
    #[inline]
    fn wait_for_another(&self) {
        for _ in 0..LOOKS {
            if self.state.0.load(Ordering::Relaxed) != BUSY {
                return;
            }
            spin_loop();
        }
    }

    #[inline]
    fn is_left_to_another(&self) -> bool {
        loop {
            match self.state.0.load(Ordering::Acquire) {
                IDLE if self.change(IDLE, BUSY) => return false,
                BUSY if self.change(BUSY, AGAIN) => return true,
                AGAIN => return true,
                OFFERED if self.take_over() => return false,
                _ => {}
            }
        }
    }

    /// Offers the rest to others, if there are any.
    #[inline]
    fn is_taken_over(&self) -> bool {
        if self.state.0.load(Ordering::Relaxed) != AGAIN {
            return false;
        }
        self.state.0.store(OFFERED, Ordering::Release);
        for _ in 0..LOOKS {
            spin_loop();
            if self.state.0.load(Ordering::Relaxed) != OFFERED {
                return true;
            }
        }
        !self.take_over()
    }

    #[cold]
    fn take_over(&self) -> bool {
        let is_ours = self.change(OFFERED, BUSY);
        // Others may have left their work to the one before.
        fence(Ordering::SeqCst);
        is_ours
    }

    #[inline]
    fn change(&self, from: u32, to: u32) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.state.0.compare_exchange(from, to, order.0, order.1).is_ok()
    }
}
