//! The scheduler's decisions, as a state machine: no thread, no lock, no device.
//!
//! Its inputs are what was queued, what was done and the time; it says what to start next. Threads
//! only carry messages to it and from it, so a simulator runs the same code.

mod advance;
mod callbacks;
mod engines;
mod external;
mod failure;
mod faults;
mod policy;
mod progress;
mod run;
mod stream_state;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use spyre_hal::{EngineIndex, StreamIndex, StreamPoint, Token};

use crate::recorder::Tape;
use crate::recorder::{FlightRecorder, Record, RecordState};
use crate::scheduler::arrivals::Arrivals;
use crate::stream::table::Lane;
use crate::{Env, Policy, StreamFault};
pub(crate) use engines::Overdue;
use engines::{EngineState, Running, Started};
pub(crate) use external::DueExternal;
use external::RunningExternal;
pub(crate) use failure::Verdict;
pub(crate) use faults::Progress;
use policy::Listed;
use progress::Sleeper;
pub(crate) use progress::Wake;
pub(crate) use run::{End, LEASED, NO_ENGINE, Note, Only, Picked, RUN, Run};
use stream_state::StreamState;

#[derive(Debug)]
pub(crate) struct Core {
    env: Arc<dyn Env>,
    arrivals: Arc<Arrivals>,
    streams: Vec<StreamState>,
    listed: Listed,
    engines: Vec<EngineState>,
    /// Streams whose next block is a callback.
    callbacks: VecDeque<StreamIndex>,
    callback_running: Option<Started>,
    /// Work under way outside the card.
    external: Vec<RunningExternal>,
    /// Part of it that is to be begun when the lock is free.
    due_external: Vec<DueExternal>,
    next_token: u64,
    recorder: FlightRecorder,
    lost: Option<Arc<StreamFault>>,
    sleepers: Vec<Sleeper>,
    /// Calls to be made when the lock is free.
    wakes: Vec<Wake>,
    is_tracing: bool,
    may_lease: bool,
    /// True if blocks take time: those of a prompt device that are done at once do not.
    is_timed: bool,
}

impl Core {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        arrivals: Arc<Arrivals>,
        policy: Policy,
        engines: u16,
        is_prompt: bool,
    ) -> Self {
        let engine = |_| EngineState { running: None, was_done: false };
        Self {
            env,
            arrivals,
            streams: Vec::new(),
            listed: Listed::new(policy),
            engines: (0..engines).map(engine).collect(),
            callbacks: VecDeque::new(),
            callback_running: None,
            external: Vec::new(),
            due_external: Vec::new(),
            next_token: 1,
            recorder: FlightRecorder::default(),
            lost: None,
            sleepers: Vec::new(),
            wakes: Vec::new(),
            is_tracing: false,
            may_lease: is_prompt && engines == 1,
            is_timed: !is_prompt,
        }
    }

    /// Takes a new lane in.
    pub(crate) fn add(&mut self, lane: Arc<Lane>) {
        debug_assert_eq!(usize::from(lane.index.0), self.streams.len());
        let mut state = StreamState::new(lane);
        if let Some(cause) = &self.lost {
            state.fail(Arc::clone(cause), 1);
        }
        self.streams.push(state);
    }

    pub(crate) fn set_tracing(&mut self, is_tracing: bool) {
        self.is_tracing = is_tracing;
    }

    /// Keeps every block from now on, up to so many; or no longer, and gives those that were kept.
    pub(crate) fn set_tape(&mut self, most: Option<usize>) -> Tape {
        self.recorder.set_tape(most)
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.listed.set_policy(policy);
    }

    /// The next blocks for an engine, put into `run`; of one stream only, if the caller says so.
    #[inline]
    pub(crate) fn pick(
        &mut self,
        engine: EngineIndex,
        only: Option<Only>,
        run: &mut Run,
    ) -> Option<Picked> {
        let state = &self.engines[usize::from(engine.0)];
        if state.running.is_some() {
            return None;
        }
        let may_lease = self.may_lease && state.was_done;
        self.take_arrivals();
        loop {
            let stream = self.choose(only.map(|only| only.stream))?;
            if may_lease && let Some((cursor, note)) = self.stream(stream).lease_next() {
                run.limit = self.blocks_to_lease(stream);
                run.lease = Some(cursor);
                return Some(self.begin(engine, stream, false, note, run));
            }
            if let Some(is_cancelled) = self.advance(stream, run) {
                run.entries.reverse();
                let leaves_long = only.is_some_and(|only| only.leaves_long);
                if leaves_long && !is_cancelled && run.next().block.is_long() {
                    self.stream(stream).put_back(&mut run.entries);
                    return None;
                }
                if may_lease && !is_cancelled && !self.listed.is_contended() {
                    run.limit = self.blocks_to_lease(stream);
                    run.lease = self.stream(stream).lease();
                }
                let note = Note::new(run.next(), 0);
                return Some(self.begin(engine, stream, is_cancelled, note, run));
            }
        }
    }

    /// Number of blocks that may be done on a lease: no more than a turn, where streams compete.
    #[inline]
    fn blocks_to_lease(&self, stream: StreamIndex) -> u64 {
        let most = self.listed.blocks_in_turn().unwrap_or(LEASED as u64);
        if most == 1 { 1 } else { self.blocks_to_next_waiter(stream).min(most) }
    }

    /// Notes what became of a run.
    #[inline]
    pub(crate) fn finish(&mut self, engine: EngineIndex, token: Token, end: End, run: &mut Run) {
        let at = usize::from(engine.0);
        let running = self.engines[at].running.as_ref().filter(|run| run.token == token.0);
        let Some(&Running { first: Started { point: first, .. }, is_cancelled, .. }) = running
        else {
            // The watchdog gave it up, and what was not started with it. None of it counts.
            *run = Run::default();
            return;
        };
        if !matches!(end, End::Later(_)) {
            self.engines[at].running = None;
        }
        let last = self.take_back(first, is_cancelled, &end, run);
        match end {
            End::Done => {
                self.engines[at].was_done = true;
                self.advance_to(first.stream, last);
            }
            End::Failed(note, fault) => {
                let fault = note.timed(fault);
                self.end_with(first.stream, last + 1, &note, Err(fault));
            }
            End::Later(note) => {
                if last >= first.sequence {
                    self.publish(first.stream, last);
                }
                self.wait_for(engine, last + 1, note);
            }
        }
    }

    /// Takes back what a run did not start, notes what it did, and returns the number of the last
    /// block that is done.
    #[inline]
    fn take_back(
        &mut self,
        first: StreamPoint,
        is_cancelled: bool,
        end: &End,
        run: &mut Run,
    ) -> u64 {
        let StreamPoint { stream, sequence: first } = first;
        if let Some(cursor) = run.lease.take() {
            let ended = run.notes.len() + usize::from(!matches!(end, End::Done));
            self.stream(stream).end_lease(cursor, first, ended + run.entries.len());
            self.arrivals.answer();
        }
        if !run.entries.is_empty() {
            // Taken and not started: behind a fault, or on a lease and not for the device.
            self.stream(stream).put_back(&mut run.entries);
        }
        let ended = if is_cancelled { RecordState::Cancelled } else { RecordState::Done };
        for (sequence, note) in (first..).zip(&run.notes) {
            self.recorder.add(stream, sequence, note, ended);
        }
        let done = run.notes.len() as u64;
        run.ended_at = run.notes.last().map(|note| note.done_at).filter(|_| self.is_timed);
        run.notes.clear();
        first + done - 1
    }

    /// Returns true if an engine could start something now.
    pub(crate) fn has_work(&mut self, engine: EngineIndex) -> bool {
        let is_free = self.engines[usize::from(engine.0)].running.is_none();
        is_free && self.has_ready()
    }

    /// Returns true if a stream has a block that could be started.
    pub(crate) fn has_ready(&mut self) -> bool {
        self.take_arrivals();
        self.choose_without_turn().is_some()
    }

    /// Returns true if nothing is queued or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.iter().all(|state| state.lane.is_done(state.lane.ring.reserved()))
    }

    /// The last blocks, and those that are running.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = self.recorder.records();
        let engines = self.engines.iter().filter_map(|engine| engine.running.as_ref());
        let external = self.external.iter().map(|running| running.started);
        let running =
            engines.map(|running| running.first).chain(self.callback_running).chain(external);
        records.extend(running.map(|started| {
            Record::new(started.point.stream, started.point.sequence, &started.note)
        }));
        records
    }

    #[inline]
    fn stream(&mut self, stream: StreamIndex) -> &mut StreamState {
        &mut self.streams[usize::from(stream.0)]
    }
}
