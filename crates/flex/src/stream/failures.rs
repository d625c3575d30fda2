use std::sync::Arc;

use crate::StreamFault;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Failures of a stream that were not reported to a caller, or that the stream was not let go on
/// after: the first block that each cancels, and its cause.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The first block that is cancelled; [`NONE`] if there is no failure.
    from: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Failures since the stream was let go on last. One that has no end yet is the last.
    open: Vec<Cancelled>,
    ended: Vec<Cancelled>,
}

/// Blocks that were cancelled, or will be, and why.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled {
    from: u64,
    /// The last one, or [`NONE`].
    until: u64,
    cause: Arc<StreamFault>,
}

const NONE: u64 = u64::MAX;

impl Default for Failures {
    fn default() -> Self {
        Self { from: AtomicU64::new(NONE), noted: Mutex::default() }
    }
}

impl Failures {
    /// Notes that blocks are cancelled from this one on.
    pub(crate) fn note(&self, from: u64, cause: &Arc<StreamFault>) {
        self.add(&mut self.noted.lock(), from, NONE, cause);
    }

    /// Notes that blocks are cancelled for a cause of their own, in front of those that are already.
    pub(crate) fn note_earlier(&self, from: u64, until: u64, cause: &Arc<StreamFault>) {
        self.add(&mut self.noted.lock(), from, until, cause);
    }

    /// Notes that blocks behind this one are cancelled for a worse cause than those before it.
    pub(crate) fn worsen(&self, until: u64, from: u64, cause: &Arc<StreamFault>) {
        let noted = &mut *self.noted.lock();
        noted.end_open(until);
        self.add(noted, from, NONE, cause);
    }

    fn add(&self, noted: &mut Noted, from: u64, until: u64, cause: &Arc<StreamFault>) {
        noted.open.push(Cancelled { from, until, cause: Arc::clone(cause) });
        let first = self.from.load(Ordering::Relaxed).min(from);
        self.from.store(first, Ordering::SeqCst);
    }

    /// Notes that blocks behind this one run again.
    pub(crate) fn end(&self, until: u64) {
        let noted = &mut *self.noted.lock();
        noted.end_open(until);
        noted.ended.append(&mut noted.open);
        self.from.store(NONE, Ordering::SeqCst);
    }

    /// Returns true if blocks that are queued now are cancelled.
    #[inline]
    pub(crate) fn are_open(&self) -> bool {
        self.from.load(Ordering::SeqCst) != NONE
    }

    /// The first cause for which a block is cancelled, if the stream was not let go on since.
    pub(crate) fn cause_of(&self, sequence: u64) -> Option<Arc<StreamFault>> {
        if sequence < self.from.load(Ordering::SeqCst) {
            return None;
        }
        cause_of(&self.noted.lock().open, sequence).map(Arc::clone)
    }

    /// The failures that ended since this was asked last, the first one first.
    pub(crate) fn take_ended(&self) -> Vec<Cancelled> {
        std::mem::take(&mut self.noted.lock().ended)
    }
}

impl Noted {
    fn end_open(&mut self, until: u64) {
        let open = self.open.iter_mut().filter(|cancelled| cancelled.until == NONE);
        open.for_each(|cancelled| cancelled.until = until);
    }
}

/// The first cause for which a block was cancelled, if it was.
pub(crate) fn cause_of(cancelled: &[Cancelled], sequence: u64) -> Option<&Arc<StreamFault>> {
    let cancelled = cancelled.iter().find(|c| (c.from..=c.until).contains(&sequence));
    cancelled.map(|cancelled| &cancelled.cause)
}
