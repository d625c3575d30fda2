use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::history::CallHistory;
use crate::shared_memory::RankSegment;
use crate::{CallOutcome, CollectiveCall, Error};

/// Callback of a call that is over.
pub type Done = Box<dyn FnOnce(Result<CallOutcome, Error>) + Send>;

/// Parts of a group that its callers and its thread share.
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
    /// RankSegment of this rank, on whose doorbell the thread sleeps.
    pub(super) own: Arc<RankSegment>,
}

/// Calls that are not begun, in the group's order, and how the group is to end.
#[derive(Default)]
pub(super) struct CallQueue {
    pub(super) calls: VecDeque<QueuedCall>,
    pub(super) next_id: u64,
    pub(super) next_record: u64,
    pub(super) collectives: u64,
    pub(super) transfers: u64,
    /// True from the begin of a shutdown on.
    pub(super) is_closing: bool,
    /// Reason of an abort that the thread has not seen yet.
    pub(super) abort: Option<String>,
    /// First cause of failure; the queue stays empty from then on.
    pub(super) cause: Option<Error>,
}

/// Calls that were queued as one.
pub(super) struct QueuedCall {
    pub(super) id: u64,
    pub(super) parts: Vec<NumberedCall>,
    pub(super) done: Done,
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

impl QueuedCall {
    fn is_point_to_point(&self) -> bool {
        self.parts.iter().all(|part| part.call.collective.is_point_to_point())
    }
}

impl CallQueue {
    /// Takes the next call that may begin: sends and receives in their own order, all others in theirs.
    pub(super) fn take_next(&mut self) -> Option<QueuedCall> {
        let mut is_blocked = [false; 2];
        for at in 0..self.calls.len() {
            let kind = usize::from(self.calls[at].is_point_to_point());
            if self.calls[at].is_ready && !is_blocked[kind] {
                return self.calls.remove(at);
            }
            is_blocked[kind] = true;
        }
        None
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
}
