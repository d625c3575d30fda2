use std::sync::Arc;

use spyre_flex::{ControlBlockStream, MemoryUse};
use spyre_hal::StreamPoint;

use super::{Arguments, Checked, Mode, Round, check_group, plain_block};
use crate::instance::{Instance, Scratch};
use crate::plan::loaded_plan::LoadedPlan;
use crate::words::intermediate_sizes;
use crate::{Error, Operation, SpyreStream, SpyreTensor};

/// Launches that are put together once and queued as often as one likes, as one reservation: a
/// [`ControlBlockStream`] of Operations.
///
/// It belongs to a stream, and has instances of its own of the plans that it launches, so that other
/// launches do not change its programs. It does not keep the tensors' memory: a replay after that was
/// freed is refused.
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
    launches: Vec<Launch>,
}

/// A plan that a composition launches.
#[derive(Debug)]
struct Launch {
    instance: Instance,
    /// The code.
    _loaded: Arc<LoadedPlan>,
}

impl Composition {
    /// An empty composition for a stream.
    pub fn new(stream: &SpyreStream) -> Self {
        let blocks = ControlBlockStream::new();
        Self { stream: stream.clone(), blocks, launches: Vec::new() }
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
        let mut blocks = self.blocks.clone();
        let arguments = Arguments { tensors, scalars };
        let checked =
            check_group(&self.stream, std::slice::from_ref(operation), arguments, Mode::Tiled)?;
        let launch = match checked {
            None => {
                for step in operation.steps() {
                    blocks.append(plain_block(step)?.ok_or(Error::NoCompute)?)?;
                }
                None
            }
            Some(checked) => Some(self.compose(&mut blocks, operation, arguments, checked)?),
        };
        self.blocks = blocks;
        self.launches.extend(launch);
        Ok(())
    }

    /// Ends the composing.
    pub fn finalize(&mut self) -> Result<(), Error> {
        Ok(self.blocks.finalize()?)
    }

    /// Queues all blocks, as one.
    pub fn replay(&self) -> Result<StreamPoint, Error> {
        for launch in &self.launches {
            if !launch.instance.load().is_ready_on(&self.stream)? {
                return Err(Error::CompositionGone);
            }
        }
        let point = self.blocks.replay(self.stream.flex())?;
        for launch in &self.launches {
            launch.instance.scratch().batch.set_last(point);
        }
        if self.stream.device().launches_wait() {
            self.stream.synchronize()?;
        }
        Ok(point)
    }

    fn compose(
        &self,
        blocks: &mut ControlBlockStream,
        operation: &Operation,
        arguments: Arguments<'_>,
        checked: Checked<'_>,
    ) -> Result<Launch, Error> {
        let stream = &self.stream;
        let compute = operation.compute().ok_or(Error::NoCompute)?;
        let Checked { definition, fit, loaded } = checked;
        let loaded = definition.ready_on(stream, loaded)?.shared();
        let instance = loaded.new_instance(stream)?;
        let made = {
            let Scratch { words, batch, .. } = &mut *instance.scratch();
            let sizes = intermediate_sizes(definition, &fit);
            words.hold_intermediates(definition, &sizes, stream, None)?;
            batch.begin_to_take();
            let step = &instance.steps()[compute.step()];
            let round = Round { stream, operation, compute, step };
            round.queue(definition, &fit, words, arguments, batch)?;
            batch.take()
        };
        let uses: Vec<MemoryUse> = arguments
            .tensors
            .iter()
            .enumerate()
            .map(|(at, tensor)| MemoryUse {
                range: tensor.memory().range(),
                access: definition.access(at, tensor),
            })
            .collect();
        for block in made {
            blocks.append_using(block, &uses)?;
        }
        Ok(Launch { instance, _loaded: loaded })
    }
}
