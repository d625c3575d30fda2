//! Ranks on other machines: messages to them, and how those fail.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use super::group_state::GroupState;
use crate::{Error, Remote};

/// Tag of messages of collectives; those of sends and receives are below.
pub(super) const COLLECTIVE_TAG: u32 = 1 << 30;

/// Ranks on other machines as one rank sees them.
pub(super) struct FarRanks {
    pub(super) state: Arc<GroupState>,
    remote: Box<dyn Remote>,
    is_aborted: AtomicBool,
}

impl FarRanks {
    pub(super) fn new(state: Arc<GroupState>, remote: Box<dyn Remote>) -> Self {
        Self { state, remote, is_aborted: AtomicBool::new(false) }
    }

    /// Ends all messages that wait.
    pub(super) fn abort(&self) {
        if !self.is_aborted.swap(true, SeqCst) {
            self.remote.abort();
        }
    }

    pub(super) fn machines(&self) -> &[Vec<usize>] {
        &self.state.machines
    }

    /// Number of the machine of a rank.
    pub(super) fn machine_of(&self, rank: usize) -> usize {
        self.machines().iter().position(|ranks| ranks.contains(&rank)).unwrap_or(0)
    }

    pub(super) fn is_far(&self, rank: usize) -> bool {
        self.machine_of(rank) != self.machine_of(self.state.rank)
    }

    /// Runs of ranks that follow each other on one machine, with the number of the machine.
    pub(super) fn runs(&self) -> Vec<(usize, Vec<usize>)> {
        let mut runs: Vec<(usize, Vec<usize>)> = Vec::new();
        for rank in 0..self.state.size {
            let machine = self.machine_of(rank);
            if let Some((last, ranks)) = runs.last_mut().filter(|(last, _)| *last == machine) {
                debug_assert_eq!(*last, machine);
                ranks.push(rank);
            } else {
                runs.push((machine, vec![rank]));
            }
        }
        runs
    }

    pub(super) fn send(&self, tag: u32, to: FarMessage<'_>, bytes: &[u8]) -> Result<(), Error> {
        let result = self.remote.send(to.peer, tag, bytes, to.deadline);
        result.map_err(|reason| self.failure(to, "send to", &reason))
    }

    pub(super) fn receive(
        &self,
        tag: u32,
        from: FarMessage<'_>,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        let result = self.remote.receive(from.peer, tag, bytes, from.deadline);
        result.map_err(|reason| self.failure(from, "receive from", &reason))
    }

    fn failure(&self, message: FarMessage<'_>, what: &str, answer: &str) -> Error {
        let name = self.state.rank_name(message.peer);
        let host = self.state.hosts.get(message.peer).map_or("unknown", String::as_str);
        let group = self.state.name.clone();
        let reason = format!("{}: {what} {name} (host {host}) failed: {answer}", message.text);
        if Instant::now() >= message.deadline {
            return Error::Timeout { group, after: *self.state.timeout.lock(), reason };
        }
        Error::Remote { group, rank: message.peer, reason }
    }
}

/// Peer, end and purpose of a message.
#[derive(Clone, Copy)]
pub(super) struct FarMessage<'a> {
    pub(super) peer: usize,
    pub(super) deadline: Instant,
    pub(super) text: &'a str,
}
