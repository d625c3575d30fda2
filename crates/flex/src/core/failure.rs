use std::sync::Arc;

use spyre_hal::Severity;

use crate::StreamFault;

/// Cause of a failure, and the blocks of a stream that are cancelled by it.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: Arc<StreamFault>,
    /// The block that failed.
    pub(super) from: u64,
    /// The last block that is cancelled. `None`, while open: until a data fault is reported, or the
    /// stream is let go on.
    pub(super) until: Option<u64>,
}

/// Result that a block ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Well,
    Failed(Arc<StreamFault>),
    /// Perhaps a failure, perhaps not: it is too many of them ago. The last of those is known.
    Forgotten {
        last: Arc<StreamFault>,
    },
}

impl Failure {
    pub(super) fn covers(&self, sequence: u64) -> bool {
        sequence >= self.from && self.until.is_none_or(|until| sequence <= until)
    }

    /// Both, and all between, under this one's cause.
    pub(super) fn joined(self, older: &Self) -> Self {
        let until = self.until.zip(older.until).map(|(own, other)| own.max(other));
        Self { from: self.from.min(older.from), until, ..self }
    }

    /// Returns true if blocks that are queued now are cancelled, too.
    pub(super) fn is_open(&self) -> bool {
        self.until.is_none()
    }

    /// Returns true if it clears when it is reported, and the other would not.
    pub(super) fn is_worsened_by(&self, other: Severity) -> bool {
        self.cause.fault.severity() == Severity::Data && other > Severity::Data
    }
}
