mod tape;

use std::fmt;

use spyre_hal::{BlockKind, EngineIndex, Label, StreamIndex};

use crate::core::{NO_ENGINE, Note};
pub use tape::Tape;

/// Number of blocks that a flight recorder remembers.
pub const RECORDED: usize = 4096;

/// State of a recorded block.
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
    /// Kind of the block.
    pub kind: BlockKind,
    /// Label of the block.
    pub label: Label,
    /// State that it is in, or ended in.
    pub state: RecordState,
    /// Engine that it ran on; `None` for events, callbacks and what never started.
    pub engine: Option<EngineIndex>,
    /// Time when it was queued; zero if that was not traced.
    pub queued_at: u64,
    /// Time when it was started.
    pub started_at: u64,
    /// Time when it had ended.
    pub done_at: u64,
    /// Time that it would have taken on a real card; zero where nothing is modelled.
    pub modelled_nanoseconds: u64,
}

/// The last [`RECORDED`] blocks of a card, in the order they ended.
///
/// The thread that has the scheduler's lock writes every block that ends here. So what a block
/// always has lies close together, and times, which blocks that are done at once have none of, lie
/// apart.
#[derive(Debug, Default)]
pub(crate) struct FlightRecorder {
    briefs: Vec<Brief>,
    /// Times of the same blocks. Those of a block that is not timed are an older one's.
    times: Vec<Times>,
    next: u64,
    /// Tape of a caller that wants more than the last blocks.
    tape: Option<Box<Tape>>,
}

/// Part of a record that every block has.
#[derive(Clone, Copy, Debug)]
struct Brief {
    sequence: u64,
    label: Label,
    stream: StreamIndex,
    engine: EngineIndex,
    kind: BlockKind,
    state: RecordState,
    is_timed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    queued_at: u64,
    started_at: u64,
    done_at: u64,
    modelled_nanoseconds: u64,
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
        let &Note { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds } =
            note;
        let times = Times { queued_at, started_at, done_at, modelled_nanoseconds };
        let is_timed = times.are_known();
        let brief = Brief { sequence, label, stream, engine, kind, state, is_timed };
        if let Some(tape) = &mut self.tape {
            tape.push(Record { state, ..Record::new(stream, sequence, note) });
        }
        let at = self.next as usize % RECORDED;
        self.next += 1;
        match self.briefs.get_mut(at) {
            Some(oldest) => *oldest = brief,
            None => return self.push(brief, times),
        }
        if is_timed {
            self.times[at] = times;
        }
    }

    /// Keeps all blocks from now on, up to so many; or no longer, and gives those that it kept.
    pub(crate) fn set_tape(&mut self, most: Option<usize>) -> Tape {
        let tape = most.map(|most| Box::new(Tape::new(most)));
        std::mem::replace(&mut self.tape, tape).map_or_else(Tape::default, |tape| *tape)
    }

    /// All records, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let oldest = self.next as usize % RECORDED.min(self.briefs.len().max(1));
        let count = self.briefs.len();
        (oldest..count).chain(0..oldest.min(count)).map(|at| self.record(at)).collect()
    }

    #[cold]
    fn push(&mut self, brief: Brief, times: Times) {
        self.briefs.push(brief);
        self.times.push(times);
    }

    fn record(&self, at: usize) -> Record {
        let Brief { sequence, label, stream, engine, kind, state, is_timed } = self.briefs[at];
        let times = if is_timed { self.times[at] } else { Times::default() };
        let Times { queued_at, started_at, done_at, modelled_nanoseconds } = times;
        let note =
            Note { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds };
        Record { state, ..Record::new(stream, sequence, &note) }
    }
}

impl Times {
    #[inline]
    fn are_known(&self) -> bool {
        self.queued_at | self.started_at | self.done_at | self.modelled_nanoseconds != 0
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

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn note(time: u64) -> Note {
        Note {
            kind: BlockKind::Launch,
            engine: EngineIndex(0),
            label: Label::default(),
            queued_at: 0,
            started_at: time,
            done_at: time,
            modelled_nanoseconds: 0,
        }
    }

    fn record(recorder: &mut FlightRecorder, sequence: u64, time: u64) {
        recorder.add(StreamIndex(1), sequence, &note(time), RecordState::Done);
    }

    #[test]
    fn the_last_blocks_are_kept_oldest_first() {
        let mut recorder = FlightRecorder::default();
        assert_eq!(recorder.records(), []);
        for sequence in 1..=3 * RECORDED as u64 + 7 {
            record(&mut recorder, sequence, 0);
        }
        let sequences: Vec<u64> = recorder.records().iter().map(|record| record.sequence).collect();
        let last = 3 * RECORDED as u64 + 7;
        assert_eq!(sequences, (last + 1 - RECORDED as u64..=last).collect::<Vec<_>>());
    }

    #[test]
    fn a_block_without_times_does_not_have_those_of_an_older_one() {
        let mut recorder = FlightRecorder::default();
        (1..=RECORDED as u64).for_each(|sequence| record(&mut recorder, sequence, sequence));
        record(&mut recorder, 5_000, 0);
        record(&mut recorder, 5_001, 77);
        let records = recorder.records();
        let times = |at: usize| (records[at].sequence, records[at].started_at);
        assert_eq!((times(0), times(RECORDED - 2)), ((3, 3), (5_000, 0)));
        assert_eq!(times(RECORDED - 1), (5_001, 77));
    }

    #[test]
    fn what_is_written_for_every_block_is_small() {
        assert!(size_of::<Brief>() <= 24, "{} bytes", size_of::<Brief>());
    }
}
