//! Sends and receives of a group, carried out by a thread of their own: no collective has to wait for them, and they
//! wait for none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::far_ranks::FarRanks;
use super::far_transfers::FarTransfers;
use super::group_state::{GroupState, QueuedCall};
use super::local_ranks::LocalRanks;
use super::running_calls::EndedCall;
use super::transfers::Transfers;
use super::{IDLE_SLICE, SLICE};
use crate::{Collective, Error};

/// Thread that carries sends and receives out, and what is under way.
pub(super) struct Messenger {
    state: Arc<GroupState>,
    ranks: LocalRanks,
    transfers: Transfers,
    /// Those with ranks on other machines, if there are any.
    far: Option<(Arc<FarRanks>, FarTransfers)>,
    /// Those that ended the group: the number of the queued call of each, and its record.
    failed: Vec<(u64, u64)>,
}

impl Messenger {
    pub(super) fn new(
        state: Arc<GroupState>,
        ranks: LocalRanks,
        far: Option<Arc<FarRanks>>,
    ) -> Self {
        let far = far.map(|far| (Arc::clone(&far), FarTransfers::new(far)));
        Self { state, ranks, transfers: Transfers::default(), far, failed: Vec::new() }
    }

    /// Carries sends and receives out until the group is closed or has failed: the life of its thread.
    pub(super) fn run(mut self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        if let Err(error) = result.unwrap_or_else(|_| Err(self.ranks.panicked())) {
            self.fail(&error);
        }
        self.state.queue.lock().has_messenger = false;
        // The group's thread ends after this one.
        self.state.own.control().doorbell.ring();
    }

    fn work(&mut self) -> Result<(), Error> {
        loop {
            let rings = self.ranks.page().messages.rings();
            self.state.check_end()?;
            self.progress()?;
            let (next, is_closing) = {
                let mut queue = self.state.queue.lock();
                (queue.messages.take_next(), queue.is_closing)
            };
            let is_empty = self.is_empty();
            if let Some(call) = next {
                self.begin(call)?;
            } else if is_closing && is_empty {
                return Ok(());
            } else {
                let slice = if is_empty { IDLE_SLICE } else { SLICE };
                self.ranks.page().messages.sleep(rings, slice);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.far.as_ref().is_none_or(|(_, far)| far.is_empty())
    }

    fn begin(&mut self, queued: QueuedCall) -> Result<(), Error> {
        for part in queued.parts {
            self.state.history.start(part.record);
            let is_any = part.call.collective == Collective::ReceiveAny;
            let peer = self.ranks.place_of(part.call.root).filter(|_| !is_any);
            match &mut self.far {
                Some((_, far)) if peer.is_none() => far.start(queued.id, part)?,
                _ => self.transfers.start(queued.id, part, peer),
            }
        }
        Ok(())
    }

    fn progress(&mut self) -> Result<(), Error> {
        self.transfers.progress(&self.ranks)?;
        for transfer in self.transfers.take_finished() {
            self.end(transfer.queued, transfer.record, transfer.source_rank);
        }
        let finished = self.far.as_mut().map_or_else(Vec::new, |(_, far)| far.take_finished());
        let mut failure = None;
        for transfer in finished {
            match transfer.result {
                Ok(source) => self.end(transfer.queued, transfer.record, source),
                Err(error) => {
                    self.failed.push((transfer.queued, transfer.record));
                    failure = failure.or(Some(error));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn end(&self, queued: u64, record: u64, source: Option<usize>) {
        self.state.history.end(record, None);
        if let Some(ended) = self.state.running.finish(queued, Ok(source)) {
            ended.report();
        }
    }

    /// Ends the group, if it has not failed already: other ranks hear of it, and sends and receives fail.
    fn fail(&mut self, error: &Error) {
        let cause = self.ranks.fail(error);
        let mut parts = self.state.queue.lock().messages.take_all();
        let mut active = self.transfers.take_active();
        active.append(&mut self.failed);
        if let Some((far, transfers)) = &mut self.far {
            far.abort();
            active.extend(transfers.stop());
        }
        parts.extend(active.into_iter().map(|(id, record)| (id, Some(record))));
        self.state.fail_parts(parts, &cause).into_iter().for_each(EndedCall::report);
    }
}
