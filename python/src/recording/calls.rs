//! Calls of the framework, and which blocks are theirs.

use std::cell::RefCell;
use std::collections::HashMap;

use spyre::flex::Record;
use spyre::hal::StreamIndex;
use spyre::runtime::{DeviceIndex, SpyreStream};

use crate::failure::Failure;

/// A call that queued blocks.
#[derive(Clone, Debug)]
pub(crate) struct CallNote {
    device: DeviceIndex,
    stream: StreamIndex,
    /// The number of the stream's last block before it.
    before: u64,
    /// The number of its own last block.
    last: u64,
    /// The profiler's number of the op that made the call; zero if it gave none.
    pub(crate) correlation: u64,
    /// Shapes of its tensors.
    pub(crate) shapes: String,
    /// True if it launches kernels: its copies to the device are part of program corrections.
    pub(crate) is_launch: bool,
}

impl CallNote {
    /// The stream and the number of its last block there: no other call has both.
    pub(crate) fn last_block(&self) -> (DeviceIndex, StreamIndex, u64) {
        (self.device, self.stream, self.last)
    }
}

thread_local! {
    /// The profiler's numbers of the ops that the thread is in, the innermost last.
    static CORRELATIONS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The thread enters an op.
pub(crate) fn push_correlation(id: u64) {
    CORRELATIONS.with_borrow_mut(|ids| ids.push(id));
}

/// The thread leaves it.
pub(crate) fn pop_correlation() {
    CORRELATIONS.with_borrow_mut(Vec::pop);
}

/// Runs `body`, which queues blocks on a stream. A recording notes them as one call.
#[inline]
pub(crate) fn noted<T>(
    stream: &SpyreStream,
    is_launch: bool,
    shapes: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !super::is_on() {
        return body();
    }
    let before = stream.flex().last_point().sequence;
    let outcome = body()?;
    let last = stream.flex().last_point();
    let correlation = CORRELATIONS.with_borrow(|ids| ids.last().copied().unwrap_or(0));
    super::note(CallNote {
        device: stream.device().index(),
        stream: last.stream,
        before,
        last: last.sequence,
        correlation,
        shapes: shapes(),
        is_launch,
    });
    Ok(outcome)
}

/// Calls of each stream in the order of their blocks.
pub(super) type ByStream<'a> = HashMap<(u16, u16), Vec<&'a CallNote>>;

pub(super) fn by_stream(calls: &[CallNote]) -> ByStream<'_> {
    let mut streams = ByStream::new();
    for call in calls {
        streams.entry((call.device.0, call.stream.0)).or_default().push(call);
    }
    // Threads that share a stream note their calls in any order.
    streams.values_mut().for_each(|calls| calls.sort_by_key(|call| call.last));
    streams
}

pub(super) fn of_block<'a>(
    calls: &ByStream<'a>,
    device: DeviceIndex,
    record: &Record,
) -> Option<&'a CallNote> {
    let calls = calls.get(&(device.0, record.stream.0))?;
    let at = calls.partition_point(|call| call.last < record.sequence);
    calls.get(at).copied().filter(|call| call.before < record.sequence)
}
