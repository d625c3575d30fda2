use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::running_calls::{EndedCall, RunningCalls};
use crate::history::CallHistory;
use crate::shared_memory::RankSegment;
use crate::{CallOutcome, CollectiveCall, Error};

/// Callback of a call that is over.
pub type Done = Box<dyn FnOnce(Result<CallOutcome, Error>) + Send>;

/// Parts of a group that its callers and its threads share.
pub(super) struct GroupState {
    pub(super) name: String,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) global_ranks: Vec<usize>,
    pub(super) hosts: Vec<String>,
    /// Ranks of each machine.
    pub(super) machines: Vec<Vec<usize>>,
    pub(super) timeout: Mutex<Duration>,
    pub(super) history: CallHistory,
    pub(super) queue: Mutex<CallQueue>,
    pub(super) running: RunningCalls,
    /// Segment of this rank, on whose bells the threads sleep.
    pub(super) own: Arc<RankSegment>,
}

/// Calls that are not begun, in the group's two orders, and how the group is to end.
#[derive(Default)]
pub(super) struct CallQueue {
    pub(super) collectives: CallLane,
    /// Sends and receives.
    pub(super) messages: CallLane,
    pub(super) next_id: u64,
    pub(super) next_record: u64,
    /// True while a thread carries sends and receives out.
    pub(super) has_messenger: bool,
    /// True from the begin of a shutdown on.
    pub(super) is_closing: bool,
    /// Reason of an abort that no thread has seen yet.
    pub(super) abort: Option<String>,
    /// First cause of failure; the queue stays empty from then on.
    pub(super) cause: Option<Error>,
}

/// Calls of one order.
#[derive(Default)]
pub(super) struct CallLane {
    calls: VecDeque<QueuedCall>,
    /// Number of calls that were ever queued, for messages.
    pub(super) count: u64,
}

/// Parts of a queued call that are of one order.
pub(super) struct QueuedCall {
    pub(super) id: u64,
    pub(super) parts: Vec<NumberedCall>,
    pub(super) is_ready: bool,
}

/// Call with its numbers.
#[derive(Clone, Debug)]
pub(super) struct NumberedCall {
    pub(super) record: u64,
    pub(super) sequence: u64,
    pub(super) timeout: Duration,
    pub(super) call: CollectiveCall,
}

impl CallQueue {
    /// Gives calls one place in their orders, and its number. No calls at all have one among the collectives.
    pub(super) fn push(
        &mut self,
        mut calls: Vec<CollectiveCall>,
        timeout: Duration,
        history: &CallHistory,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let is_message = |call: &mut CollectiveCall| call.collective.is_point_to_point();
        let messages: Vec<_> = calls.extract_if(.., is_message).collect();
        let has_messages = !messages.is_empty();
        let orders =
            [(&mut self.collectives, calls, !has_messages), (&mut self.messages, messages, false)];
        for (lane, calls, also_empty) in orders {
            if calls.is_empty() && !also_empty {
                continue;
            }
            let number = |call: CollectiveCall| {
                lane.count += 1;
                let sequence = lane.count;
                let record = self.next_record;
                self.next_record += 1;
                let timeout = call.timeout.unwrap_or(timeout);
                history.add(record, sequence, &call, timeout);
                NumberedCall { record, sequence, timeout, call }
            };
            let parts = calls.into_iter().map(number).collect();
            lane.calls.push_back(QueuedCall { id, parts, is_ready: false });
        }
        id
    }
}

impl CallLane {
    /// Lets a call begin; returns true if it is here.
    pub(super) fn make_ready(&mut self, id: u64) -> bool {
        let at = self.calls.binary_search_by_key(&id, |call| call.id);
        let call = at.ok().and_then(|at| self.calls.get_mut(at));
        call.map(|call| call.is_ready = true).is_some()
    }

    /// Returns true if a call is here and has not begun.
    pub(super) fn has(&self, id: u64) -> bool {
        self.calls.binary_search_by_key(&id, |call| call.id).is_ok()
    }

    /// Returns true if the next call may begin.
    pub(super) fn has_ready(&self) -> bool {
        self.calls.front().is_some_and(|call| call.is_ready)
    }

    /// Takes the next call, if it may begin.
    pub(super) fn take_next(&mut self) -> Option<QueuedCall> {
        if self.has_ready() { self.calls.pop_front() } else { None }
    }

    /// Takes all calls: the number of each part's call, and its record. A call without parts has no record.
    pub(super) fn take_all(&mut self) -> Vec<(u64, Option<u64>)> {
        let calls = std::mem::take(&mut self.calls);
        let parts = calls.into_iter().flat_map(|QueuedCall { id, parts, .. }| {
            let without = parts.is_empty().then_some((id, None));
            without.into_iter().chain(parts.into_iter().map(move |part| (id, Some(part.record))))
        });
        parts.collect()
    }
}

impl GroupState {
    /// Names a rank in messages.
    pub(super) fn rank_name(&self, rank: usize) -> String {
        match self.global_ranks.get(rank) {
            Some(&global) if global != rank => format!("rank {rank} (global rank {global})"),
            _ => format!("rank {rank}"),
        }
    }

    /// Looks if the group has failed, or is to.
    pub(super) fn check_end(&self) -> Result<(), Error> {
        let queue = self.queue.lock();
        if let Some(cause) = &queue.cause {
            return Err(cause.clone());
        }
        queue.abort.clone().map_or(Ok(()), |reason| Err(self.aborted(reason)))
    }

    /// Notes why the group ends. Returns the first cause, and true if it is this one.
    pub(super) fn fail(&self, error: &Error) -> (Error, bool) {
        let mut queue = self.queue.lock();
        if let Some(cause) = &queue.cause {
            return (cause.clone(), false);
        }
        // Messages failed because they were aborted.
        let abort = queue.abort.clone().filter(|_| error.is_network());
        let cause = abort.map_or_else(|| error.clone(), |reason| self.aborted(reason));
        queue.cause = Some(cause.clone());
        (cause, true)
    }

    /// Ends parts of calls with the group's failure. Returns the calls that are over by that.
    pub(super) fn fail_parts(
        &self,
        parts: impl IntoIterator<Item = (u64, Option<u64>)>,
        cause: &Error,
    ) -> Vec<EndedCall> {
        let ended = parts.into_iter().filter_map(|(id, record)| {
            if let Some(record) = record {
                self.history.end(record, Some(cause));
            }
            self.running.finish(id, Err(cause.clone()))
        });
        ended.collect()
    }

    fn aborted(&self, reason: String) -> Error {
        Error::Aborted { group: self.name.clone(), reason }
    }
}
