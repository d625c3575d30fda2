//! Taking a stream's next blocks in hand, and dealing with events on the way.

use std::sync::Arc;

use spyre_hal::{BlockKind, ControlBlock, EventCell, StreamIndex, StreamPoint};

use super::faults::Progress;
use super::stream_state::Phase;
use super::{Core, Note, Run};
use crate::Priority;
use crate::recorder::RecordState;
use crate::stream::fences;
use crate::stream::table::Entry;
use crate::sync::Ordering;

impl Core {
    #[inline]
    pub(super) fn take_arrivals(&mut self) {
        if !self.arrivals.is_empty() {
            let listed = &mut self.listed;
            let streams = &mut self.streams;
            self.arrivals.take(|stream| {
                let state = &mut streams[usize::from(stream.0)];
                state.empty_looks = 0;
                // A busy one, too: it may have been found without the list, as the last one's turn.
                let is_ours = matches!(state.phase, Phase::Idle | Phase::Busy);
                if is_ours && !state.is_listed {
                    state.is_listed = true;
                    listed.push(stream);
                }
            });
        }
    }

    /// Takes blocks of a stream in hand: `Some` if `run` now holds some, and whether they are
    /// cancelled. Events are dealt with on the way.
    #[inline]
    pub(super) fn advance(&mut self, stream: StreamIndex, run: &mut Run) -> Option<bool> {
        loop {
            let state = &mut self.streams[usize::from(stream.0)];
            let (sequence, entry) = state.take()?;
            if state.is_cancelled(sequence) {
                run.entries.push(entry);
                state.take_cancelled(&mut run.entries);
                return Some(true);
            }
            match entry.block {
                ControlBlock::RecordEvent(cell) => {
                    self.record(stream, sequence, cell.as_deref(), entry.queued_at);
                    cell.into_iter().for_each(|cell| run.reached.add(cell));
                }
                ControlBlock::WaitEvent(point) => {
                    if !self.wait(stream, sequence, point, entry) {
                        return None;
                    }
                }
                ControlBlock::HostCallback(_) => {
                    state.hold(entry, Phase::Callback);
                    self.unlist(stream);
                    self.callbacks.push_back(stream);
                    return None;
                }
                ControlBlock::External(_) => {
                    self.reach_external(stream, sequence, entry);
                    return None;
                }
                _ => {
                    run.entries.push(entry);
                    return Some(false);
                }
            }
        }
    }

    pub(super) fn record(
        &mut self,
        stream: StreamIndex,
        sequence: u64,
        cell: Option<&EventCell>,
        queued_at: u64,
    ) {
        let now = if self.is_tracing || cell.is_some() { self.env.now() } else { 0 };
        if let Some(cell) = cell {
            cell.reach(now);
        }
        let note = Note { queued_at, ..Note::instant(BlockKind::RecordEvent, now) };
        self.recorder.add(stream, sequence, &note, RecordState::Done);
        self.publish(stream, sequence);
    }

    /// Returns true if the stream may go on: the point is reached, or will never be.
    pub(super) fn wait(
        &mut self,
        stream: StreamIndex,
        sequence: u64,
        point: StreamPoint,
        entry: Entry,
    ) -> bool {
        let note = Note::new(&entry, 0);
        match self.progress(point) {
            Progress::Done => {
                self.recorder.add(stream, sequence, &note, RecordState::Done);
                self.publish(stream, sequence);
                true
            }
            Progress::Failed(cause) => {
                self.recorder.add(stream, sequence, &note, RecordState::Failed);
                self.stream(stream).fail(cause, sequence);
                self.publish(stream, sequence);
                true
            }
            Progress::Pending => {
                self.stream(stream).hold(entry, Phase::Waiting(point));
                self.unlist(stream);
                self.stream(point.stream).waiters.push((point.sequence, stream));
                if self.is_high(stream) {
                    self.boost(point);
                }
                false
            }
        }
    }

    /// Lends a stream that others wait for their priority, and those it waits for in turn.
    pub(super) fn boost(&mut self, point: StreamPoint) {
        let mut next = Some(point);
        while let Some(point) = next {
            let state = self.stream(point.stream);
            if state.boosted_until >= point.sequence {
                return;
            }
            state.boosted_until = point.sequence;
            next = match state.phase {
                Phase::Waiting(further) => Some(further),
                _ => None,
            };
        }
    }

    pub(super) fn is_high(&self, stream: StreamIndex) -> bool {
        let state = &self.streams[usize::from(stream.0)];
        state.lane.priority == Priority::High || state.boosted_until > state.lane.completed()
    }

    /// Takes a stream off the list; a block that came meanwhile puts it back.
    pub(super) fn delist(&mut self, stream: StreamIndex) {
        self.unlist(stream);
        let state = self.stream(stream);
        state.lane.is_listed.store(false, Ordering::SeqCst);
        fences::heavy();
        if state.is_ready() {
            let lane = Arc::clone(&state.lane);
            self.arrivals.list(&lane);
        }
    }

    pub(super) fn unlist(&mut self, stream: StreamIndex) {
        self.stream(stream).is_listed = false;
        self.listed.remove(stream);
    }
}
