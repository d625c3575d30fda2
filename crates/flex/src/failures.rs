use std::sync::Arc;

use crate::StreamFault;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The failures of a stream that no caller has been told of, or that it was not let go on after: from
/// which block on its blocks are cancelled, and why.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The first block that is cancelled; [`NONE`] if there is no failure.
    from: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    open: Vec<(u64, Arc<StreamFault>)>,
    ended: Vec<EndedFailure>,
}

/// Blocks that were cancelled, or will be.
#[derive(Clone, Debug)]
pub(crate) struct EndedFailure {
    from: u64,
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
        let mut noted = self.noted.lock();
        noted.open.push((from, Arc::clone(cause)));
        let first = self.from.load(Ordering::Relaxed).min(from);
        self.from.store(first, Ordering::SeqCst);
    }

    /// Notes that blocks behind this one run again.
    pub(crate) fn end(&self, until: u64) {
        let noted = &mut *self.noted.lock();
        let ended = noted.open.drain(..).map(|(from, cause)| EndedFailure { from, until, cause });
        noted.ended.extend(ended);
        self.from.store(NONE, Ordering::SeqCst);
    }

    /// Whether blocks that are queued now are cancelled.
    #[inline]
    pub(crate) fn are_open(&self) -> bool {
        self.from.load(Ordering::SeqCst) != NONE
    }

    /// The first cause for which a block is cancelled, if the stream was not let go on since.
    pub(crate) fn cause_of(&self, sequence: u64) -> Option<Arc<StreamFault>> {
        if sequence < self.from.load(Ordering::SeqCst) {
            return None;
        }
        let noted = self.noted.lock();
        let cause = noted.open.iter().find(|(from, _)| sequence >= *from);
        cause.map(|(_, cause)| Arc::clone(cause))
    }

    /// The failures that ended since this was asked last, the first one first.
    pub(crate) fn take_ended(&self) -> Vec<EndedFailure> {
        std::mem::take(&mut self.noted.lock().ended)
    }
}

/// The first cause for which a block was cancelled, if it was.
pub(crate) fn cause_of(ended: &[EndedFailure], sequence: u64) -> Option<&Arc<StreamFault>> {
    let failure = ended.iter().find(|failure| (failure.from..=failure.until).contains(&sequence));
    failure.map(|failure| &failure.cause)
}
