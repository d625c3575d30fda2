use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use spyre::collectives::{
    CallOutcome, Collective, CollectiveCall, DeviceBuffer, Error, ProcessGroup, ReduceOp,
};
use spyre::flex::MemoryUse;
use spyre::hal::{Completion, ExternalWork, Label};
use spyre::numerics::DataFormat;

use super::rows::{TensorRow, format_of};
use super::{duration, list, text};
use crate::abi::{SpyreView, dtype_of};
use crate::cards;
use crate::failure::{Failure, SpyreStatus};

/// A collective of tensors that lie in one row each.
#[repr(C)]
pub struct GroupCall<'a> {
    collective: i32,
    dtype: i32,
    reduction: i32,
    root: i32,
    tag: u32,
    factor: f64,
    inputs: *const SpyreView<'a>,
    input_count: usize,
    outputs: *const SpyreView<'a>,
    output_count: usize,
    milliseconds: i64,
    description: *const c_char,
}

/// Callback about the end of calls: `why` is null if all went well.
pub(crate) type CallEnded = extern "C" fn(*mut c_void, why: *const c_char, source_rank: i32);

/// Duty to report the end of calls, once.
pub(crate) struct Ended {
    ended: CallEnded,
    context: *mut c_void,
    is_reported: bool,
}

// SAFETY: the other side's callback may be called by any thread, with the context that it gave.
unsafe impl Send for Ended {}

impl Ended {
    pub(crate) fn new(ended: CallEnded, context: *mut c_void) -> Self {
        Self { ended, context, is_reported: false }
    }

    fn report(mut self, outcome: &Result<CallOutcome, Error>) {
        self.is_reported = true;
        match outcome {
            Ok(outcome) => {
                let source = outcome.source_rank.map_or(-1, |rank| rank as i32);
                (self.ended)(self.context, ptr::null(), source);
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&self, why: &str) {
        let why = CString::new(why.replace('\0', "?")).unwrap_or_default();
        (self.ended)(self.context, why.as_ptr(), -1);
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if !self.is_reported {
            self.fail("it was not queued");
        }
    }
}

/// End of a call and the stream that waits for it, whichever comes first.
#[derive(Default)]
struct StreamTurn {
    completion: Option<Completion>,
    outcome: Option<Result<(), String>>,
}

/// Gives calls one place in the group's order, and has a stream (a device and its number) carry them out in its turn.
pub(crate) fn start(
    group: &Arc<ProcessGroup>,
    calls: &[GroupCall<'_>],
    (device, stream): (i32, i64),
    ended: Ended,
) -> Result<(), Failure> {
    let mut uses = Vec::new();
    let calls: Vec<CollectiveCall> =
        calls.iter().map(|call| call.engine_call(&mut uses)).collect::<Result<_, _>>()?;
    let label = calls.first().map_or("barrier", |call| call.collective.name());
    let turn = Arc::new(Mutex::new(StreamTurn::default()));
    let waiting = Arc::clone(&turn);
    let done = move |outcome: Result<CallOutcome, Error>| {
        let result = outcome.as_ref().map(drop).map_err(ToString::to_string);
        ended.report(&outcome);
        let mut turn = waiting.lock();
        let Some(completion) = turn.completion.take() else {
            turn.outcome = Some(result);
            return;
        };
        drop(turn);
        completion.complete(result);
    };
    if device < 0 {
        group.enqueue_all(calls, Box::new(done))?.ready();
        return Ok(());
    }
    let stream = cards::card(device)?.stream(stream)?;
    if stream.is_capturing() {
        return Err(Failure::new(
            SpyreStatus::Value,
            "collectives are not captured in graphs: call them between replays",
        ));
    }
    let pending = group.enqueue_all(calls, Box::new(done))?;
    let begin = move |completion: Completion| {
        let mut turn = turn.lock();
        if let Some(outcome) = turn.outcome.take() {
            drop(turn);
            return completion.complete(outcome);
        }
        turn.completion = Some(completion);
        drop(turn);
        pending.ready();
    };
    let engine = Arc::downgrade(group);
    let cancel = move || {
        if let Some(engine) = engine.upgrade() {
            engine.abort("the device was reset, or the wait was interrupted");
        }
    };
    let work = ExternalWork::new(Label::named(label), begin, cancel);
    stream.flex().external(work, &uses)?;
    Ok(())
}

impl GroupCall<'_> {
    fn engine_call(&self, uses: &mut Vec<MemoryUse>) -> Result<CollectiveCall, Failure> {
        let collective = collective_of(self.collective)?;
        let format = match collective {
            Collective::Barrier => DataFormat::UInt8,
            _ => format_of(dtype_of(self.dtype)?)?,
        };
        let mut call = CollectiveCall::new(collective, format);
        call.reduction = reduction_of(self.reduction, self.factor);
        call.root = usize::try_from(self.root).unwrap_or(0);
        call.tag = self.tag;
        call.timeout = (self.milliseconds > 0).then(|| duration(self.milliseconds));
        call.description = text(self.description);
        for view in list(self.inputs, self.input_count) {
            let row = row(view)?;
            uses.extend(row.as_ref().map(TensorRow::read));
            call.inputs.push(buffer(row.as_ref()));
        }
        for view in list(self.outputs, self.output_count) {
            let row = row(view)?;
            uses.extend(row.as_ref().map(TensorRow::written));
            call.outputs.push(buffer(row.as_ref()));
        }
        Ok(call)
    }
}

fn buffer(row: Option<&TensorRow>) -> DeviceBuffer {
    row.map_or(DeviceBuffer::EMPTY, TensorRow::buffer)
}

/// The row of a tensor; `None` for one without elements.
fn row(view: &SpyreView<'_>) -> Result<Option<TensorRow>, Failure> {
    if view.tensor()?.size.contains(&0) {
        return Ok(None);
    }
    let missing = || Failure::runtime("a tensor of a collective does not lie in one row");
    Ok(Some(TensorRow::of(view)?.ok_or_else(missing)?))
}

/// The operation of a number of the other side.
fn collective_of(number: i32) -> Result<Collective, Failure> {
    const ALL: [Collective; 12] = [
        Collective::AllReduce,
        Collective::Reduce,
        Collective::Broadcast,
        Collective::AllGather,
        Collective::Gather,
        Collective::Scatter,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Send,
        Collective::Receive,
        Collective::ReceiveAny,
        Collective::Barrier,
    ];
    let known = ALL.into_iter().find(|&collective| collective as i32 == number);
    known.ok_or_else(|| Failure::runtime(format!("there is no collective {number}")))
}

/// PyTorch's number of a reduction; a negative one is none.
fn reduction_of(number: i32, factor: f64) -> Option<ReduceOp> {
    const ALL: [ReduceOp; 8] = [
        ReduceOp::Sum,
        ReduceOp::Avg,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::BitAnd,
        ReduceOp::BitOr,
        ReduceOp::BitXor,
    ];
    let at = usize::try_from(number).ok()?;
    if at == ALL.len() { Some(ReduceOp::PremulSum(factor)) } else { ALL.get(at).copied() }
}
