use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::{BlockKind, EngineIndex, EventCell, Fault, Label, StreamIndex, Token};

use crate::stream::ring::Cursor;
use crate::stream::table::Entry;
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
    /// True if blocks that may take long are left to a worker.
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
    /// stream to be fair to. The thread that has it comes back when called.
    pub(crate) lease: Option<Cursor>,
    /// Number of blocks that may be done on the lease: up to the next that a thread or a stream
    /// waits for.
    pub(crate) limit: u64,
    /// Time to wait for more.
    pub(crate) pace: Pace,
    /// Time when the blocks before it ended, if that is known and just now.
    pub(crate) ended_at: Option<u64>,
    /// Events that were reached.
    pub(crate) reached: Reached,
}

/// Events that were reached, and that are released together: a count that goes down one by one is
/// taken away every time from the thread that records the event again.
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

/// Time that a worker waits before it looks at an empty queue again.
///
/// A look takes the queue's next slot away from the thread that is about to write it. So if several
/// blocks were there after the last wait, the next one is longer. If there was one, a thread may
/// wait for each.
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

    /// Number of pauses to make when no block was there.
    #[inline]
    pub(crate) fn pauses(&mut self) -> u32 {
        self.pauses = if self.found > 1 { (self.pauses * 2).min(LONGEST) } else { 1 };
        self.found = 0;
        self.pauses
    }
}

/// Stands for an engine where there is none: notes are copied a lot, and small.
pub(crate) const NO_ENGINE: EngineIndex = EngineIndex(u16::MAX);

/// Record of a block that is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) kind: BlockKind,
    /// Engine that it ran on; [`NO_ENGINE`] for what needs none.
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

/// End of a run.
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
        let kind = entry.block.kind();
        let label = entry.block.label();
        let queued_at = entry.queued_at;
        let done_at = started_at;
        let engine = NO_ENGINE;
        let modelled_nanoseconds = 0;
        Self { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds }
    }

    /// Adds to a fault how long the block ran, where the fault holds that.
    pub(super) fn timed(&self, fault: Fault) -> Fault {
        let milliseconds = self.done_at.saturating_sub(self.started_at) / 1_000_000;
        match fault {
            Fault::Hung { .. } => Fault::Hung { milliseconds },
            other => other,
        }
    }

    pub(super) fn instant(kind: BlockKind, now: u64) -> Self {
        let label = Label::default();
        let started_at = now;
        let done_at = now;
        let engine = NO_ENGINE;
        let queued_at = 0;
        let modelled_nanoseconds = 0;
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
