use smallvec::SmallVec;
use spyre_hal::{BlockKind, EngineIndex, Fault, Label, StreamIndex, Token};

use crate::ring::Cursor;
use crate::stream_table::Entry;
use crate::sync::often;

/// Blocks that are taken in hand together when they are cancelled.
pub(crate) const RUN: usize = 8;

/// Blocks that are started one after another on a lease, at most.
pub(crate) const LEASED: usize = often(64, 4) as usize;

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

    pub(super) fn instant(kind: BlockKind, now: u64) -> Self {
        let (label, started_at, done_at) = (Label::default(), now, now);
        let (engine, queued_at, modelled_nanoseconds) = (NO_ENGINE, 0, 0);
        Self { kind, engine, label, queued_at, started_at, done_at, modelled_nanoseconds }
    }
}
