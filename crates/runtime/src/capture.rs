use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use spyre_flex::hold_interrupts;
use spyre_hal::{ControlBlock, StreamPoint};

use crate::launch::Arguments;
use crate::{
    Composition, Error, GraphMemory, Mode, Operation, SpyreStream, SpyreTensor, TensorMemory,
};

/// Launches that a stream was given while it captured, to be queued again and again.
///
/// While a [stream captures](SpyreStream::begin_capture), launches and copies on the device are noted in place of being
/// queued, and what needs their results, such as a copy to the host, is refused. The graph keeps all memory that it uses:
/// what was allocated before the capture as it is, and what was allocated during it in a [`GraphMemory`].
///
/// ```
/// use std::sync::Arc;
/// use spyre_artifact::samples::{self, Elements};
/// use spyre_hal::NullCard;
/// use spyre_numerics::{DType, DataFormat};
/// use spyre_runtime::{Device, ExecutionPlan, GraphMemory, SpyreTensor, launch_kernel};
///
/// let device = Device::open(Arc::new(NullCard::new()))?; // which carries nothing out
/// let stream = device.default_stream()?;
/// let elements = Elements { dtype: DType::Float32, format: DataFormat::IeeeFp32 };
/// let plan = ExecutionPlan::from_compiler_output(samples::addition(elements, None)?)?;
/// plan.load(&stream)?;
/// let tensor = || SpyreTensor::empty(&stream, &[64, 64], DType::Float32);
/// let tensors = [tensor()?, tensor()?, tensor()?];
///
/// stream.begin_capture(&GraphMemory::new(device.context()))?;
/// launch_kernel(&stream, &plan, &tensors)?; // noted, not queued
/// assert!(stream.synchronize().is_err());
/// let graph = stream.end_capture()?;
/// graph.replay(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct LaunchGraph {
    parts: Vec<Composition>,
    /// Memory from before the capture.
    _memories: Vec<Arc<TensorMemory>>,
    memory: Arc<GraphMemory>,
    /// The last block of the last replay, or what the stream had when the capture ended.
    last: Mutex<StreamPoint>,
}

/// Launches of a capture so far.
#[derive(Debug, Default)]
struct CaptureParts {
    parts: Vec<Composition>,
    memories: BTreeMap<[u64; 3], Arc<TensorMemory>>,
}

/// Blocks after which a new part begins: each part has to fit a stream's queue.
const MOST_BLOCKS: usize = 1024;

impl SpyreStream {
    /// Has launches noted from now on, in place of being queued. What they allocate comes from `memory`.
    pub fn begin_capture(&self, memory: &Arc<GraphMemory>) -> Result<(), Error> {
        let slot = self.capture_slot().ok_or(Error::NoSuchStream { id: self.id().0 })?;
        if !memory.is_on(self.device().context()) {
            return Err(Error::GraphMemoryDevice { device: self.device().index() });
        }
        let _held = hold_interrupts();
        let begun = slot.begin(Box::new(CaptureParts::default()), memory);
        begun.then_some(()).ok_or(Error::Captures { stream: self.id().0 })
    }

    /// Ends the capture: the graph of what was noted.
    pub fn end_capture(&self) -> Result<LaunchGraph, Error> {
        let none = || Error::CapturesNothing { stream: self.id().0 };
        let slot = self.capture_slot().ok_or_else(none)?;
        let _held = hold_interrupts();
        let (noted, memory) = slot.end().ok_or_else(none)?;
        let noted: Box<CaptureParts> = noted.downcast().map_err(|_| none())?;
        let CaptureParts { mut parts, memories } = *noted;
        parts.iter_mut().try_for_each(Composition::finalize)?;
        let last = Mutex::new(self.flex().last_point());
        Ok(LaunchGraph { parts, _memories: memories.into_values().collect(), memory, last })
    }

    /// Notes Operations in place of queueing them; `None` if the capture has ended meanwhile.
    #[cold]
    pub(crate) fn note_launch(
        &self,
        operations: &[Operation],
        arguments: Arguments<'_>,
        mode: Mode,
    ) -> Result<Option<StreamPoint>, Error> {
        self.note(arguments.tensors.iter().map(SpyreTensor::memory), |part| {
            operations.iter().try_for_each(|operation| part.append_in(operation, arguments, mode))
        })
    }

    /// Notes a block that uses no program in place of queueing it; `None` if the capture has ended meanwhile.
    #[cold]
    pub(crate) fn note_block(
        &self,
        block: ControlBlock,
        memories: [&Arc<TensorMemory>; 2],
    ) -> Result<Option<StreamPoint>, Error> {
        self.note(memories.into_iter(), |part| part.append_block(block))
    }

    fn note<'a>(
        &self,
        memories: impl Iterator<Item = &'a Arc<TensorMemory>>,
        append: impl FnOnce(&mut Composition) -> Result<(), Error>,
    ) -> Result<Option<StreamPoint>, Error> {
        let Some(slot) = self.capture_slot() else { return Ok(None) };
        let _held = hold_interrupts();
        let mut noted = slot.noted();
        let noted = noted.as_mut().and_then(|noted| noted.downcast_mut::<CaptureParts>());
        let Some(CaptureParts { parts, memories: kept }) = noted else { return Ok(None) };
        match parts.last_mut().filter(|part| part.len() < MOST_BLOCKS) {
            Some(part) => append(part)?,
            None => {
                let mut part = Composition::new(self);
                append(&mut part)?;
                parts.push(part);
            }
        }
        let own = slot.memory();
        let is_own =
            |memory: &&Arc<TensorMemory>| own.as_ref().is_some_and(|own| memory.is_of(own));
        for memory in memories.inspect(|memory| memory.set_of_a_graph()).filter(|m| !is_own(m)) {
            let handle = memory.range().handle.to_words();
            kept.entry(handle).or_insert_with(|| Arc::clone(memory));
        }
        Ok(Some(self.flex().last_point()))
    }
}

impl LaunchGraph {
    /// Queues all that was noted, behind the last replay.
    pub fn replay(&self, stream: &SpyreStream) -> Result<StreamPoint, Error> {
        stream.refuse_in_capture("a replay of another graph")?;
        if !self.memory.is_on(stream.device().context()) {
            return Err(Error::GraphDevice { given: stream.device().index() });
        }
        let last = *self.last.lock();
        if last.stream != stream.flex().index() && !stream.flex().is_settled(last) {
            stream.flex().submit([ControlBlock::WaitEvent(last)])?;
        }
        for part in &self.parts {
            let point = part.replay_on(stream)?;
            *self.last.lock() = point;
        }
        if stream.device().launches_wait() {
            stream.synchronize()?;
        }
        Ok(*self.last.lock())
    }

    /// Number of control blocks that the first replay queues.
    pub fn blocks(&self) -> usize {
        self.parts.iter().map(Composition::len).sum()
    }
}
