use std::fmt;

use spyre_hal::{BlockKind, EngineIndex, Label, StreamIndex};

use crate::core::{NO_ENGINE, Note};

/// How many blocks a flight recorder remembers.
pub const RECORDED: usize = 4096;

/// What became of a recorded block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// Started, and not ended.
    Running,
    /// Done.
    Done,
    /// Ended with a fault.
    Failed,
    /// Never started, because of a fault before it.
    Cancelled,
}

/// A block in the flight recorder. Times are nanoseconds of the runtime's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its stream.
    pub stream: StreamIndex,
    /// Its number there.
    pub sequence: u64,
    /// What it was.
    pub kind: BlockKind,
    /// What it was called.
    pub label: Label,
    /// What became of it.
    pub state: RecordState,
    /// Where it ran; `None` for events, callbacks and what never started.
    pub engine: Option<EngineIndex>,
    /// When it was queued; zero if that was not traced.
    pub queued_at: u64,
    /// When it was started.
    pub started_at: u64,
    /// When it had ended.
    pub done_at: u64,
    /// What it would have taken on a real card; zero where nothing is modelled.
    pub modelled_nanoseconds: u64,
}

/// The last [`RECORDED`] blocks of a card, in the order they ended.
#[derive(Debug, Default)]
pub(crate) struct FlightRecorder {
    records: Vec<Record>,
    next: u64,
}

impl FlightRecorder {
    /// Notes a block that has ended.
    #[inline]
    pub(crate) fn add(
        &mut self,
        stream: StreamIndex,
        sequence: u64,
        note: &Note,
        state: RecordState,
    ) {
        let record = Record { state, ..Record::new(stream, sequence, note) };
        match self.records.get_mut(self.next as usize % RECORDED) {
            Some(oldest) => *oldest = record,
            None => self.records.push(record),
        }
        self.next += 1;
    }

    /// All records, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let oldest = self.next as usize % RECORDED.min(self.records.len().max(1));
        let (newer, older) = self.records.split_at(oldest.min(self.records.len()));
        older.iter().chain(newer).copied().collect()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, sequence, kind, label, .. } = self;
        write!(f, "stream {} block {sequence} {kind}", stream.0)?;
        if let Some(name) = label.name() {
            write!(f, " {name:?}")?;
        }
        match self.state {
            RecordState::Running => write!(f, ": running since {} ns", self.started_at),
            RecordState::Cancelled => write!(f, ": cancelled"),
            RecordState::Done => write!(f, ": done in {} ns", self.took()),
            RecordState::Failed => write!(f, ": failed after {} ns", self.took()),
        }
    }
}

impl Record {
    /// A block that is running.
    #[inline]
    pub(crate) fn new(stream: StreamIndex, sequence: u64, note: &Note) -> Self {
        let &Note { kind, engine, label, queued_at, started_at, .. } = note;
        let &Note { done_at, modelled_nanoseconds, .. } = note;
        Self {
            stream,
            sequence,
            kind,
            label,
            state: RecordState::Running,
            engine: Some(engine).filter(|&engine| engine != NO_ENGINE),
            queued_at,
            started_at,
            done_at,
            modelled_nanoseconds,
        }
    }

    fn took(&self) -> u64 {
        self.done_at.saturating_sub(self.started_at)
    }
}
