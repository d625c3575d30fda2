//! The scheduler's decisions, as a state machine: no thread, no lock, no device.
//!
//! It is told what was queued, what was done and what the time is, and says what to start next.
//! Threads only carry messages to it and from it, so a simulator runs the same code.

mod failure;
mod policy;
mod stream_state;

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::{
    BlockKind, ControlBlock, EngineIndex, EventCell, Fault, HostCallback, Label, Outcome, Severity,
    StreamIndex, StreamPoint, Token,
};

use crate::arrivals::Arrivals;
use crate::recorder::{FlightRecorder, Record, RecordState};
use crate::ring::Cursor;
use crate::stream_table::{Entry, Lane};
use crate::sync::{Ordering, Thread, fence};
use crate::{Env, Policy, Priority, StreamFault};
use failure::Failure;
use policy::Listed;
use stream_state::{Phase, StreamState};

/// Blocks that are taken in hand together when they are cancelled.
pub(crate) const RUN: usize = 8;

/// Blocks that are started one after another on a lease, at most.
pub(crate) const LEASED: usize = 64;

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
}

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
    next_token: u64,
    recorder: FlightRecorder,
    lost: Option<Arc<StreamFault>>,
    sleepers: Vec<Sleeper>,
    /// Threads to be woken when the lock is free.
    wakes: Vec<Thread>,
    is_tracing: bool,
    may_lease: bool,
}

#[derive(Debug)]
struct EngineState {
    running: Option<Running>,
    /// Whether its last block was done at once.
    was_done: bool,
}

/// What an engine is doing.
#[derive(Debug)]
struct Running {
    token: u64,
    blocks: u64,
    is_cancelled: bool,
    is_leased: bool,
    /// A start on this device takes time, and may hang.
    is_timed: bool,
    first: Started,
    /// The device said that the first block will be done later.
    is_later: bool,
    /// It was done before the device could say so.
    early: Option<(u64, Outcome)>,
    is_abort_asked: bool,
}

/// A block that was started.
#[derive(Clone, Copy, Debug)]
struct Started {
    point: StreamPoint,
    note: Note,
}

/// What is remembered of a block when it is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) kind: BlockKind,
    pub(crate) label: Label,
    pub(crate) queued_at: u64,
    pub(crate) started_at: u64,
    pub(crate) done_at: u64,
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

/// How far the block at a point has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Pending,
    Done,
    Failed(Arc<StreamFault>),
}

/// What the watchdog is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Abort(EngineIndex),
    Lost(EngineIndex),
}

#[derive(Debug)]
struct Sleeper {
    point: StreamPoint,
    thread: Thread,
}

impl Core {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        arrivals: Arc<Arrivals>,
        policy: Policy,
        engines: u16,
        may_lease: bool,
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
            next_token: 1,
            recorder: FlightRecorder::default(),
            lost: None,
            sleepers: Vec::new(),
            wakes: Vec::new(),
            is_tracing: false,
            may_lease,
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

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.listed.set_policy(policy);
    }

    /// The next blocks for an engine, put into `run`; of one stream only, if the caller says so.
    #[inline]
    pub(crate) fn pick(
        &mut self,
        engine: EngineIndex,
        only: Option<StreamIndex>,
        is_timed: bool,
        run: &mut Run,
    ) -> Option<Picked> {
        let state = &self.engines[usize::from(engine.0)];
        if state.running.is_some() {
            return None;
        }
        let may_lease = self.may_lease && state.was_done;
        self.take_arrivals();
        loop {
            let stream = self.choose(only)?;
            if let Some(is_cancelled) = self.advance(stream, run) {
                run.entries.reverse();
                if may_lease && !is_cancelled && !self.listed.is_contended() {
                    run.lease = self.stream(stream).lease();
                }
                return Some(self.begin(engine, stream, is_cancelled, is_timed, run));
            }
        }
    }

    /// Notes what became of a run.
    #[inline]
    pub(crate) fn finish(&mut self, engine: EngineIndex, token: Token, end: End, run: &mut Run) {
        let state = &mut self.engines[usize::from(engine.0)];
        let is_current = state.running.as_ref().is_some_and(|running| running.token == token.0);
        if !is_current {
            // The watchdog gave it up, and what was not started with it.
            *run = Run::default();
            return;
        }
        let Some(mut running) = state.running.take() else { return };
        let stream = running.first.point.stream;
        let first = running.first.point.sequence;
        if let Some(cursor) = run.lease.take() {
            let ended = run.notes.len() + usize::from(!matches!(end, End::Done));
            self.stream(stream).end_lease(cursor, first, ended + run.entries.len());
            self.arrivals.answer();
        }
        let ended = if running.is_cancelled { RecordState::Cancelled } else { RecordState::Done };
        for (sequence, note) in (first..).zip(&run.notes) {
            self.recorder.add(stream, sequence, note, ended);
        }
        let last = first + run.notes.len() as u64;
        run.notes.clear();
        match end {
            End::Done => {
                // A lease ends early at a block that is not for the device.
                self.stream(stream).put_back(&mut run.entries);
                self.engines[usize::from(engine.0)].was_done = true;
                self.advance_to(stream, last - 1);
            }
            End::Failed(note, fault) => {
                self.stream(stream).put_back(&mut run.entries);
                self.end_with(stream, last, &note, Err(fault));
            }
            End::Later(note) => {
                self.stream(stream).put_back(&mut run.entries);
                if last > first {
                    self.publish(stream, last - 1);
                }
                let token = running.token + (last - first);
                running.first = Started { point: StreamPoint { stream, sequence: last }, note };
                running.early = running.early.filter(|(early, _)| *early == token);
                running = Running { token, blocks: 1, is_leased: false, is_later: true, ..running };
                self.wait_for(engine, running);
            }
        }
    }

    /// A block that was to be done later has ended. Reports that fit nothing are ignored.
    pub(crate) fn complete(&mut self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let Some(state) = self.engines.get_mut(usize::from(engine.0)) else { return };
        let Some(running) = &mut state.running else { return };
        let tokens = if running.is_leased { LEASED as u64 } else { running.blocks };
        let is_ours = (running.token..running.token + tokens).contains(&token.0);
        match running.is_later {
            false if is_ours => running.early = Some((token.0, outcome)),
            true if is_ours => self.end_later(engine, outcome),
            _ => {}
        }
    }

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

    /// Whether an engine could start something now.
    pub(crate) fn has_work(&mut self, engine: EngineIndex) -> bool {
        let is_free = self.engines[usize::from(engine.0)].running.is_none();
        is_free && self.has_ready()
    }

    /// Whether a stream has a block that could be started.
    pub(crate) fn has_ready(&mut self) -> bool {
        self.take_arrivals();
        self.choose_without_turn().is_some()
    }

    /// An engine that is free.
    pub(crate) fn free_engine(&self) -> Option<EngineIndex> {
        let free = self.engines.iter().position(|engine| engine.running.is_none())?;
        Some(EngineIndex(free as u16))
    }

    /// Whether nothing is queued or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.iter().all(|state| state.lane.is_done(state.lane.ring.reserved()))
    }

    /// How far the block at a point has come.
    pub(crate) fn progress(&self, point: StreamPoint) -> Progress {
        let Some(state) = self.streams.get(usize::from(point.stream.0)) else {
            return Progress::Done;
        };
        if !state.lane.is_done(point.sequence) {
            return Progress::Pending;
        }
        state.cause_at(point.sequence).map_or(Progress::Done, Progress::Failed)
    }

    /// The fault of a stream that nobody was told yet; a data fault is told once.
    pub(crate) fn raise(&mut self, stream: StreamIndex) -> Option<Arc<StreamFault>> {
        self.stream(stream).raise()
    }

    /// The fault that a block ended with, if it did; tells it.
    pub(crate) fn raise_at(&mut self, point: StreamPoint) -> Option<Arc<StreamFault>> {
        let state = self.stream(point.stream);
        let cause = state.cause_at(point.sequence)?;
        if state.is_pending(&cause) {
            state.raise();
        }
        Some(cause)
    }

    /// The fault that makes a stream refuse new blocks.
    pub(crate) fn refusal(&self, stream: StreamIndex) -> Option<Arc<StreamFault>> {
        let state = self.streams.get(usize::from(stream.0))?;
        self.lost.clone().or_else(|| state.failure.as_ref().map(|f| Arc::clone(&f.cause)))
    }

    /// Lets a stream go on after a structural fault; `Err` if the whole device is lost.
    pub(crate) fn reset_stream(&mut self, stream: StreamIndex) -> Result<(), Arc<StreamFault>> {
        match &self.lost {
            Some(cause) => Err(Arc::clone(cause)),
            None => {
                self.stream(stream).clear();
                Ok(())
            }
        }
    }

    /// Declares the device lost. The first cause stays.
    pub(crate) fn lose(&mut self, cause: Arc<StreamFault>) {
        let cause = Arc::clone(self.lost.get_or_insert(cause));
        for state in &mut self.streams {
            let from = state.taken() + 1;
            state.fail(Arc::clone(&cause), from);
        }
        self.unblock_all();
    }

    /// The device was reset: streams go on behind what was cancelled.
    pub(crate) fn revive(&mut self) {
        self.lost = None;
        self.streams.iter_mut().for_each(StreamState::clear);
    }

    /// Engines whose block has been running for longer than `limit` nanoseconds; one that did not
    /// heed an abort after as long again is given up, and the device with it.
    pub(crate) fn overdue(&mut self, limit: u64) -> Vec<Overdue> {
        let now = self.env.now();
        let mut overdue = Vec::new();
        for (at, engine) in self.engines.iter_mut().enumerate() {
            let running = engine.running.as_mut().filter(|running| running.is_watched());
            let Some(running) = running else { continue };
            let engine = EngineIndex(at as u16);
            let elapsed = now.saturating_sub(running.first.note.started_at);
            if elapsed > limit && !running.is_abort_asked {
                running.is_abort_asked = true;
                overdue.push(Overdue::Abort(engine));
            } else if elapsed > limit.saturating_mul(2) && running.is_abort_asked {
                overdue.push(Overdue::Lost(engine));
            }
        }
        for late in overdue.clone() {
            if let Overdue::Lost(engine) = late {
                self.give_up(engine, now);
            }
        }
        overdue
    }

    /// Whether the block that an engine has is one that was found to be overdue.
    pub(crate) fn is_abort_asked(&self, engine: EngineIndex) -> bool {
        let running = self.engines[usize::from(engine.0)].running.as_ref();
        running.is_some_and(|running| running.is_abort_asked)
    }

    /// A thread that wants to be woken when a point is reached; `false` if it has been.
    pub(crate) fn add_sleeper(&mut self, point: StreamPoint, thread: Thread) -> bool {
        let state = self.stream(point.stream);
        if state.lane.is_done(point.sequence) {
            return false;
        }
        state.sleepers += 1;
        self.sleepers.push(Sleeper { point, thread });
        self.arrivals.call();
        true
    }

    /// Threads that are to be woken once the lock is free.
    #[inline]
    pub(crate) fn take_wakes(&mut self) -> Vec<Thread> {
        std::mem::take(&mut self.wakes)
    }

    /// The last blocks, and those that are running.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = self.recorder.records();
        let engines = self.engines.iter().filter_map(|engine| engine.running.as_ref());
        let running = engines.map(|running| running.first).chain(self.callback_running);
        records.extend(running.map(|started| {
            Record::new(started.point.stream, started.point.sequence, &started.note)
        }));
        records
    }
}

impl Core {
    #[inline]
    fn stream(&mut self, stream: StreamIndex) -> &mut StreamState {
        &mut self.streams[usize::from(stream.0)]
    }

    #[inline]
    fn take_arrivals(&mut self) {
        if !self.arrivals.is_empty() {
            let (listed, streams) = (&mut self.listed, &mut self.streams);
            self.arrivals.take(|stream| {
                let state = &mut streams[usize::from(stream.0)];
                state.empty_looks = 0;
                if state.phase == Phase::Idle && !state.is_listed {
                    state.is_listed = true;
                    listed.push(stream);
                }
            });
        }
    }

    /// Takes blocks of a stream in hand: `Some` if `run` now holds some, and whether they are
    /// cancelled. Events are dealt with on the way.
    #[inline]
    fn advance(&mut self, stream: StreamIndex, run: &mut Run) -> Option<bool> {
        loop {
            let state = &mut self.streams[usize::from(stream.0)];
            let (sequence, entry) = state.take()?;
            if state.is_cancelled(sequence) {
                run.entries.push(entry);
                state.take_cancelled(&mut run.entries);
                return Some(true);
            }
            match entry.block {
                ControlBlock::RecordEvent(ref cell) => self.record(stream, sequence, cell),
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
                _ => {
                    run.entries.push(entry);
                    return Some(false);
                }
            }
        }
    }

    #[inline]
    fn begin(
        &mut self,
        engine: EngineIndex,
        stream: StreamIndex,
        is_cancelled: bool,
        is_timed: bool,
        run: &Run,
    ) -> Picked {
        let started_at = if is_timed || self.is_tracing { self.env.now() } else { 0 };
        let state = &mut self.streams[usize::from(stream.0)];
        state.phase = Phase::Busy;
        let sequence = state.taken() + 1 - run.entries.len() as u64;
        let point = StreamPoint { stream, sequence };
        let token = self.next_token;
        let is_leased = run.lease.is_some();
        self.next_token += if is_leased { LEASED as u64 } else { run.entries.len() as u64 };
        self.engines[usize::from(engine.0)].running = Some(Running {
            token,
            blocks: run.entries.len() as u64,
            is_cancelled,
            is_leased,
            is_timed,
            first: Started { point, note: Note::new(run.next(), started_at) },
            is_later: false,
            early: None,
            is_abort_asked: false,
        });
        Picked { stream, token: Token(token), first_sequence: sequence, is_cancelled, started_at }
    }

    fn record(&mut self, stream: StreamIndex, sequence: u64, cell: &EventCell) {
        let now = self.env.now();
        cell.reach(now);
        let note = Note::instant(BlockKind::RecordEvent, now);
        self.recorder.add(stream, sequence, &note, RecordState::Done);
        self.publish(stream, sequence);
    }

    /// Whether the stream may go on: the point is reached, or will never be.
    fn wait(
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
    fn boost(&mut self, point: StreamPoint) {
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

    /// A run is done up to `last`: the stream is free.
    #[inline]
    fn advance_to(&mut self, stream: StreamIndex, last: u64) {
        self.stream(stream).phase = Phase::Idle;
        self.publish(stream, last);
    }

    /// A block has ended, well or badly: the stream is free.
    fn end_with(&mut self, stream: StreamIndex, sequence: u64, note: &Note, outcome: Outcome) {
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
    fn publish(&mut self, stream: StreamIndex, sequence: u64) {
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
    fn unblock(&mut self, stream: StreamIndex, sequence: u64) {
        let waiters = &mut self.stream(stream).waiters;
        let reached: Vec<StreamIndex> = waiters
            .iter()
            .filter(|(until, _)| *until <= sequence)
            .map(|(_, waiter)| *waiter)
            .collect();
        waiters.retain(|(until, _)| *until > sequence);
        reached.into_iter().for_each(|waiter| self.resume(waiter));
    }

    /// Lets a stream that waited look at its next block again.
    fn resume(&mut self, stream: StreamIndex) {
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

    fn unblock_all(&mut self) {
        for at in 0..self.streams.len() {
            self.streams[at].waiters.clear();
            self.resume(StreamIndex(at as u16));
        }
        let waiting: Vec<StreamIndex> = self.callbacks.drain(..).collect();
        for stream in waiting {
            let state = self.stream(stream);
            state.phase = Phase::Idle;
            state.is_listed = true;
            self.listed.push(stream);
        }
    }

    #[cold]
    fn rouse(&mut self, stream: StreamIndex, sequence: u64) {
        let is_reached = |sleeper: &mut Sleeper| {
            sleeper.point.stream == stream && sleeper.point.sequence <= sequence
        };
        let reached: Vec<Sleeper> = self.sleepers.extract_if(.., is_reached).collect();
        self.stream(stream).sleepers -= reached.len();
        self.wakes.extend(reached.into_iter().map(|sleeper| sleeper.thread));
    }

    fn fail(&mut self, stream: StreamIndex, sequence: u64, note: &Note, fault: Fault) {
        let point = StreamPoint { stream, sequence };
        let severity = fault.severity();
        let cause = Arc::new(StreamFault { point, kind: note.kind, label: note.label, fault });
        self.stream(stream).fail(Arc::clone(&cause), sequence);
        if severity == Severity::Lost {
            self.lose(cause);
        }
    }

    fn wait_for(&mut self, engine: EngineIndex, mut running: Running) {
        running.first.note.started_at = self.env.now();
        let early = running.early.take();
        let state = &mut self.engines[usize::from(engine.0)];
        state.running = Some(running);
        state.was_done = false;
        if let Some((_, outcome)) = early {
            self.end_later(engine, outcome);
        }
    }

    fn end_later(&mut self, engine: EngineIndex, outcome: Outcome) {
        let Some(mut running) = self.engines[usize::from(engine.0)].running.take() else { return };
        let now = self.env.now();
        running.first.note.done_at = now;
        let milliseconds = now.saturating_sub(running.first.note.started_at) / 1_000_000;
        let outcome = outcome.map_err(|fault| match fault {
            Fault::Hung { .. } => Fault::Hung { milliseconds },
            other => other,
        });
        let StreamPoint { stream, sequence } = running.first.point;
        self.end_with(stream, sequence, &running.first.note, outcome);
    }

    fn give_up(&mut self, engine: EngineIndex, now: u64) {
        let Some(mut running) = self.engines[usize::from(engine.0)].running.take() else { return };
        running.first.note.done_at = now;
        let milliseconds = now.saturating_sub(running.first.note.started_at) / 1_000_000;
        let why = format!("a block hung for {milliseconds} ms and did not heed an abort");
        let StreamPoint { stream, sequence } = running.first.point;
        let fault = Fault::DeviceLost { why: why.into() };
        self.end_with(stream, sequence, &running.first.note, Err(fault));
        // Blocks of the run that the device never let go on are gone, too.
        self.publish(stream, sequence + running.blocks - 1);
    }

    /// Takes a stream off the list; a block that came meanwhile puts it back.
    fn delist(&mut self, stream: StreamIndex) {
        self.unlist(stream);
        let state = self.stream(stream);
        state.lane.is_listed.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if state.is_ready() {
            let lane = Arc::clone(&state.lane);
            self.arrivals.list(&lane);
        }
    }

    fn unlist(&mut self, stream: StreamIndex) {
        self.stream(stream).is_listed = false;
        self.listed.remove(stream);
    }
}

impl Running {
    /// Whether it is known since when its first block has been running: a prompt device has the
    /// time taken only when a block is to be done later.
    fn is_watched(&self) -> bool {
        self.is_later || self.is_timed
    }
}

impl Run {
    fn next(&self) -> &Entry {
        self.entries.last().expect("a run has a block")
    }
}

impl Note {
    #[inline]
    pub(crate) fn new(entry: &Entry, started_at: u64) -> Self {
        let (kind, label) = (entry.block.kind(), entry.block.label());
        Self { kind, label, queued_at: entry.queued_at, started_at, done_at: started_at }
    }

    fn instant(kind: BlockKind, now: u64) -> Self {
        Self { kind, label: Label::default(), queued_at: 0, started_at: now, done_at: now }
    }
}
