use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::{Severity, StreamIndex, StreamPoint};

use super::failure::{Failure, Verdict};
use super::{Note, RUN};
use crate::StreamFault;
use crate::stream::ring::Cursor;
use crate::stream::table::{Entry, Lane};
use crate::sync::{Ordering, often};

/// Failures of the past that a stream remembers, for tickets that are asked late.
const REMEMBERED: usize = often(256, 4) as usize;

/// Condition that a stream's next block waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing.
    Idle,
    /// The block before it.
    Busy,
    /// Another stream.
    Waiting(StreamPoint),
    /// The thread that runs callbacks.
    Callback,
}

/// A stream, as the scheduler alone sees it.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) lane: Arc<Lane>,
    cursor: Cursor,
    /// Blocks that were taken from the ring and not started.
    front: VecDeque<Entry>,
    /// The number of the last block that was taken in hand.
    taken: u64,
    pub(super) phase: Phase,
    pub(super) is_listed: bool,
    /// Number of times in a row that it was found empty.
    pub(super) empty_looks: u32,
    pub(super) failure: Option<Failure>,
    past: VecDeque<Failure>,
    /// Blocks, first to last, of failures that are no longer remembered one by one; the cause is
    /// that of the last.
    forgotten: Option<Failure>,
    /// Streams that wait, and until which block.
    pub(super) waiters: SmallVec<[(u64, StreamIndex); 2]>,
    /// Threads that wait.
    pub(super) sleepers: usize,
    /// Last block up to which it has the priority of those that wait for it.
    pub(super) boosted_until: u64,
}

impl StreamState {
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        Self {
            lane,
            cursor: Cursor::default(),
            front: VecDeque::new(),
            taken: 0,
            phase: Phase::Idle,
            is_listed: false,
            empty_looks: 0,
            failure: None,
            past: VecDeque::new(),
            forgotten: None,
            waiters: SmallVec::new(),
            sleepers: 0,
            boosted_until: 0,
        }
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns true if a block could be taken in hand now.
    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        self.phase == Phase::Idle
            && (!self.front.is_empty() || self.lane.ring.is_ready(&mut self.cursor))
    }

    /// Takes the next block in hand.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(u64, Entry)> {
        let entry = if self.front.is_empty() {
            self.lane.ring.pop(&mut self.cursor)?
        } else {
            self.front.pop_front()?
        };
        self.taken += 1;
        Some((self.taken, entry))
    }

    /// Hands out the ring's cursor, if the next blocks come from there and none is cancelled.
    #[inline]
    pub(super) fn lease(&mut self) -> Option<Cursor> {
        self.is_plain().then(|| std::mem::take(&mut self.cursor))
    }

    /// Like [`lease`](Self::lease), with the next block in hand, if it is for a device. The block
    /// stays in the ring, and its note is returned.
    #[inline]
    pub(super) fn lease_next(&mut self) -> Option<(Cursor, Note)> {
        if !self.is_plain() {
            return None;
        }
        let look = |entry: &Entry| entry.is_for_device().then(|| Note::new(entry, 0));
        let note = self.lane.ring.peek(&mut self.cursor, look)??;
        self.taken += 1;
        Some((std::mem::take(&mut self.cursor), note))
    }

    #[inline]
    fn is_plain(&self) -> bool {
        self.front.is_empty() && self.failure.is_none()
    }

    /// Takes the cursor back, after so many blocks from the first on were taken in hand.
    #[inline]
    pub(super) fn end_lease(&mut self, cursor: Cursor, first: u64, blocks: usize) {
        self.cursor = cursor;
        self.taken = first + blocks as u64 - 1;
    }

    /// Takes more blocks that are cancelled.
    pub(super) fn take_cancelled(&mut self, run: &mut SmallVec<[Entry; RUN]>) {
        while run.len() < RUN && self.is_cancelled(self.taken + 1) {
            let Some((_, entry)) = self.take() else { return };
            run.push(entry);
        }
    }

    /// Gives the block that was taken last back, for later.
    pub(super) fn hold(&mut self, entry: Entry, phase: Phase) {
        self.lane.ring.tell(&mut self.cursor);
        self.taken -= 1;
        self.front.push_front(entry);
        self.phase = phase;
    }

    /// Gives the blocks of a run that were not started back: the next one is the last.
    pub(super) fn put_back(&mut self, rest: &mut SmallVec<[Entry; RUN]>) {
        self.taken -= rest.len() as u64;
        rest.drain(..).for_each(|entry| self.front.push_front(entry));
    }

    /// Notes a failure from a block on; the first cause stays.
    pub(super) fn fail(&mut self, cause: Arc<StreamFault>, from: u64) {
        let severity = cause.fault.severity();
        tracing::debug!(target: "spyre.runtime", "stream {} fails from block {from} on: {cause}", self.lane.index.0);
        self.lane.has_failed.store(true, Ordering::Release);
        self.lane.failure_epoch.fetch_add(1, Ordering::AcqRel);
        if severity > Severity::Data {
            self.lane.is_refusing.store(true, Ordering::Release);
        }
        match &mut self.failure {
            // It was under way when the stream failed, and keeps a fault of its own.
            Some(known) if known.is_open() && from < known.from => {
                let until = known.from - 1;
                self.lane.failures.note_earlier(from, until, &cause);
                self.remember(Failure { cause, from, until: Some(until) });
            }
            Some(known) if known.is_open() && known.is_worsened_by(severity) => {
                // What is queued behind a data fault so far has that one; the worse is reported
                // next.
                let until = self.lane.bump_failure_epoch();
                self.lane.failures.worsen(until, from, &cause);
                known.until = Some(until);
                self.retire();
                self.failure = Some(Failure { cause, from, until: None });
            }
            Some(known) if known.is_open() => {}
            _ => {
                self.lane.failures.note(from, &cause);
                self.retire();
                self.failure = Some(Failure { cause, from, until: None });
            }
        }
        self.lane.poison_watch.set();
    }

    /// Returns true if a block with this number is to be cancelled. Numbers only grow.
    #[inline]
    pub(super) fn is_cancelled(&mut self, sequence: u64) -> bool {
        let Some(failure) = &self.failure else { return false };
        let is_covered = failure.covers(sequence);
        if failure.until.is_some_and(|until| sequence > until) {
            self.retire();
        }
        is_covered
    }

    /// Result of a block that has ended.
    pub(super) fn verdict(&self, sequence: u64) -> Verdict {
        // Where two cover a block, the first cause is the older one.
        let mut failures = self.past.iter().chain(&self.failure);
        if let Some(failure) = failures.find(|failure| failure.covers(sequence)) {
            return Verdict::Failed(Arc::clone(&failure.cause));
        }
        match &self.forgotten {
            Some(failures) if failures.covers(sequence) => {
                Verdict::Forgotten { last: Arc::clone(&failures.cause) }
            }
            _ => Verdict::Well,
        }
    }

    pub(super) fn is_pending(&self, cause: &Arc<StreamFault>) -> bool {
        self.failure.as_ref().is_some_and(|f| f.is_open() && Arc::ptr_eq(&f.cause, cause))
    }

    /// Reports the open fault. What is queued by now is cancelled; after a data fault, what comes
    /// later is not.
    pub(super) fn raise(&mut self) -> Option<Arc<StreamFault>> {
        let failure = self.failure.as_mut().filter(|failure| failure.is_open())?;
        if failure.cause.fault.severity() == Severity::Data {
            failure.until = Some(self.lane.go_on());
        }
        Some(Arc::clone(&failure.cause))
    }

    /// Lets the stream go on behind what is queued by now.
    pub(super) fn clear(&mut self) {
        if let Some(failure) = self.failure.as_mut().filter(|failure| failure.is_open()) {
            // A lost device fails streams from their next block on, which need not be queued yet.
            failure.until = Some(self.lane.go_on());
        }
        self.lane.is_refusing.store(false, Ordering::Release);
    }

    fn retire(&mut self) {
        if let Some(failure) = self.failure.take() {
            self.remember(failure);
        }
    }

    /// Oldest first.
    fn remember(&mut self, failure: Failure) {
        if self.past.len() == REMEMBERED
            && let Some(oldest) = self.past.pop_front()
        {
            self.forgotten = Some(match self.forgotten.take() {
                Some(older) => oldest.joined(&older),
                None => oldest,
            });
        }
        self.past.push_back(failure);
    }
}
