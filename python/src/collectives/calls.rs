use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::time::Duration;
use std::{ptr, thread};

use parking_lot::Mutex;
use spyre::artifact::cost::{self, Exchange};
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

/// Time for which a caller waits for the other ranks of a call that is over soon then.
const PATIENCE: Duration = Duration::from_micros(30);

/// Time for which a thread that waits for a collective waits for the other ranks itself: then it looks for signals.
const HELP: Duration = Duration::from_millis(20);

/// A collective of tensors that lie in one row each.
#[repr(C)]
pub struct GroupCall<'a> {
    /// PyTorch's number of the operation, its `OpType`.
    operation: i32,
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
pub type CallEnded = extern "C" fn(*mut c_void, why: *const c_char, source_rank: i32);

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
    let rank = group.rank();
    let calls: Vec<CollectiveCall> =
        calls.iter().map(|call| call.engine_call(rank, &mut uses)).collect::<Result<_, _>>()?;
    let modelled = calls.iter().map(|call| modelled_nanoseconds(call, group.size())).sum();
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
        group.enqueue_all(calls, Box::new(done))?.ready_within(PATIENCE);
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
    let caller = thread::current().id();
    let begin = move |completion: Completion| {
        let mut turn = turn.lock();
        if let Some(outcome) = turn.outcome.take() {
            drop(turn);
            return completion.complete(outcome);
        }
        turn.completion = Some(completion);
        drop(turn);
        // Threads of the card have other streams to see to.
        let is_caller = thread::current().id() == caller;
        pending.ready_within(if is_caller { PATIENCE } else { Duration::ZERO });
    };
    let engine = Arc::downgrade(group);
    let cancel = move || {
        if let Some(engine) = engine.upgrade() {
            engine.abort("the device was reset, or the wait was interrupted");
        }
    };
    let work = ExternalWork::new(Label::named(label), begin, cancel).modelled(modelled);
    let engine = Arc::downgrade(group);
    let help = move || {
        if let Some(engine) = engine.upgrade() {
            engine.help(HELP);
        }
    };
    stream.flex().external_with_help(work, &uses, help)?;
    Ok(())
}

impl GroupCall<'_> {
    fn engine_call(
        &self,
        rank: usize,
        uses: &mut Vec<MemoryUse>,
    ) -> Result<CollectiveCall, Failure> {
        let collective = collective_of(self.operation)?;
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
        // A broadcast names its tensor twice: it is read on the root and written elsewhere.
        let is_broadcast = collective == Collective::Broadcast;
        let is_root = call.root == rank;
        let input_count = if is_broadcast && !is_root { 0 } else { self.input_count };
        let output_count = if is_broadcast && is_root { 0 } else { self.output_count };
        for view in list(self.inputs, input_count) {
            let row = row(view)?;
            uses.extend(row.as_ref().map(TensorRow::read));
            call.inputs.push(buffer(row.as_ref()));
        }
        for view in list(self.outputs, output_count) {
            let row = row(view)?;
            uses.extend(row.as_ref().map(TensorRow::written));
            call.outputs.push(buffer(row.as_ref()));
        }
        Ok(call)
    }
}

/// Time that a call would take among as many real cards, which is assumed.
fn modelled_nanoseconds(call: &CollectiveCall, ranks: usize) -> u64 {
    let exchange = match call.collective {
        Collective::AllReduce => Exchange::AllReduce,
        Collective::Broadcast | Collective::Reduce => Exchange::Chain,
        Collective::Send | Collective::Receive | Collective::ReceiveAny => Exchange::Message,
        Collective::Barrier => Exchange::Barrier,
        _ => Exchange::Shares,
    };
    let bytes = |buffers: &[DeviceBuffer]| buffers.iter().map(DeviceBuffer::bytes).sum::<usize>();
    let bytes = bytes(&call.inputs).max(bytes(&call.outputs));
    cost::collective(exchange, bytes as u64, ranks as u64)
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

/// The collective of PyTorch's number of an operation, its `OpType`.
fn collective_of(number: i32) -> Result<Collective, Failure> {
    Ok(match number {
        0 => Collective::Broadcast,
        1 => Collective::AllReduce,
        3 => Collective::Reduce,
        4 => Collective::AllGather,
        7 => Collective::Gather,
        8 => Collective::Scatter,
        9 => Collective::ReduceScatter,
        11 => Collective::AllToAll,
        12 => Collective::Send,
        13 => Collective::Receive,
        14 => Collective::ReceiveAny,
        15 => Collective::Barrier,
        _ => return Err(Failure::runtime(format!("there is no collective {number}"))),
    })
}

/// The reduction of PyTorch's number; others leave it alone.
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
