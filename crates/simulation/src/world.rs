//! Everything outside the runtime: time, the card, and what is known of both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use spyre_flex::Context;
use spyre_hal::{Completions, ControlBlock, EngineIndex, Fault, Outcome, StreamPoint, Token};

use crate::external::External;
use crate::fault_plan::BlockFault;
use crate::log::{Log, Step};
use crate::memory::CardMemory;
use crate::oracle::{Effect, GIVEN_UP, Oracle};
use crate::random::Random;
use crate::report::Report;
use crate::settings::{Sabotage, Settings};
use crate::violation::{Promise, Violation};

pub(crate) struct World {
    pub(crate) settings: Settings,
    clock: AtomicU64,
    completions: Mutex<Option<Arc<dyn Completions>>>,
    /// The runtime, for its watchdog and its recorder.
    context: Mutex<Option<Context>>,
    pub(crate) state: Mutex<State>,
}

/// Mutable part of the world.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) oracle: Oracle,
    pub(crate) log: Log,
    pub(crate) report: Report,
    pub(crate) memory: CardMemory,
    pub(crate) pending: Vec<Pending>,
    /// Work under way outside the card.
    pub(crate) external: Vec<External>,
    pub(crate) lost: Option<Fault>,
    /// The first promise that was broken.
    pub(crate) violation: Option<Violation>,
    next_look: u64,
    /// Blocks queued since the flight recorder was compared.
    pub(crate) unverified: u64,
}

/// Behaviour of a host callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callback {
    Works,
    Fails,
    Panics,
}

/// A block that the card has.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) engine: EngineIndex,
    pub(crate) token: Token,
    pub(crate) block: ControlBlock,
    pub(crate) point: StreamPoint,
    pub(crate) started_at: u64,
    pub(crate) due: u64,
    pub(crate) fault: Option<BlockFault>,
    pub(crate) is_abort_asked: bool,
    pub(crate) is_given_up: bool,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let largest = settings.region_bytes[0];
        let state = State {
            random: Random::new(settings.seed ^ 0x0077_0212),
            oracle: Oracle::default(),
            log: Log::default(),
            report: Report::default(),
            memory: CardMemory::new(settings.mode, settings.regions, largest),
            pending: Vec::new(),
            external: Vec::new(),
            lost: None,
            violation: None,
            next_look: 0,
            unverified: 0,
        };
        let completions = Mutex::default();
        let context = Mutex::default();
        let clock = AtomicU64::new(1);
        let state = Mutex::new(state);
        Arc::new(Self { settings, clock, completions, context, state })
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self, nanoseconds: u64) {
        self.clock.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn connect(&self, completions: Arc<dyn Completions>) {
        *self.completions.lock() = Some(completions);
    }

    /// Sets the runtime whose watchdog looks from now on, or takes it away.
    pub(crate) fn set_context(&self, context: Option<Context>) {
        let old = std::mem::replace(&mut *self.context.lock(), context);
        drop(old);
    }

    /// One thing happens: a block ends, or time passes for those that hang. False if nothing can.
    pub(crate) fn step(&self) -> bool {
        let mut state = self.state();
        let next = state.next_due();
        if let Some(at) = state.next_external(next) {
            let due = state.external[at].due;
            drop(state);
            self.clock.fetch_max(due, Ordering::Relaxed);
            self.end_external(at);
            return true;
        }
        let Some(at) = next else {
            let is_anything_hanging = state.pending.iter().any(|pending| !pending.is_given_up);
            drop(state);
            let can_look = self.context.lock().is_some();
            if is_anything_hanging && can_look {
                self.pass(self.settings.watchdog_nanoseconds / 2 + 1);
                self.look_for_hung_blocks();
                return true;
            }
            return false;
        };
        let pending = state.pending.remove(at);
        drop(state);
        self.clock.fetch_max(pending.due, Ordering::Relaxed);
        self.end(pending, None);
        self.look_now_and_then();
        true
    }

    /// Looks for hung blocks if it was not done for a while, as a watchdog's thread would.
    pub(crate) fn look_now_and_then(&self) {
        let mut state = self.state();
        if self.now() >= state.next_look {
            state.next_look = self.now() + self.settings.watchdog_nanoseconds / 4;
            drop(state);
            self.look_for_hung_blocks();
        }
    }

    pub(crate) fn look_for_hung_blocks(&self) {
        let context = self.context.lock().clone();
        let Some(context) = context else { return };
        let limit = self.settings.watchdog_nanoseconds;
        let now = self.now();
        let elapsed = |pending: &Pending| now.saturating_sub(pending.started_at);
        let is_hopeless = |pending: &Pending| {
            pending.is_abort_asked && !pending.is_given_up && elapsed(pending) > 2 * limit
        };
        if self.state().pending.iter().any(is_hopeless) {
            self.compare();
            self.state().give_up(now, is_hopeless);
        }
        for pending in &mut self.state().pending {
            pending.is_abort_asked |= elapsed(pending) > limit;
        }
        context.scheduler().look_for_hung_blocks();
    }

    /// Compares the flight recorder with the oracle.
    pub(crate) fn compare(&self) {
        let context = self.context.lock().clone();
        let Some(context) = context else { return };
        let records = context.scheduler().flight_record();
        let mut state = self.state();
        state.unverified = 0;
        let result = state.oracle.compare(&records);
        state.check(result);
    }

    /// Ends a block of the card and reports it.
    pub(crate) fn end(&self, mut pending: Pending, forced: Option<Fault>) {
        if pending.is_given_up {
            // The runtime has long stopped to listen; the contract wants it reported once.
            let Pending { engine, token, block, .. } = pending;
            drop(block);
            self.report(engine, token, Err(lost("it was given up")));
            return;
        }
        let outcome = self.outcome(&mut pending, forced);
        let Pending { engine, token, block, .. } = pending;
        drop(block);
        self.report(engine, token, outcome);
        self.report_again(engine);
    }

    /// Carries a block out, or has it fail, and lets the oracle know how it ended.
    pub(crate) fn outcome(&self, pending: &mut Pending, forced: Option<Fault>) -> Outcome {
        let mut state = self.state();
        let fault = forced.or_else(|| state.lost.clone()).or_else(|| pending.planned_fault());
        let is_lost = matches!(fault, Some(Fault::DeviceLost { .. }));
        if is_lost {
            drop(state);
            // What the scheduler has dealt with by now is not cancelled.
            self.compare();
            state = self.state();
        }
        let outcome = state.carry_out(pending, fault);
        if self.settings.sabotage == Some(Sabotage::WrongByte) && state.random.one_in(50) {
            state.memory.spoil(&pending.block);
        }
        let engine = pending.engine.0;
        let point = pending.point;
        let reported = name(&outcome);
        state.log.add(self.now(), Step::Ended { engine, point, outcome: reported });
        state.report.faults += u64::from(outcome.is_err());
        if is_lost {
            state.lose(self.now(), outcome.clone());
        }
        let result = state.oracle.end(point, &outcome);
        state.check(result);
        match self.settings.sabotage {
            Some(Sabotage::HideFault) if outcome.is_err() => Ok(()),
            _ => outcome,
        }
    }

    fn report(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let completions = self.completions.lock().clone();
        if let Some(completions) = completions {
            completions.complete(engine, token, outcome);
        }
    }

    fn report_again(&self, engine: EngineIndex) {
        if self.settings.sabotage == Some(Sabotage::ReportTwice) {
            let next = self.state().pending.iter().find(|p| p.engine == engine).map(|p| p.token);
            if let Some(token) = next {
                self.report(engine, token, Ok(()));
            }
        }
    }
}

impl State {
    /// Notes a broken promise; the first stays.
    pub(crate) fn check(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.violation.get_or_insert(violation);
        }
    }

    /// The block that ends next.
    fn next_due(&self) -> Option<usize> {
        let is_ending = |pending: &Pending| {
            let hangs = matches!(pending.fault, Some(BlockFault::Hang | BlockFault::HangForever));
            !pending.is_given_up && (!hangs || self.lost.is_some())
        };
        let ending = self.pending.iter().enumerate().filter(|(_, pending)| is_ending(pending));
        ending.min_by_key(|(_, pending)| (pending.due, pending.engine)).map(|(at, _)| at)
    }

    /// The work outside the card that ends next, if it ends before this block of the card.
    fn next_external(&self, pending: Option<usize>) -> Option<usize> {
        let before = pending.map_or(u64::MAX, |at| self.pending[at].due);
        let due = self.external.iter().enumerate().map(|(at, external)| (external.due, at));
        due.filter(|&(due, _)| due <= before).min().map(|(_, at)| at)
    }

    fn carry_out(&mut self, pending: &mut Pending, fault: Option<Fault>) -> Outcome {
        let is_half = pending.fault == Some(BlockFault::ShortCopy);
        if let Some(fault) = fault.clone().filter(|_| !is_half || self.lost.is_some()) {
            return Err(fault);
        }
        let StreamPoint { stream, sequence } = pending.point;
        let effect = match self.oracle.lane(stream).get(sequence) {
            Some(block) => block.effect,
            None => return Ok(()),
        };
        let seen = self.memory.carry_out(&mut pending.block, is_half)?;
        if let Effect::Read { from } | Effect::Copy { from, .. } = effect {
            self.report.compared_bytes += seen.len() as u64;
            let result = self.oracle.check_bytes(from, &seen);
            self.check(result);
        }
        self.oracle.apply(effect, is_half);
        fault.map_or(Ok(()), Err)
    }

    /// The card is lost: what it has ends soon.
    fn lose(&mut self, now: u64, outcome: Outcome) {
        if self.lost.is_none() {
            self.report.losses += 1;
            self.lost = outcome.err();
            for pending in &mut self.pending {
                pending.due = pending.due.min(now + 1000);
            }
        }
    }

    /// The watchdog is about to give blocks up, and the device with them.
    fn give_up(&mut self, now: u64, is_hopeless: impl Fn(&Pending) -> bool) {
        self.pending.sort_by_key(|pending| pending.engine);
        let mut points = Vec::new();
        for pending in &mut self.pending {
            if is_hopeless(pending) {
                pending.is_given_up = true;
                points.push(pending.point);
            }
        }
        for point in points {
            self.report.hangs += 1;
            self.report.losses += u64::from(!self.oracle.is_lost());
            self.report.faults += 1;
            self.log.add(now, Step::GivenUp { point });
            let result = self.oracle.end(point, &Err(lost(GIVEN_UP)));
            self.check(result);
        }
    }
}

impl Pending {
    /// Fault that the plan gives the block. Its message must arrive at the caller.
    fn planned_fault(&self) -> Option<Fault> {
        let StreamPoint { stream, sequence } = self.point;
        let why = || format!("planned for block {sequence} of stream {}", stream.0).into();
        match (self.fault?, &self.block) {
            (BlockFault::Data, ControlBlock::Launch { .. }) => {
                Some(Fault::IndexOutOfRange { operand: 0, dimension: 0, index: -1, size: sequence })
            }
            (BlockFault::Data | BlockFault::ShortCopy, _) => Some(Fault::CopyFailed { why: why() }),
            (BlockFault::Structural, ControlBlock::Launch { program, .. }) => {
                Some(Fault::BadProgram { program: *program, why: why() })
            }
            (BlockFault::Structural, block) => {
                let range = block.ranges().into_iter().flatten().next()?;
                Some(Fault::IllegalAccess { range })
            }
            (BlockFault::Loss, _) => Some(Fault::DeviceLost { why: why() }),
            (BlockFault::Hang | BlockFault::HangForever, _) => None,
        }
    }
}

pub(crate) fn lost(why: &str) -> Fault {
    Fault::DeviceLost { why: why.into() }
}

/// A fault in a word, for the log.
pub(crate) fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(()) => "done",
        Err(Fault::CopyFailed { .. }) => "copy failed",
        Err(Fault::IndexOutOfRange { .. }) => "index out of range",
        Err(Fault::CallbackFailed { .. }) => "callback failed",
        Err(Fault::ExternalWorkFailed { .. }) => "external work failed",
        Err(Fault::BadProgram { .. }) => "bad program",
        Err(Fault::IllegalAccess { .. }) => "illegal access",
        Err(Fault::Hung { .. }) => "hung",
        Err(Fault::DeviceLost { .. }) => "device lost",
        Err(_) => "another fault",
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World(seed {})", self.settings.seed)
    }
}

impl World {
    /// A function of the host has its turn.
    pub(crate) fn call_back(&self, point: StreamPoint, callback: Callback) {
        let mut state = self.state();
        let started = state.oracle.run(point);
        state.check(started);
        let planned = format!("planned for block {}", point.sequence);
        let outcome = match callback {
            Callback::Works => Ok(()),
            Callback::Fails => Err(Fault::CallbackFailed { message: planned.into() }),
            Callback::Panics => {
                let message = format!("it panicked: {planned}").into();
                Err(Fault::CallbackFailed { message })
            }
        };
        state.report.faults += u64::from(outcome.is_err());
        state.log.add(self.now(), Step::Ended { engine: u16::MAX, point, outcome: name(&outcome) });
        let ended = state.oracle.end(point, &outcome);
        state.check(ended);
    }

    /// Reports a deadlock: a caller waits, and nothing can happen any more.
    pub(crate) fn deadlock(&self) -> ! {
        let mut state = self.state();
        state.check(Err(Violation::new(
            Promise::NoDeadlock,
            "deadlock: nothing can happen any more",
        )));
        let mut violation = state.violation.clone().expect("just noted");
        violation.seed = self.settings.seed;
        violation.tail = state.log.tail();
        drop(state);
        std::panic::resume_unwind(Box::new(violation));
    }
}
