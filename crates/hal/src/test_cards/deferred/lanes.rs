use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::{Completions, ControlBlock, EngineIndex, Outcome, Token};

/// A block that waits, and where.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) engine: EngineIndex,
    pub(super) token: Token,
    pub(super) block: ControlBlock,
}

/// State in which an abort found its block.
#[derive(Debug)]
pub(super) enum Found {
    Waiting(Waiting),
    Starting,
    Nothing,
}

/// The engines as they are seen from outside, and who is calling whom.
#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    completions: Option<Arc<dyn Completions>>,
    /// Threads that are inside the hardware or a report: a reset waits for them.
    callers: Vec<ThreadId>,
    /// Threads that reset. They wait neither for other threads that reset, nor for themselves.
    resetters: Vec<ThreadId>,
    is_closed: bool,
}

#[derive(Debug, Default)]
enum Lane {
    /// No block, or one that the hardware has.
    #[default]
    Idle,
    Waiting(Waiting),
    /// A block on its way into the hardware, which cannot abort it yet.
    Starting {
        token: Token,
        is_aborted: bool,
    },
}

/// While it lives, a reset waits for this thread.
pub(super) struct Call<'a>(&'a Lanes);

impl Lanes {
    pub(super) fn new(engines: u16) -> Self {
        let lanes = (0..engines).map(|_| Lane::Idle).collect();
        Self { state: Mutex::new(State { lanes, ..State::default() }), changed: Condvar::new() }
    }

    pub(super) fn connect(&self, completions: Arc<dyn Completions>) {
        let previous = self.state.lock().completions.replace(completions);
        drop(previous);
    }

    pub(super) fn call(&self) -> Call<'_> {
        self.state.lock().callers.push(thread::current().id());
        Call(self)
    }

    /// Gives the block back during a reset and after the end: it is not to wait.
    pub(super) fn put(&self, waiting: Waiting) -> Result<(), ControlBlock> {
        let mut state = self.state.lock();
        if state.is_closed || !state.resetters.is_empty() {
            return Err(waiting.block);
        }
        let lane = usize::from(waiting.engine.0);
        debug_assert!(matches!(state.lanes[lane], Lane::Idle), "engine {lane} is busy");
        state.lanes[lane] = Lane::Waiting(waiting);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes one of those that wait to start it: the caller says so again with `leave` or `report`.
    pub(super) fn take(&self, pick: usize) -> Option<Waiting> {
        let mut state = self.state.lock();
        let pick = pick.checked_rem(state.waiting())?;
        let is_waiting = |lane: &&mut Lane| matches!(lane, Lane::Waiting(_));
        let lane = state.lanes.iter_mut().filter(is_waiting).nth(pick)?;
        let waiting = lane.take_waiting()?;
        *lane = Lane::Starting { token: waiting.token, is_aborted: false };
        Some(waiting)
    }

    /// The hardware has the block now. Says whether it was to be aborted meanwhile.
    pub(super) fn leave(&self, engine: EngineIndex, token: Token) -> bool {
        let mut state = self.state.lock();
        let is_aborted = state.leave(engine, token);
        drop(state);
        self.changed.notify_all();
        is_aborted
    }

    pub(super) fn report(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let _call = self.call();
        self.leave(engine, token);
        let completions = self.state.lock().completions.clone();
        if let Some(completions) = completions {
            completions.complete(engine, token, outcome);
        }
    }

    pub(super) fn abort(&self, engine: EngineIndex, its: Token) -> Found {
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get_mut(usize::from(engine.0)) else { return Found::Nothing };
        match lane {
            Lane::Starting { token, is_aborted } if *token == its => {
                *is_aborted = true;
                Found::Starting
            }
            Lane::Waiting(waiting) if waiting.token == its => {
                lane.take_waiting().map_or(Found::Nothing, Found::Waiting)
            }
            _ => Found::Nothing,
        }
    }

    /// Begins a reset: until its end, no block waits or is started. Gives back the blocks that waited.
    pub(super) fn begin_reset(&self) -> Vec<Waiting> {
        let mut state = self.state.lock();
        state.resetters.push(thread::current().id());
        state.lanes.iter_mut().filter_map(Lane::take_waiting).collect()
    }

    pub(super) fn end_reset(&self) {
        remove_one(&mut self.state.lock().resetters);
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting()
    }

    /// Waits until a block does. False once there will be none.
    pub(super) fn wait_for_work(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.waiting() == 0 && !state.is_closed);
        !state.is_closed
    }

    /// Waits up to `patience` until no other thread is inside the hardware or a report. Returns true if
    /// so.
    pub(super) fn is_quiet_within(&self, patience: Duration) -> bool {
        self.is_true_within(patience, |state| {
            state.callers.iter().all(|caller| state.resetters.contains(caller))
        })
    }

    /// Waits up to `patience` until the block is no longer on its way into the hardware. Returns true
    /// if so.
    pub(super) fn has_left_within(
        &self,
        engine: EngineIndex,
        token: Token,
        patience: Duration,
    ) -> bool {
        self.is_true_within(patience, |state| !state.is_starting(engine, token))
    }

    fn is_true_within(&self, patience: Duration, is_true: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !is_true(state), patience);
        is_true(&state)
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.lanes.iter().filter(|lane| matches!(lane, Lane::Waiting(_))).count()
    }

    fn is_starting(&self, engine: EngineIndex, its: Token) -> bool {
        let lane = self.lanes.get(usize::from(engine.0));
        matches!(lane, Some(Lane::Starting { token, .. }) if *token == its)
    }

    /// A completion may come before its start has returned, and the next block before that: so
    /// only a lane that still has this block changes.
    fn leave(&mut self, engine: EngineIndex, token: Token) -> bool {
        if !self.is_starting(engine, token) {
            return false;
        }
        let lane = std::mem::take(&mut self.lanes[usize::from(engine.0)]);
        matches!(lane, Lane::Starting { is_aborted: true, .. })
    }
}

impl Lane {
    fn take_waiting(&mut self) -> Option<Waiting> {
        match std::mem::take(self) {
            Self::Waiting(waiting) => Some(waiting),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        remove_one(&mut self.0.state.lock().callers);
        self.0.changed.notify_all();
    }
}

/// This thread may be there more than once: a report may come in the midst of a start.
fn remove_one(threads: &mut Vec<ThreadId>) {
    let own = thread::current().id();
    if let Some(at) = threads.iter().position(|thread| *thread == own) {
        threads.swap_remove(at);
    }
}
