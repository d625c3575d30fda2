//! Thread of a group: it carries calls out in their order.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::far_ranks::FarRanks;
use super::far_transfers::FarTransfers;
use super::group_state::{Done, GroupState, NumberedCall, QueuedCall};
use super::local_call::{BlockScratch, LocalCall};
use super::local_ranks::{CallWaiter, LocalRanks};
use super::transfers::Transfers;
use crate::{CallOutcome, Collective, Error};

/// Sleep of a thread that waits for sends and receives: it looks at their deadlines and peers in between.
const TRANSFER_SLICE: Duration = Duration::from_millis(100);
/// Sleep of a thread that has nothing to do; a ring ends it.
const IDLE_SLICE: Duration = Duration::from_secs(60);

pub(super) struct Worker {
    state: Arc<GroupState>,
    ranks: LocalRanks,
    /// Ranks on other machines, if there are any, and messages with them.
    far: Option<(Arc<FarRanks>, FarTransfers)>,
    transfers: Transfers,
    running: RunningCalls,
    scratch: BlockScratch,
}

/// Queued calls that have begun, by their number.
#[derive(Default)]
struct RunningCalls {
    calls: HashMap<u64, RunningCall>,
}

/// Queued call that has begun: the number of its parts that are not over.
struct RunningCall {
    parts: usize,
    outcome: CallOutcome,
    done: Done,
}

impl Worker {
    pub(super) fn new(
        state: Arc<GroupState>,
        ranks: LocalRanks,
        far: Option<Arc<FarRanks>>,
    ) -> Self {
        Self {
            state,
            ranks,
            far: far.map(|far| (Arc::clone(&far), FarTransfers::new(far))),
            transfers: Transfers::default(),
            running: RunningCalls::default(),
            scratch: BlockScratch::default(),
        }
    }

    /// Works until the group is closed or has failed.
    pub(super) fn run(mut self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        let error = result.map_or_else(|_| Some(self.panicked()), Result::err);
        if let Some(error) = error {
            self.fail(&error);
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        loop {
            let rings = self.ranks.page().doorbell.rings();
            self.progress()?;
            let (next, is_closing) = {
                let mut queue = self.state.queue.lock();
                if let Some(reason) = queue.abort.clone() {
                    return Err(Error::Aborted { group: self.state.name.clone(), reason });
                }
                (queue.take_next(), queue.is_closing)
            };
            if let Some(call) = next {
                self.carry_out(call)?;
            } else if is_closing && self.has_no_transfers() {
                let group = self.state.name.clone();
                let reason = "this rank has shut it down".into();
                return Err(Error::Closed { group, reason });
            } else {
                self.rest(rings);
            }
        }
    }

    /// The error of a panic, which was printed where it happened: no caller waits for ever.
    fn panicked(&self) -> Error {
        let what = format!("group {}", self.state.name);
        Error::System { what, reason: "its thread panicked; this is a defect of the engine".into() }
    }

    fn has_no_transfers(&self) -> bool {
        let far = self.far.as_ref().is_none_or(|(_, far)| far.records.is_empty());
        far && self.transfers.is_empty()
    }

    fn rest(&self, rings: u32) {
        let slice = if self.transfers.is_empty() { IDLE_SLICE } else { TRANSFER_SLICE };
        self.ranks.page().doorbell.sleep(rings, slice);
    }

    fn progress(&mut self) -> Result<(), Error> {
        self.transfers.progress(&self.ranks)?;
        self.running.finish_transfers(&mut self.transfers, &self.state);
        let Some((_, transfers)) = &mut self.far else { return Ok(()) };
        for transfer in transfers.take_finished() {
            self.state.history.end(transfer.record, transfer.result.as_ref().err());
            self.running.finish(transfer.queued, transfer.result?);
        }
        Ok(())
    }

    fn carry_out(&mut self, queued: QueuedCall) -> Result<(), Error> {
        let QueuedCall { id, parts, done, .. } = queued;
        if parts.is_empty() {
            run_callback(done, Ok(CallOutcome::default()));
            return Ok(());
        }
        let running = RunningCall { parts: parts.len(), outcome: CallOutcome::default(), done };
        self.running.calls.insert(id, running);
        let (transfers, collectives): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.call.collective.is_point_to_point());
        for part in transfers {
            self.state.history.start(part.record);
            let is_any = part.call.collective == Collective::ReceiveAny;
            let peer = self.ranks.place_of(part.call.root).filter(|_| !is_any);
            match &mut self.far {
                Some((_, far)) if peer.is_none() => far.start(id, part)?,
                _ => self.transfers.start(id, part, peer),
            }
        }
        self.progress()?;
        for part in collectives {
            self.state.history.start(part.record);
            self.ranks.note(&part);
            let result = self.collective(&part);
            self.state.history.end(part.record, result.as_ref().err());
            result?;
            self.running.finish(id, None);
        }
        Ok(())
    }

    fn collective(&mut self, part: &NumberedCall) -> Result<(), Error> {
        let Self { state, ranks, far, transfers, running, scratch } = self;
        let text = || {
            let call = &part.call;
            let description = &call.description;
            let separator = if description.is_empty() { "" } else { " " };
            format!("{} #{}{separator}{description}", call.collective, part.sequence)
        };
        let mut meanwhile = || {
            if !transfers.is_empty() {
                transfers.progress(ranks)?;
                running.finish_transfers(transfers, state);
            }
            Ok(())
        };
        let timeout = part.timeout;
        let deadline = Instant::now() + timeout;
        let mut waiter = CallWaiter { text: &text, timeout, deadline, meanwhile: &mut meanwhile };
        let mut call = LocalCall::new(ranks, part, &mut waiter, scratch);
        if let Some((far, _)) = far { call.run_across(far) } else { call.run() }
    }

    /// Ends the group: other ranks hear of it, and calls that are not over fail.
    fn fail(&mut self, error: &Error) {
        let mut error = error.clone();
        let queued = {
            let mut queue = self.state.queue.lock();
            if let Some(reason) = queue.abort.clone().filter(|_| error.is_network()) {
                // Messages failed because they were aborted.
                error = Error::Aborted { group: self.state.name.clone(), reason };
            }
            queue.cause = Some(error.clone());
            std::mem::take(&mut queue.calls)
        };
        let error = &error;
        self.ranks.report(error);
        if let Some((far, transfers)) = &mut self.far {
            far.abort();
            transfers.stop();
            for record in &transfers.records {
                self.state.history.end(*record, Some(error));
            }
        }
        for call in queued {
            for part in &call.parts {
                self.state.history.end(part.record, Some(error));
            }
            run_callback(call.done, Err(error.clone()));
        }
        for record in self.transfers.records() {
            self.state.history.end(record, Some(error));
        }
        for (_, call) in self.running.calls.drain() {
            run_callback(call.done, Err(error.clone()));
        }
    }
}

impl RunningCalls {
    fn finish_transfers(&mut self, transfers: &mut Transfers, state: &GroupState) {
        for transfer in transfers.take_finished() {
            state.history.end(transfer.record, None);
            self.finish(transfer.queued, transfer.source_rank);
        }
    }

    /// One part of a queued call is over.
    fn finish(&mut self, id: u64, source_rank: Option<usize>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.parts -= 1;
        call.outcome.source_rank = source_rank.or(call.outcome.source_rank);
        if call.parts > 0 {
            return;
        }
        if let Some(call) = self.calls.remove(&id) {
            run_callback(call.done, Ok(call.outcome));
        }
    }
}

/// Calls back; a panic there is the callback's own matter.
fn run_callback(done: Done, result: Result<CallOutcome, Error>) {
    let _ = catch_unwind(AssertUnwindSafe(|| done(result)));
}
