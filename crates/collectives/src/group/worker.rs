//! Collectives of a group, as the thread that carries them out sees them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::far_ranks::FarRanks;
use super::group_state::{GroupState, NumberedCall, QueuedCall};
use super::local_call::{BlockScratch, LocalCall, is_small};
use super::local_ranks::{CallWaiter, LONG_SPIN, LocalRanks};
use super::running_calls::EndedCall;
use crate::Error;

/// Collectives of a group, carried out in their order by the thread that holds this.
pub(super) struct Worker {
    state: Arc<GroupState>,
    ranks: LocalRanks,
    /// Ranks on other machines, if there are any.
    far: Option<Arc<FarRanks>>,
    /// Time that each collective takes longer.
    latency: Duration,
    scratch: BlockScratch,
    /// Collectives that have begun, or that were queued with one.
    current: VecDeque<CurrentCall>,
    /// Number of the queued call that ended the group.
    failed: Option<u64>,
    /// True once the group is closed or has failed.
    pub(super) is_over: bool,
}

/// Collective whose turn has come, as a part of a queued call.
struct CurrentCall {
    queued: u64,
    part: NumberedCall,
    arrival: Option<Arrival>,
}

/// Round in which all ranks post a call, once this one has.
#[derive(Clone, Copy)]
struct Arrival {
    round: u64,
    deadline: Instant,
}

/// Point to which a caller came.
pub(super) enum Advance {
    /// A call is over.
    Ended(EndedCall),
    /// The next call waits for other ranks to reach a round.
    Round(u64),
    /// The next call is to be carried out by the group's thread.
    Work,
    Nothing,
}

impl Worker {
    pub(super) fn new(
        state: Arc<GroupState>,
        ranks: LocalRanks,
        far: Option<Arc<FarRanks>>,
        latency: Duration,
    ) -> Self {
        Self {
            state,
            ranks,
            far,
            latency,
            scratch: BlockScratch::default(),
            current: VecDeque::new(),
            failed: None,
            is_over: false,
        }
    }

    /// Runs `work`. An error or a panic is the end of the group: then it returns the calls that fail with it.
    pub(super) fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
        otherwise: T,
    ) -> (T, Vec<EndedCall>) {
        if self.is_over {
            return (otherwise, Vec::new());
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        match result.unwrap_or_else(|_| Err(self.ranks.panicked())) {
            Ok(value) => (value, Vec::new()),
            Err(error) => (otherwise, self.fail(&error)),
        }
    }

    /// Carries calls out until there is nothing left to do. It waits for other ranks.
    pub(super) fn work(&mut self) -> Result<(), Error> {
        loop {
            self.state.check_end()?;
            if let Some(current) = self.current.pop_front() {
                self.carry_out(current)?;
                continue;
            }
            let (next, is_closed) = {
                let mut queue = self.state.queue.lock();
                (queue.collectives.take_next(), queue.is_closing && !queue.has_messenger)
            };
            if let Some(call) = next {
                if let Some(ended) = self.begin(call) {
                    ended.report();
                }
            } else if is_closed {
                let group = self.state.name.clone();
                let reason = "this rank has shut it down".into();
                return Err(Error::Closed { group, reason });
            } else {
                return Ok(());
            }
        }
    }

    /// Carries the next collective out, as far as that takes no time. It waits for other ranks for `patience`, and only
    /// if the call is over soon then.
    pub(super) fn advance(&mut self, patience: Duration) -> Result<Advance, Error> {
        self.state.check_end()?;
        if self.far.is_some() || !self.latency.is_zero() {
            let is_next =
                !self.current.is_empty() || self.state.queue.lock().collectives.has_ready();
            return Ok(if is_next { Advance::Work } else { Advance::Nothing });
        }
        if self.current.is_empty() {
            let next = self.state.queue.lock().collectives.take_next();
            let Some(call) = next else { return Ok(Advance::Nothing) };
            if let Some(ended) = self.begin(call) {
                return Ok(Advance::Ended(ended));
            }
        }
        while let Some(mut current) = self.current.pop_front() {
            let arrival = self.arrive(&mut current);
            let patience = if is_small(&current.part.call) { patience } else { Duration::ZERO };
            if !self.ranks.spin_for(arrival.round, patience) {
                self.current.push_front(current);
                return Ok(Advance::Round(arrival.round));
            }
            if !self.ranks.all_are_small(arrival.round) {
                self.current.push_front(current);
                return Ok(Advance::Work);
            }
            if let Some(ended) = self.finish(&current, arrival)? {
                return Ok(Advance::Ended(ended));
            }
        }
        Ok(Advance::Nothing)
    }

    /// Carries the next collective out as [`advance`](Self::advance) does, but sleeps until other ranks come, at most
    /// until `end`.
    pub(super) fn advance_or_sleep(&mut self, end: Instant) -> Result<Advance, Error> {
        let left = end.saturating_duration_since(Instant::now());
        let step = self.advance(left.min(LONG_SPIN))?;
        let Advance::Round(round) = step else { return Ok(step) };
        let is_small = self.current.front().is_some_and(|current| is_small(&current.part.call));
        let left = end.saturating_duration_since(Instant::now());
        if is_small && !left.is_zero() {
            self.ranks.sleep_as_caller(round, left);
            return self.advance(Duration::ZERO);
        }
        Ok(step)
    }

    /// Has the group's thread wake once all ranks have reached a round. Returns false if they have.
    pub(super) fn wakes_at(&self, round: u64) -> bool {
        self.ranks.wake_at(round)
    }

    /// Begins a queued call. One without parts is over.
    fn begin(&mut self, queued: QueuedCall) -> Option<EndedCall> {
        let QueuedCall { id, parts, .. } = queued;
        if parts.is_empty() {
            return self.state.running.finish(id, Ok(None));
        }
        let parts = parts.into_iter();
        self.current.extend(parts.map(|part| CurrentCall { queued: id, part, arrival: None }));
        None
    }

    /// Posts a call, unless that was done.
    fn arrive(&self, current: &mut CurrentCall) -> Arrival {
        if let Some(arrival) = current.arrival {
            return arrival;
        }
        let part = &current.part;
        self.state.history.start(part.record);
        self.ranks.note(part);
        let deadline = Instant::now() + part.timeout;
        let arrival = Arrival { round: LocalCall::post(&self.ranks, part), deadline };
        current.arrival = Some(arrival);
        arrival
    }

    /// Carries a collective out, on the group's thread.
    fn carry_out(&mut self, mut current: CurrentCall) -> Result<(), Error> {
        let arrival = self.arrive(&mut current);
        if let Some(ended) = self.finish(&current, arrival)? {
            ended.report();
        }
        Ok(())
    }

    /// Ends a collective that was posted; it waits for the other ranks.
    fn finish(
        &mut self,
        current: &CurrentCall,
        arrival: Arrival,
    ) -> Result<Option<EndedCall>, Error> {
        let CurrentCall { queued, part, .. } = current;
        let result = self.collective(part, arrival);
        self.state.history.end(part.record, result.as_ref().err());
        if result.is_err() {
            self.failed = Some(*queued);
        }
        result?;
        Ok(self.state.running.finish(*queued, Ok(None)))
    }

    fn collective(&mut self, part: &NumberedCall, arrival: Arrival) -> Result<(), Error> {
        let Self { ranks, far, latency, scratch, .. } = self;
        let text = || {
            let call = &part.call;
            let description = &call.description;
            let separator = if description.is_empty() { "" } else { " " };
            format!("{} #{}{separator}{description}", call.collective, part.sequence)
        };
        let Arrival { round, deadline } = arrival;
        let waiter = CallWaiter { text: &text, timeout: part.timeout, deadline };
        ranks.wait(round, &waiter)?;
        let mut call = LocalCall::new(ranks, part, &waiter, scratch, round);
        call.meet()?;
        if !latency.is_zero() {
            std::thread::sleep(*latency);
        }
        if let Some(far) = far { call.run_across(far) } else { call.run() }
    }

    /// Ends the group, if it has not failed already: other ranks hear of it. Returns the calls that are over by that.
    fn fail(&mut self, error: &Error) -> Vec<EndedCall> {
        self.is_over = true;
        let cause = self.ranks.fail(error);
        if let Some(far) = &self.far {
            far.abort();
        }
        let mut parts = {
            let mut queue = self.state.queue.lock();
            let mut parts = queue.collectives.take_all();
            if !queue.has_messenger {
                parts.extend(queue.messages.take_all());
            }
            parts
        };
        let begun =
            self.current.drain(..).map(|current| (current.queued, Some(current.part.record)));
        parts.extend(begun);
        parts.extend(self.failed.map(|queued| (queued, None)));
        self.state.fail_parts(parts, &cause)
    }
}
