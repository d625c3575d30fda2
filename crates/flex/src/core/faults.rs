//! Effects of a failed block on streams and on the device.

use std::sync::Arc;

use spyre_hal::{Fault, Severity, StreamIndex, StreamPoint};

use super::failure::Verdict;
use super::stream_state::{Phase, StreamState};
use super::{Core, Note};
use crate::StreamFault;

/// Progress of the block at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Pending,
    Done,
    Failed(Arc<StreamFault>),
}

impl Core {
    /// Progress of the block at a point.
    pub(crate) fn progress(&self, point: StreamPoint) -> Progress {
        let Some(state) = self.streams.get(usize::from(point.stream.0)) else {
            return Progress::Done;
        };
        if !state.lane.is_done(point.sequence) {
            return Progress::Pending;
        }
        match state.verdict(point.sequence) {
            Verdict::Well => Progress::Done,
            // A block that waits for this one cannot rely on it.
            Verdict::Failed(cause) | Verdict::Forgotten { last: cause } => Progress::Failed(cause),
        }
    }

    /// Reports the open fault of a stream. A data fault is reported once, others until a reset.
    pub(crate) fn raise(&mut self, stream: StreamIndex) -> Option<Arc<StreamFault>> {
        self.stream(stream).raise()
    }

    /// Result that a block ended with; reports the fault, if it was one.
    pub(crate) fn raise_at(&mut self, point: StreamPoint) -> Verdict {
        let state = self.stream(point.stream);
        let verdict = state.verdict(point.sequence);
        if let Verdict::Failed(cause) = &verdict
            && state.is_pending(cause)
        {
            state.raise();
        }
        verdict
    }

    /// The fault that makes a stream refuse new blocks.
    pub(crate) fn refusal(&self, stream: StreamIndex) -> Option<Arc<StreamFault>> {
        let state = self.streams.get(usize::from(stream.0))?;
        self.lost.clone().or_else(|| state.failure.as_ref().map(|f| Arc::clone(&f.cause)))
    }

    /// Lets a stream go on after a structural fault; `Err` if the whole device is lost.
    pub(crate) fn reset_stream(&mut self, stream: StreamIndex) -> Result<(), Arc<StreamFault>> {
        match &self.lost {
            Some(cause) => Err(Arc::clone(cause)),
            None => {
                self.stream(stream).clear();
                Ok(())
            }
        }
    }

    /// Declares the device lost. The first cause stays.
    pub(crate) fn lose(&mut self, cause: Arc<StreamFault>) {
        let cause = Arc::clone(self.lost.get_or_insert(cause));
        for state in &mut self.streams {
            let from = state.taken() + 1;
            state.fail(Arc::clone(&cause), from);
        }
        self.unblock_all();
        // A thread that takes blocks without the lock does not see that they are cancelled now.
        self.arrivals.call();
    }

    /// Cancels what streams have queued and not in hand.
    pub(crate) fn cancel(&mut self, cause: &Arc<StreamFault>) {
        for state in &mut self.streams {
            let from = state.taken() + 1;
            if state.lane.ring.reserved() >= from {
                state.fail(Arc::clone(cause), from);
            }
        }
        self.unblock_all();
        self.arrivals.call();
    }

    /// The device was reset: streams go on behind what was cancelled.
    pub(crate) fn revive(&mut self) {
        self.lost = None;
        self.streams.iter_mut().for_each(StreamState::clear);
    }

    pub(super) fn fail(&mut self, stream: StreamIndex, sequence: u64, note: &Note, fault: Fault) {
        let point = StreamPoint { stream, sequence };
        let severity = fault.severity();
        let mut cause = Arc::new(StreamFault { point, kind: note.kind, label: note.label, fault });
        if severity == Severity::Lost {
            cause = Arc::clone(self.lost.get_or_insert(cause));
        }
        self.stream(stream).fail(Arc::clone(&cause), sequence);
        if severity == Severity::Lost {
            self.lose(cause);
        }
    }

    pub(super) fn unblock_all(&mut self) {
        for at in 0..self.streams.len() {
            self.streams[at].waiters.clear();
            self.resume(StreamIndex(at as u16));
        }
        let waiting: Vec<StreamIndex> = self.callbacks.drain(..).collect();
        for stream in waiting {
            let state = self.stream(stream);
            state.phase = Phase::Idle;
            state.is_listed = true;
            self.listed.push(stream);
        }
    }
}
