//! Work outside the card: begun in its stream's turn, ended by a report from any thread.

use spyre_hal::{Cancel, ControlBlock, ExternalWork, Outcome, StreamIndex, StreamPoint};

use super::engines::Started;
use super::stream_state::Phase;
use super::{Core, Note};
use crate::stream::table::Entry;

/// Work that is under way outside the card.
#[derive(Debug)]
pub(super) struct RunningExternal {
    pub(super) started: Started,
    cancel: Cancel,
}

/// Work to be begun once the lock is free.
#[derive(Debug)]
pub(crate) struct DueExternal {
    pub(crate) point: StreamPoint,
    pub(crate) work: Box<ExternalWork>,
}

impl Core {
    /// Notes that a stream has reached work outside the card. The stream is busy until that has ended.
    #[cold]
    pub(super) fn reach_external(&mut self, stream: StreamIndex, sequence: u64, entry: Entry) {
        let started_at = self.env.now();
        let note = Note::new(&entry, started_at);
        let ControlBlock::External(work) = entry.block else { return };
        let note = Note { modelled_nanoseconds: work.modelled_nanoseconds(), ..note };
        let point = StreamPoint { stream, sequence };
        self.stream(stream).phase = Phase::Busy;
        self.unlist(stream);
        let started = Started { point, note };
        self.external.push(RunningExternal { started, cancel: work.cancel() });
        self.due_external.push(DueExternal { point, work });
    }

    /// Takes the work that is to be begun, now that the lock is about to be free.
    #[inline]
    pub(crate) fn take_due_external(&mut self) -> Vec<DueExternal> {
        std::mem::take(&mut self.due_external)
    }

    /// Notes that work outside the card has ended.
    pub(crate) fn finish_external(&mut self, point: StreamPoint, outcome: Outcome) {
        let is_it = |running: &RunningExternal| running.started.point == point;
        let Some(at) = self.external.iter().position(is_it) else { return };
        let mut note = self.external.swap_remove(at).started.note;
        note.done_at = self.env.now();
        self.end_with(point.stream, point.sequence, &note, outcome);
    }

    /// The work outside the card that a stream waits for at the moment, itself or for another stream.
    pub(crate) fn awaited_external(&self, mut stream: StreamIndex) -> Option<StreamPoint> {
        // Streams do not wait in circles, but the state of one may be older than that of another.
        for _ in 0..self.streams.len() {
            match self.streams[usize::from(stream.0)].phase {
                Phase::Waiting(point) => stream = point.stream,
                Phase::Busy => {
                    let mut points = self.external.iter().map(|running| running.started.point);
                    return points.find(|point| point.stream == stream);
                }
                Phase::Idle | Phase::Callback => return None,
            }
        }
        None
    }

    /// Points of the work that is under way, and the calls that ask it to end early.
    pub(crate) fn external_cancels(&self) -> Vec<(StreamPoint, Cancel)> {
        let external = self.external.iter();
        external.map(|running| (running.started.point, running.cancel.clone())).collect()
    }
}
