//! Progress of streams, and those that wait for it.

use smallvec::SmallVec;
use spyre_hal::{Outcome, StreamIndex, StreamPoint};

use super::faults::Progress;
use super::stream_state::Phase;
use super::{Core, Note};
use crate::recorder::RecordState;
use crate::stream::card_wait::CardWait;
use crate::sync::Thread;

/// One that waits for a point from outside the card's own streams.
#[derive(Debug)]
pub(super) struct Sleeper {
    pub(super) point: StreamPoint,
    waiter: Waiter,
}

/// Thread, or stream of another card, that waits for a point.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Stream(CardWait),
}

/// Call to be made once the lock is free: a point was reached.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Thread),
    Stream(CardWait, Progress),
}

impl Wake {
    /// Lets the thread or the stream go on.
    pub(crate) fn call(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Stream(card_wait, progress) => card_wait.end(&progress),
        }
    }
}

impl Core {
    /// A thread that wants to be woken when a point is reached; `false` if it has been.
    pub(crate) fn add_sleeper(&mut self, point: StreamPoint, thread: Thread) -> bool {
        self.add_waiter(point, Waiter::Thread(thread)).is_none()
    }

    /// A stream of another card that waits for a point; given back if that has been reached.
    pub(crate) fn add_card_wait(
        &mut self,
        point: StreamPoint,
        card_wait: CardWait,
    ) -> Option<Wake> {
        let waiter = self.add_waiter(point, Waiter::Stream(card_wait))?;
        Some(self.wake_of(point, waiter))
    }

    fn add_waiter(&mut self, point: StreamPoint, waiter: Waiter) -> Option<Waiter> {
        let state = self.stream(point.stream);
        if state.lane.is_done(point.sequence) {
            return Some(waiter);
        }
        state.sleepers += 1;
        self.sleepers.push(Sleeper { point, waiter });
        self.arrivals.call();
        None
    }

    fn wake_of(&self, point: StreamPoint, waiter: Waiter) -> Wake {
        match waiter {
            Waiter::Thread(thread) => Wake::Thread(thread),
            Waiter::Stream(card_wait) => Wake::Stream(card_wait, self.progress(point)),
        }
    }

    /// Number of blocks from the one that a stream has in hand to the next that a thread or another
    /// stream waits for, both counted.
    #[inline]
    pub(super) fn blocks_to_next_waiter(&self, stream: StreamIndex) -> u64 {
        let state = &self.streams[usize::from(stream.0)];
        if state.sleepers == 0 && state.waiters.is_empty() {
            return u64::MAX;
        }
        let sleepers = self.sleepers.iter().filter(|sleeper| sleeper.point.stream == stream);
        let threads = sleepers.map(|sleeper| sleeper.point.sequence);
        let streams = state.waiters.iter().map(|(until, _)| *until);
        let next = threads.chain(streams).min().unwrap_or(u64::MAX);
        next.saturating_sub(state.taken()).saturating_add(1)
    }

    /// Calls that are to be made once the lock is free.
    #[inline]
    pub(crate) fn take_wakes(&mut self) -> Vec<Wake> {
        std::mem::take(&mut self.wakes)
    }

    /// A run is done up to `last`: the stream is free.
    #[inline]
    pub(super) fn advance_to(&mut self, stream: StreamIndex, last: u64) {
        self.stream(stream).phase = Phase::Idle;
        self.publish(stream, last);
    }

    /// A block has ended, well or badly: the stream is free.
    pub(super) fn end_with(
        &mut self,
        stream: StreamIndex,
        sequence: u64,
        note: &Note,
        outcome: Outcome,
    ) {
        let ended = if outcome.is_ok() { RecordState::Done } else { RecordState::Failed };
        self.recorder.add(stream, sequence, note, ended);
        if let Err(fault) = outcome {
            self.fail(stream, sequence, note, fault);
        }
        let state = self.stream(stream);
        state.phase = Phase::Idle;
        if !state.is_listed {
            state.is_listed = true;
            self.listed.push(stream);
        }
        self.publish(stream, sequence);
    }

    /// Makes it known that a stream has come so far.
    #[inline]
    pub(super) fn publish(&mut self, stream: StreamIndex, sequence: u64) {
        let state = &mut self.streams[usize::from(stream.0)];
        state.lane.complete(sequence);
        if !state.waiters.is_empty() {
            self.unblock(stream, sequence);
        }
        if self.streams[usize::from(stream.0)].sleepers > 0 {
            self.rouse(stream, sequence);
        }
    }

    #[cold]
    pub(super) fn unblock(&mut self, stream: StreamIndex, sequence: u64) {
        let waiters = &mut self.stream(stream).waiters;
        let reached: SmallVec<[StreamIndex; 8]> = waiters
            .iter()
            .filter(|(until, _)| *until <= sequence)
            .map(|(_, waiter)| *waiter)
            .collect();
        waiters.retain(|(until, _)| *until > sequence);
        reached.into_iter().for_each(|waiter| self.resume(waiter));
    }

    /// Lets a stream that waited look at its next block again.
    pub(super) fn resume(&mut self, stream: StreamIndex) {
        let state = self.stream(stream);
        if !matches!(state.phase, Phase::Waiting(_)) {
            return;
        }
        state.phase = Phase::Idle;
        if !state.is_listed {
            state.is_listed = true;
            self.listed.push(stream);
        }
    }

    #[cold]
    pub(super) fn rouse(&mut self, stream: StreamIndex, sequence: u64) {
        let is_reached = |sleeper: &mut Sleeper| {
            sleeper.point.stream == stream && sleeper.point.sequence <= sequence
        };
        let reached: Vec<Sleeper> = self.sleepers.extract_if(.., is_reached).collect();
        self.stream(stream).sleepers -= reached.len();
        for Sleeper { point, waiter } in reached {
            let wake = self.wake_of(point, waiter);
            self.wakes.push(wake);
        }
    }
}
