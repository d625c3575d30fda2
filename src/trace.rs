//! Traces of a device's blocks for trace viewers: Chrome's JSON and Perfetto's own format.
//!
//! A [`Trace`] is made from the flight recorder's [`Record`]s. The recorder keeps the last
//! [`RECORDED`](spyre_flex::RECORDED) blocks of a device (4,096), so a trace holds no more than
//! these; and it knows times only where
//! [tracing](spyre_flex::Scheduler::set_tracing) was on when a block was queued. Blocks without
//! times, such as waits for events, have no span.
//!
//! Each stream is two rows. In `stream 0` a span is a block that ran; in `stream 0 queue` it is the
//! time that a block was first in line, from the start of the one before it (or when it was queued,
//! if that was later) to its own, so that spans of a row never overlap. How long it was queued in
//! all is an argument of the span. Blocks whose engine is known are shown in the engine's row, too.
//!
//! Times are counted from the first event, in the host's clock. Blocks that carry the time that
//! they would take on a real card are shown once more as the process `modelled card`, laid end to
//! end, and before each kernel what its launch takes; spans say whether their time is modelled after
//! measured kernels or [assumed](spyre_artifact::cost::ASSUMPTIONS). Together they take what
//! [`Trace::cost`] says. Handles and addresses are in no trace.
//!
//! ```
//! use spyre::runtime::{CPUTensor, SpyreTensor};
//! use spyre::trace::Trace;
//!
//! let device = spyre::device(0)?;
//! device.context().scheduler().set_tracing(true);
//! let stream = device.default_stream()?;
//! let host = CPUTensor::from_values(&[3], &[1.0_f32, 2.0, 3.0])?;
//! SpyreTensor::from_host(&stream, &host)?;
//! device.synchronize()?;
//!
//! let trace = Trace::of_device(&device);
//! assert_eq!(trace.blocks().len(), 1); // the copy
//! assert!(trace.chrome().contains(r#""ph":"X""#));
//! assert!(!trace.perfetto().is_empty());
//! # Ok::<(), spyre::OpenError>(())
//! ```

mod chrome;
mod perfetto;
mod protobuf;
mod rows;
#[cfg(test)]
mod tests;

use spyre_artifact::cost::CostBreakdown;
use spyre_flex::{Record, RecordState};
use spyre_hal::{BlockKind, EngineIndex, StreamIndex};
use spyre_runtime::{Device, DeviceIndex};

use rows::Process;

/// Blocks that a device ran, as far as its flight recorder knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    device: DeviceIndex,
    blocks: Vec<TracedBlock>,
}

/// A block of a trace. Times are nanoseconds of one clock; zero is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedBlock {
    /// Its stream.
    pub stream: StreamIndex,
    /// Its number there.
    pub sequence: u64,
    /// Kind of block.
    pub kind: BlockKind,
    /// Name of the block.
    pub name: Option<String>,
    /// Shapes of its arguments, if they are known. The flight recorder does not know them.
    pub shapes: Option<String>,
    /// State of the block.
    pub state: RecordState,
    /// Time at which it was queued.
    pub queued_at: u64,
    /// Time at which it was started.
    pub started_at: u64,
    /// Time at which it had ended.
    pub done_at: u64,
    /// Engine on which it ran. The flight recorder does not know it.
    pub engine: Option<EngineIndex>,
    /// Time that it would take on a real card, if that is modelled.
    pub modelled_nanoseconds: Option<u64>,
}

impl Trace {
    /// Trace of all blocks that a device's flight recorder holds now.
    pub fn of_device(device: &Device) -> Self {
        Self::new(device.index(), device.context().scheduler().flight_record())
    }

    /// These blocks of a device, in any order.
    pub fn new(
        device: DeviceIndex,
        blocks: impl IntoIterator<Item = impl Into<TracedBlock>>,
    ) -> Self {
        let mut blocks: Vec<TracedBlock> = blocks.into_iter().map(Into::into).collect();
        blocks.sort_by_key(|block| (block.stream.0, block.sequence));
        Self { device, blocks }
    }

    /// Its blocks, stream by stream and in the order they were queued.
    pub fn blocks(&self) -> &[TracedBlock] {
        &self.blocks
    }

    /// Time that its blocks would take on a real card.
    pub fn cost(&self) -> CostBreakdown {
        let mut cost = CostBreakdown::default();
        for block in &self.blocks {
            block.add_to(&mut cost);
        }
        cost
    }

    /// The trace event format of Chrome, which Perfetto, Speedscope and others read, too. Times are
    /// microseconds.
    pub fn chrome(&self) -> String {
        chrome::encode(&self.processes())
    }

    /// Perfetto's native format. Times are nanoseconds.
    pub fn perfetto(&self) -> Vec<u8> {
        perfetto::encode(&self.processes())
    }

    /// Several devices in one file of Chrome's format. Their times are of one clock.
    pub fn chrome_of(traces: &[Self]) -> String {
        chrome::encode(&rows::processes(traces))
    }

    /// Several devices in one file of Perfetto's format. Their times are of one clock.
    pub fn perfetto_of(traces: &[Self]) -> Vec<u8> {
        perfetto::encode(&rows::processes(traces))
    }

    fn processes(&self) -> Vec<Process> {
        rows::processes(std::slice::from_ref(self))
    }
}

impl TracedBlock {
    /// Title that viewers show.
    fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.kind.to_string())
    }

    /// Counts what it would take on a real card. Corrections are part of launches.
    pub fn add_to(&self, cost: &mut CostBreakdown) {
        match self.modelled_nanoseconds {
            Some(nanoseconds) if self.is_kernel() => cost.add_kernel(nanoseconds),
            Some(nanoseconds) if self.kind == BlockKind::External => {
                cost.add_collective(nanoseconds);
            }
            Some(nanoseconds) => cost.add_copy(nanoseconds),
            None => {}
        }
    }

    /// Returns true if its time on a real card is that of a kernel.
    fn is_kernel(&self) -> bool {
        self.kind == BlockKind::Launch && self.modelled_nanoseconds.is_some()
    }

    /// Returns true if the time at which it ran is known.
    fn has_run(&self) -> bool {
        self.state != RecordState::Cancelled && self.started_at > 0
    }
}

impl From<Record> for TracedBlock {
    fn from(record: Record) -> Self {
        Self {
            stream: record.stream,
            sequence: record.sequence,
            kind: record.kind,
            name: record.label.name().map(|name| name.as_ref().to_owned()),
            shapes: None,
            state: record.state,
            queued_at: record.queued_at,
            started_at: record.started_at,
            done_at: record.done_at,
            engine: record.engine,
            modelled_nanoseconds: Some(record.modelled_nanoseconds).filter(|&time| time > 0),
        }
    }
}
