//! Flight record: the last calls of a group.

mod json;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use spyre_numerics::DataFormat;

use crate::{Collective, CollectiveCall, Error};

/// Calls that are remembered.
const MOST_RECORDS: usize = 2048;

/// State of a call in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Queued; its stream has not reached it, or calls before it are not over.
    Scheduled,
    /// Begun by the group's thread.
    Started,
    /// Over.
    Completed,
    /// Over with an error, or given up.
    Failed,
}

/// Call as the flight record keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// Number of the record.
    pub id: u64,
    /// Number among the collectives of the group, or among its sends and receives; both start at 1.
    pub sequence: u64,
    /// Operation of the call.
    pub collective: Collective,
    /// Format of the elements.
    pub format: DataFormat,
    /// Reduction by its name.
    pub reduction: Option<&'static str>,
    /// Root or peer.
    pub root: usize,
    /// Elements of each input.
    pub input_elements: Vec<u64>,
    /// Elements of each output.
    pub output_elements: Vec<u64>,
    /// Bytes of all inputs, or of all outputs where there are no inputs.
    pub bytes: usize,
    /// State at the time of the question.
    pub state: CallState,
    /// Time at which it was queued.
    pub created: SystemTime,
    /// Time at which the group's thread began it.
    pub started: Option<SystemTime>,
    /// Time at which it was over.
    pub ended: Option<SystemTime>,
    /// Time that it has.
    pub timeout: Duration,
    /// The caller's text.
    pub description: String,
    /// Cause of its failure.
    pub error: Option<String>,
}

/// Ring of records.
#[derive(Debug, Default)]
pub(crate) struct CallHistory {
    records: Mutex<VecDeque<CallRecord>>,
}

impl CallHistory {
    pub(crate) fn add(&self, id: u64, sequence: u64, call: &CollectiveCall, timeout: Duration) {
        let elements = |buffers: &[crate::DeviceBuffer]| {
            buffers.iter().map(crate::DeviceBuffer::elements).collect()
        };
        let bytes = |buffers: &[crate::DeviceBuffer]| {
            buffers.iter().map(crate::DeviceBuffer::bytes).sum::<usize>()
        };
        let record = CallRecord {
            id,
            sequence,
            collective: call.collective,
            format: call.format,
            reduction: call.reduction.map(crate::ReduceOp::name),
            root: call.root,
            input_elements: elements(&call.inputs),
            output_elements: elements(&call.outputs),
            bytes: bytes(if call.inputs.is_empty() { &call.outputs } else { &call.inputs }),
            state: CallState::Scheduled,
            created: SystemTime::now(),
            started: None,
            ended: None,
            timeout,
            description: call.description.clone(),
            error: None,
        };
        let mut records = self.records.lock();
        if records.len() == MOST_RECORDS {
            records.pop_front();
        }
        records.push_back(record);
    }

    pub(crate) fn start(&self, id: u64) {
        self.change(id, |record| {
            record.state = CallState::Started;
            record.started = Some(SystemTime::now());
        });
    }

    pub(crate) fn end(&self, id: u64, error: Option<&Error>) {
        self.change(id, |record| {
            record.state = if error.is_some() { CallState::Failed } else { CallState::Completed };
            record.ended = Some(SystemTime::now());
            record.error = error.map(ToString::to_string);
        });
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut CallRecord)) {
        let mut records = self.records.lock();
        let first = records.front().map_or(0, |record| record.id);
        let at = id.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(record) = at.and_then(|at| records.get_mut(at)) {
            change(record);
        }
    }

    pub(crate) fn records(&self) -> Vec<CallRecord> {
        self.records.lock().iter().cloned().collect()
    }
}
