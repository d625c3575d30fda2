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

impl Failure {
    pub(super) fn covers(&self, sequence: u64) -> bool {
        sequence >= self.from && self.until.is_none_or(|until| sequence <= until)
    }

    /// Whether nobody was told yet.
    pub(super) fn is_open(&self) -> bool {
        self.until.is_none()
    }

    /// Whether a fault that severe is told in its place.
    pub(super) fn gives_way_to(&self, severity: Severity) -> bool {
        self.cause.fault.severity() == Severity::Data && severity > Severity::Data
    }
}
