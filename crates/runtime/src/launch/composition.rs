use std::sync::Arc;

use parking_lot::Mutex;
use spyre_flex::{ControlBlockStream, FailureEpoch, MemoryUse};
use spyre_hal::{ControlBlock, StreamIndex, StreamPoint};

use super::{Arguments, Checked, Mode, Round, check_group, plain_block};
use crate::fit::Fit;
use crate::instance::{Instance, Scratch};
use crate::loadable_plan::LoadablePlan;
use crate::plan::loaded_plan::LoadedPlan;
use crate::words::intermediate_sizes;
use crate::{Error, Operation, SpyreStream, SpyreTensor};

/// Launches that are put together once and queued as often as one likes, as one reservation: a
/// [`ControlBlockStream`] of Operations.
///
/// It belongs to a stream, and has instances of its own of the plans that it launches, so that other
/// launches do not change its programs: what one replay has corrected, the next one need not, unless tiles
/// share a program. It does not keep the tensors' memory: a replay after that was freed is refused.
///
/// ```
/// use std::sync::Arc;
/// use spyre_artifact::samples::{self, Elements};
/// use spyre_hal::NullCard;
/// use spyre_numerics::{DType, DataFormat};
/// use spyre_runtime::{Composition, Device, ExecutionPlan, SpyreTensor};
///
/// let device = Device::open(Arc::new(NullCard::new()))?; // which carries nothing out
/// let stream = device.default_stream()?;
/// let elements = Elements { dtype: DType::Float32, format: DataFormat::IeeeFp32 };
/// let plan = ExecutionPlan::from_compiler_output(samples::addition(elements, None)?)?;
/// plan.load(&stream)?;
/// let tensor = || SpyreTensor::empty(&stream, &[64, 64], DType::Float32);
/// let tensors = [tensor()?, tensor()?, tensor()?];
///
/// let mut composition = Composition::new(&stream);
/// for operation in plan.operations() {
///     composition.append(operation, &tensors, &[])?;
/// }
/// composition.finalize()?;
/// assert_eq!(composition.len(), 3); // correction inputs, correction, compute
/// for _ in 0..10 {
///     composition.replay()?;
/// }
/// stream.synchronize()?;
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Composition {
    stream: SpyreStream,
    blocks: ControlBlockStream,
    /// Blocks without corrections that hold from one replay to the next.
    again: ControlBlockStream,
    launches: Vec<Launch>,
    /// The last replay with all corrections.
    corrected: Mutex<Option<CorrectedOn>>,
}

/// A plan that a composition launches.
#[derive(Debug)]
struct Launch {
    instance: Instance,
    /// The code.
    loaded: Arc<LoadedPlan>,
    /// The last of its steps that is launched.
    step: usize,
}

/// A stream, and its failure epoch from before the corrections were queued on it.
#[derive(Clone, Copy, Debug)]
struct CorrectedOn {
    stream: StreamIndex,
    epoch: FailureEpoch,
}

impl Composition {
    /// An empty composition for a stream.
    pub fn new(stream: &SpyreStream) -> Self {
        Self {
            stream: stream.clone(),
            blocks: ControlBlockStream::new(),
            again: ControlBlockStream::new(),
            launches: Vec::new(),
            corrected: Mutex::default(),
        }
    }

    /// The stream that it is queued on.
    pub fn stream(&self) -> &SpyreStream {
        &self.stream
    }

    /// Number of its blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns true if it has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns true if it can be replayed.
    pub fn is_final(&self) -> bool {
        self.blocks.is_final()
    }

    /// Adds the blocks of an Operation, for every tile of larger tensors.
    ///
    /// Copies between host and device cannot be carried out again with the same bytes, and are refused.
    pub fn append(
        &mut self,
        operation: &Operation,
        tensors: &[SpyreTensor],
        scalars: &[u64],
    ) -> Result<(), Error> {
        self.append_in(operation, Arguments { tensors, scalars }, Mode::Tiled)
    }

    pub(crate) fn append_in(
        &mut self,
        operation: &Operation,
        arguments: Arguments<'_>,
        mode: Mode,
    ) -> Result<(), Error> {
        let checked = check_group(&self.stream, std::slice::from_ref(operation), arguments, mode)?;
        let Some(checked) = checked else {
            let mut blocks = ControlBlockStream::new();
            for step in operation.steps() {
                blocks.append(plain_block(step)?.ok_or(Error::NoCompute)?)?;
            }
            return self.extend(blocks.clone(), blocks);
        };
        self.compose(operation, arguments, checked)
    }

    /// Adds a block that uses no program, such as a copy on the device.
    pub(crate) fn append_block(&mut self, block: ControlBlock) -> Result<(), Error> {
        let mut blocks = ControlBlockStream::new();
        blocks.append(block)?;
        self.extend(blocks.clone(), blocks)
    }

    /// Ends the composing.
    pub fn finalize(&mut self) -> Result<(), Error> {
        self.blocks.finalize()?;
        Ok(self.again.finalize()?)
    }

    /// Queues all blocks, as one.
    pub fn replay(&self) -> Result<StreamPoint, Error> {
        let point = self.replay_on(&self.stream)?;
        if self.stream.device().launches_wait() {
            self.stream.synchronize()?;
        }
        Ok(point)
    }

    /// Queues all blocks on a stream, as one: those of its last replay are done, or on the same stream.
    pub(crate) fn replay_on(&self, stream: &SpyreStream) -> Result<StreamPoint, Error> {
        for launch in &self.launches {
            let is_ready = launch.loaded.is_code_ready_on(stream)?;
            if !(is_ready && launch.instance.load().is_ready_on(stream)?) {
                return Err(Error::CompositionGone);
            }
        }
        let point = match self.replay_corrected(stream)? {
            Some(point) => point,
            None => self.replay_all(stream)?,
        };
        for launch in &self.launches {
            launch.instance.scratch().batch.set_last(point);
        }
        Ok(point)
    }

    /// Queues the blocks without corrections that hold; `None` if they may not hold.
    fn replay_corrected(&self, stream: &SpyreStream) -> Result<Option<StreamPoint>, Error> {
        let corrected = *self.corrected.lock();
        match corrected.filter(|corrected| corrected.stream == stream.flex().index()) {
            Some(corrected) => {
                Ok(self.again.replay_unless_failed_since(stream.flex(), corrected.epoch)?)
            }
            None => Ok(None),
        }
    }

    fn replay_all(&self, stream: &SpyreStream) -> Result<StreamPoint, Error> {
        let epoch = stream.flex().failure_epoch();
        let point = self.blocks.replay(stream.flex())?;
        *self.corrected.lock() = Some(CorrectedOn { stream: stream.flex().index(), epoch });
        Ok(point)
    }

    fn compose(
        &mut self,
        operation: &Operation,
        arguments: Arguments<'_>,
        checked: Checked<'_>,
    ) -> Result<(), Error> {
        let stream = self.stream.clone();
        let compute = operation.compute().ok_or(Error::NoCompute)?;
        let Checked { definition, fit, loaded } = checked;
        let loaded = definition.ready_on(&stream, loaded)?.shared();
        // Steps of a plan that follow each other share its intermediates.
        let follows = |last: &mut Launch| {
            Arc::ptr_eq(&last.loaded, &loaded) && compute.step() == last.step + 1
        };
        let mut launch = match self.launches.pop_if(follows) {
            Some(last) => last,
            None => {
                let instance = loaded.new_instance(&stream)?;
                Launch { instance, loaded, step: compute.step() }
            }
        };
        let blocks = blocks_of(&launch, &stream, operation, arguments, (definition, &fit));
        if blocks.is_ok() {
            launch.step = compute.step();
        }
        self.launches.push(launch);
        let blocks = blocks?;
        let is_one_tile = operation.is_corrected() && blocks.len() == BLOCKS_OF_A_TILE;
        let again = blocks.part_from(if is_one_tile { BLOCKS_OF_A_TILE - 1 } else { 0 });
        self.extend(blocks, again)
    }

    fn extend(
        &mut self,
        blocks: ControlBlockStream,
        again: ControlBlockStream,
    ) -> Result<(), Error> {
        self.blocks.extend(blocks)?;
        Ok(self.again.extend(again)?)
    }
}

/// Correction inputs, correction, compute.
const BLOCKS_OF_A_TILE: usize = 3;

/// The blocks of an Operation, for all of its tiles.
fn blocks_of(
    launch: &Launch,
    stream: &SpyreStream,
    operation: &Operation,
    arguments: Arguments<'_>,
    (definition, fit): (&LoadablePlan, &Fit),
) -> Result<ControlBlockStream, Error> {
    let compute = operation.compute().ok_or(Error::NoCompute)?;
    let made = {
        let Scratch { words, batch, .. } = &mut *launch.instance.scratch();
        let sizes = intermediate_sizes(definition, fit);
        words.hold_intermediates(definition, &sizes, stream, None)?;
        batch.begin_to_take();
        let step = &launch.instance.steps()[compute.step()];
        let round = Round { stream, operation, compute, step };
        round.queue(definition, fit, words, arguments, batch)?;
        batch.take()
    };
    let most = stream.flex().queue_bound();
    if made.len() as u64 > most {
        let of_tiles = |blocks: u64| blocks / BLOCKS_OF_A_TILE as u64;
        let tiles = of_tiles(made.len() as u64);
        let operation = compute.name().to_owned();
        return Err(Error::TileCount { operation, tiles, most: of_tiles(most) });
    }
    let use_of = |(at, tensor): (usize, &SpyreTensor)| MemoryUse {
        range: tensor.memory().range(),
        access: definition.access(at, tensor),
    };
    let uses: Vec<MemoryUse> = arguments.tensors.iter().enumerate().map(use_of).collect();
    let mut blocks = ControlBlockStream::new();
    for block in made {
        blocks.append_using(block, &uses)?;
    }
    Ok(blocks)
}
