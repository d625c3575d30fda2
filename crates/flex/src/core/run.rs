use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::{BlockKind, EngineIndex, EventCell, Fault, Label, StreamIndex, Token};

use crate::ring::Cursor;
use crate::stream_table::Entry;
use crate::sync::often;

/// Blocks that are taken in hand together when they are cancelled.
pub(crate) const RUN: usize = 8;

/// Blocks that are started one after another on a lease, at most.
pub(crate) const LEASED: usize = often(64, 4) as usize;

/// The blocks that a waiting host carries out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only {
    /// Those of this stream, in its turn.
    pub(crate) stream: StreamIndex,
    /// Whether those that may take long are left to a worker.
    pub(crate) leaves_long: bool,
}

/// Blocks of one stream that are carried out one after another.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Those that are not started, the next one last.
    pub(crate) entries: SmallVec<[Entry; RUN]>,
    /// Those that are done.
    pub(crate) notes: SmallVec<[Note; LEASED]>,
    /// The stream's cursor, if more blocks may be taken without asking again: there is no other
    /// stream to be fair to. Whoever has it comes back when called.
    pub(crate) lease: Option<Cursor>,
    /// How many blocks may be done on the lease: up to the next that somebody waits for.
    pub(crate) limit: u64,
    /// How long to wait for more.
    pub(crate) pace: Pace,
    /// When the blocks before it ended, if that is known and just now.
    pub(crate) ended_at: Option<u64>,
    /// Events that were reached.
    pub(crate) reached: Reached,
}

/// Events that were reached, and that are let go of together: a count that goes down one by one is
/// taken away every time from whoever records the event again.
#[derive(Debug, Default)]
pub(crate) struct Reached(SmallVec<[Arc<EventCell>; REACHED]>);

const REACHED: usize = often(16, 1) as usize;

impl Reached {
    #[inline]
    pub(crate) fn add(&mut self, cell: Arc<EventCell>) {
        if self.0.len() == REACHED {
            self.0.clear();
        }
        self.0.push(cell);
    }
}

/// How long a worker waits before it looks at an empty queue again.
///
/// A look takes the queue's next slot away from whoever is about to write it. So if several blocks were
/// there after the last wait, the next one is longer; if there was one, somebody may wait for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    pauses: u32,
    found: u32,
}

/// Pauses between two looks, at most: some 50 ns each.
const LONGEST: u32 = often(8, 1);

impl Pace {
    /// A block was there.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.found += 1;
    }

    /// Nothing was there: how many pauses to make.
    #[inline]
    pub(crate) fn pauses(&mut self) -> u32 {
        self.pauses = if self.found > 1 { (self.pauses * 2).min(LONGEST) } else { 1 };
        self.found = 0;
        self.pauses
    }
}

/// In the place of an engine, where there is none: notes are copied a lot, and small.
pub(crate) const NO_ENGINE: EngineIndex = EngineIndex(u16::MAX);

/// What is remembered of a block when it is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) kind: BlockKind,
    /// Where it ran; [`NO_ENGINE`] for what needs none.
    pub(crate) engine: EngineIndex,
    pub(crate) label: Label,
    pub(crate) queued_at: u64,
    pub(crate) started_at: u64,
    pub(crate) done_at: u64,
    pub(crate) modelled_nanoseconds: u64,
}

/// Blocks of one stream for an engine; the blocks themselves are in the caller's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    pub(crate) stream: StreamIndex,
    pub(crate) token: Token,
    pub(crate) first_sequence: u64,
    /// They are to be dropped, not started.
    pub(crate) is_cancelled: bool,
    pub(crate) started_at: u64,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// All blocks are done.
    Done,
    /// The block after those that are done has failed.
    Failed(Note, Fault),
    /// The block after those that are done is under way.
    Later(Note),
}

impl Run {
    pub(super) fn next(&self) -> &Entry {
        self.entries.last().expect("a run has a block")
    }
}

impl Note {
    #[inline]
    pub(crate) fn new(entry: &Entry, started_at: u64) -> Self {
        let (kind, label) = (entry.block.kind(), entry.block.label());
        let (queued_at, done_at) = (entry.queued_at, started_at);
        let (engine, modelled_nanoseconds) = (NO_ENGINE, 0);
        Self { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds }
    }

    /// What became of it, told with how long it took.
    pub(super) fn timed(&self, fault: Fault) -> Fault {
        let milliseconds = self.done_at.saturating_sub(self.started_at) / 1_000_000;
        match fault {
            Fault::Hung { .. } => Fault::Hung { milliseconds },
            other => other,
        }
    }

    pub(super) fn instant(kind: BlockKind, now: u64) -> Self {
        let (label, started_at, done_at) = (Label::default(), now, now);
        let (engine, queued_at, modelled_nanoseconds) = (NO_ENGINE, 0, 0);
        Self { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn pauses_after(pace: &mut Pace, blocks: u32) -> u32 {
        (0..blocks).for_each(|_| pace.found());
        pace.pauses()
    }

    #[test]
    fn waits_grow_while_blocks_come_in_numbers_and_shrink_when_one_comes_alone() {
        let mut pace = Pace::default();
        assert_eq!(pauses_after(&mut pace, 0), 1);
        let grown: Vec<u32> = (0..5).map(|_| pauses_after(&mut pace, 3)).collect();
        assert_eq!(grown, [2, 4, 8, 8, 8]);
        assert_eq!(pauses_after(&mut pace, 1), 1);
    }
}
