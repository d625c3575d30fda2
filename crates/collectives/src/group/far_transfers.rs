//! Sends and receives between machines: those of one peer, direction and tag follow each other in a thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::far_ranks::{COLLECTIVE_TAG, FarMessage, FarRanks};
use super::group_state::NumberedCall;
use crate::{Collective, Error};

/// Sends and receives that have begun.
pub(super) struct FarTransfers {
    lanes: Arc<TransferLanes>,
    /// Those that are not over: the number of the queued call of each, and its record.
    active: Vec<(u64, u64)>,
}

/// Transfers that wait for those before them. A lane has a thread while it is in the map.
struct TransferLanes {
    far: Arc<FarRanks>,
    waiting: Mutex<HashMap<LaneKey, VecDeque<FarTransfer>>>,
    finished: Mutex<Vec<FinishedFarTransfer>>,
    end_of_lane: Condvar,
}

/// Peer, direction and tag.
type LaneKey = (usize, Collective, u32);

/// Send or receive that has begun.
struct FarTransfer {
    queued: u64,
    part: NumberedCall,
    deadline: Instant,
}

/// Send or receive that is over.
pub(super) struct FinishedFarTransfer {
    pub(super) queued: u64,
    pub(super) record: u64,
    /// Rank that sent, for a receive.
    pub(super) result: Result<Option<usize>, Error>,
}

impl FarTransfers {
    pub(super) fn new(far: Arc<FarRanks>) -> Self {
        let lanes = TransferLanes {
            far,
            waiting: Mutex::default(),
            finished: Mutex::default(),
            end_of_lane: Condvar::new(),
        };
        Self { lanes: Arc::new(lanes), active: Vec::new() }
    }

    /// Begins a send or a receive after those with the same peer and tag.
    pub(super) fn start(&mut self, queued: u64, part: NumberedCall) -> Result<(), Error> {
        self.active.push((queued, part.record));
        let key = (part.call.root, part.call.collective, part.call.tag);
        let deadline = Instant::now() + part.timeout;
        let transfer = FarTransfer { queued, part, deadline };
        let mut waiting = self.lanes.waiting.lock();
        if let Some(lane) = waiting.get_mut(&key) {
            lane.push_back(transfer);
            return Ok(());
        }
        waiting.insert(key, VecDeque::from([transfer]));
        let lanes = Arc::clone(&self.lanes);
        let thread = thread::Builder::new().name("spyreccl transfer".into());
        let Err(error) = thread.spawn(move || lanes.run(key)) else { return Ok(()) };
        waiting.remove(&key);
        Err(Error::System {
            what: "start of a thread for transfers".into(),
            reason: error.to_string(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Waits until no thread uses memory of a call any more, and takes those that are not over; the transport is
    /// aborted before.
    pub(super) fn stop(&mut self) -> Vec<(u64, u64)> {
        let mut waiting = self.lanes.waiting.lock();
        for lane in waiting.values_mut() {
            lane.clear();
        }
        while !waiting.is_empty() {
            self.lanes.end_of_lane.wait(&mut waiting);
        }
        std::mem::take(&mut self.active)
    }

    /// Takes what is over.
    pub(super) fn take_finished(&mut self) -> Vec<FinishedFarTransfer> {
        if self.active.is_empty() {
            return Vec::new();
        }
        let finished = std::mem::take(&mut *self.lanes.finished.lock());
        self.active.retain(|(_, record)| finished.iter().all(|one| one.record != *record));
        finished
    }
}

impl TransferLanes {
    /// Carries a lane's transfers out, until there are no more.
    fn run(&self, key: LaneKey) {
        loop {
            let mut waiting = self.waiting.lock();
            let Some(transfer) = waiting.get_mut(&key).and_then(VecDeque::pop_front) else {
                waiting.remove(&key);
                self.end_of_lane.notify_all();
                return;
            };
            drop(waiting);
            let result = transfer.carry_out(&self.far);
            let record = transfer.part.record;
            let queued = transfer.queued;
            self.finished.lock().push(FinishedFarTransfer { queued, record, result });
            self.far.state.own.control().messages.ring();
        }
    }
}

impl FarTransfer {
    /// Sends or receives: first the size and the format, then the bytes.
    fn carry_out(&self, far: &FarRanks) -> Result<Option<usize>, Error> {
        let call = &self.part.call;
        let peer = call.root;
        let text = format!("{} #{}, tag {}", call.collective, self.part.sequence, call.tag);
        let message = FarMessage { peer, deadline: self.deadline, text: &text };
        let tag = call.tag % COLLECTIVE_TAG;
        let header = |bytes: usize| {
            let words = [bytes as u64, call.format as u64];
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        if call.collective == Collective::Send {
            let input = call.inputs[0];
            far.send(tag, message, &header(input.bytes()))?;
            if input.bytes() > 0 {
                far.send(tag, message, input.read())?;
            }
            return Ok(None);
        }
        let output = call.outputs[0];
        let mut given = vec![0; 16];
        far.receive(tag, message, &mut given)?;
        if given != header(output.bytes()) {
            let (words, _) = given.as_chunks::<8>();
            let name = far.state.rank_name(peer);
            let reason = format!(
                "{name} sent {} bytes of format {}, and {text} receives {} bytes of format {} ({})",
                u64::from_le_bytes(words[0]),
                u64::from_le_bytes(words[1]),
                output.bytes(),
                call.format as u64,
                call.format.name()
            );
            return Err(Error::Mismatch { group: far.state.name.clone(), reason });
        }
        if output.bytes() > 0 {
            far.receive(tag, message, output.write())?;
        }
        Ok(Some(peer))
    }
}
