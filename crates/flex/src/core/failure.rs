use std::sync::Arc;

use spyre_hal::Severity;

use crate::StreamFault;

/// Why, and which, blocks of a stream are cancelled.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: Arc<StreamFault>,
    /// The block that failed.
    pub(super) from: u64,
    /// The last block that is cancelled; open until somebody was told.
    pub(super) until: Option<u64>,
}

/// What a block ended with.
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

    /// Whether nobody was told yet.
    pub(super) fn is_open(&self) -> bool {
        self.until.is_none()
    }

    /// Whether it clears when it is told, and the other would not.
    pub(super) fn is_worsened_by(&self, other: Severity) -> bool {
        self.cause.fault.severity() == Severity::Data && other > Severity::Data
    }
}
