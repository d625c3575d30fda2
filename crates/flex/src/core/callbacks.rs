//! Functions of the host, one at a time.

use spyre_hal::{ControlBlock, HostCallback, Outcome, StreamPoint};

use super::engines::Started;
use super::stream_state::Phase;
use super::{Core, Note};

impl Core {
    /// The next callback, if none is running.
    pub(crate) fn pick_callback(&mut self) -> Option<(StreamPoint, HostCallback)> {
        if self.callback_running.is_some() {
            return None;
        }
        let stream = self.callbacks.pop_front()?;
        let started_at = self.env.now();
        let state = self.stream(stream);
        let (sequence, entry) = state.take()?;
        let note = Note::new(&entry, started_at);
        let ControlBlock::HostCallback(callback) = entry.block else { return None };
        state.phase = Phase::Busy;
        let point = StreamPoint { stream, sequence };
        self.callback_running = Some(Started { point, note });
        Some((point, callback))
    }

    pub(crate) fn finish_callback(&mut self, outcome: Outcome) {
        let Some(mut started) = self.callback_running.take() else { return };
        started.note.done_at = self.env.now();
        self.end_with(started.point.stream, started.point.sequence, &started.note, outcome);
    }

    pub(crate) fn has_callback(&self) -> bool {
        self.callback_running.is_none() && !self.callbacks.is_empty()
    }
}
