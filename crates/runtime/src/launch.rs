mod composition;

use spyre_artifact::ExpectedSize;
use spyre_flex::{FlexStream, MemoryUse, hold_interrupts};
use spyre_hal::{
    ControlBlock, CopyFromDevice, CopyToDevice, DeviceHandle, DeviceRange, Label, StreamPoint,
};
use spyre_layout::{SpyreTensorLayout, View};

pub use composition::Composition;

use crate::batch::{Batch, with_room};
use crate::definition::Definition;
use crate::fit::Fit;
use crate::instance::{Correction, Instance, Scratch, StepInstance};
use crate::loadable_plan::{LoadablePlan, LoadedGuard};
use crate::tiles::Tiles;
use crate::words::{Words, intermediate_sizes};
use crate::{
    DevicePlace, Error, ExecutionPlan, HostAddress, Operation, PreProcessCompute, SpyreCompute,
    SpyreStream, SpyreTensor,
};

/// Launches a plan: the entry point for frameworks.
///
/// Tensors are compared with what the plan expects. Where they are what it was compiled for, each
/// Operation is launched once; where they are larger, once for every tile. It returns at once.
///
/// An `Err` means that nothing was queued. The exception is a launch of more than 512 tiles, which
/// is queued in parts: if the stream fails while the first ones run, the rest is refused.
pub fn launch_kernel(
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    tensors: &[SpyreTensor],
) -> Result<StreamPoint, Error> {
    launch_kernel_with(stream, plan, tensors, &[])
}

/// Like [`launch_kernel`], with the scalars that the plan's programs are given, step by step.
pub fn launch_kernel_with(
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    tensors: &[SpyreTensor],
    scalars: &[u64],
) -> Result<StreamPoint, Error> {
    launch(stream, plan.operations(), Arguments { tensors, scalars }, Mode::Tiled)
}

impl SpyreStream {
    /// Queues an Operation's blocks, for tensors that measure what it was compiled for.
    ///
    /// An Operation of a plan takes the plan's tensors, all of them. An `Err` means that nothing was
    /// queued.
    pub fn launch(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
    ) -> Result<StreamPoint, Error> {
        self.launch_with(operation, tensors, &[], Mode::Strict)
    }

    /// Queues an Operation that is one step before a compute, such as a copy.
    pub(crate) fn launch_step(&self, step: PreProcessCompute) -> Result<StreamPoint, Error> {
        self.launch(&Operation::preprocessing(vec![step]), &[])
    }

    /// Queues an Operation's blocks for every tile of tensors that are larger than what it was
    /// compiled for.
    pub fn launch_tiled(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
    ) -> Result<StreamPoint, Error> {
        self.launch_with(operation, tensors, &[], Mode::Tiled)
    }

    /// Queues an Operation's blocks with the scalars that its program is given, for every tile if need be.
    pub fn launch_with(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
        scalars: &[u64],
        mode: Mode,
    ) -> Result<StreamPoint, Error> {
        let arguments = Arguments { tensors, scalars };
        launch(self, std::slice::from_ref(operation), arguments, mode)
    }

    /// Queues an Operation's blocks, for tensors of which only the handles are given: they measure
    /// what it was compiled for, and lie as the compiler expects.
    pub fn launch_handles(
        &self,
        operation: &Operation,
        handles: &[DeviceHandle],
    ) -> Result<StreamPoint, Error> {
        let compute = operation.compute().ok_or(Error::NoCompute)?;
        let tensors: Result<Vec<_>, Error> = compute
            .tensor_metadata()
            .iter()
            .zip(handles)
            .map(|(expected, &handle)| {
                let size = |dim: &spyre_artifact::ExpectedDim| match dim.size {
                    ExpectedSize::Fixed(elements) => Ok(elements.get() as usize),
                    ExpectedSize::Any => Err(Error::NotFixed {
                        operation: compute.name().to_owned(),
                        name: dim.name.clone(),
                    }),
                };
                let shape: Vec<usize> = expected.dims.iter().map(size).collect::<Result<_, _>>()?;
                let layout = SpyreTensorLayout::contiguous(&shape, expected.format)?;
                let view = View::contiguous(&shape)?;
                SpyreTensor::at(self.device(), handle, layout, expected.dtype, view)
            })
            .collect();
        self.launch(operation, &tensors?)
    }
}

/// Tensors and scalars of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    pub(crate) tensors: &'a [SpyreTensor],
    pub(crate) scalars: &'a [u64],
}

/// Sizes of tensors that a launch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only the sizes that it was compiled for.
    Strict,
    /// All sizes that tiles can cover.
    Tiled,
}

/// Checks all Operations, then queues all of them; waits for them if the device is opened so.
pub(crate) fn launch(
    stream: &SpyreStream,
    operations: &[Operation],
    arguments: Arguments<'_>,
    mode: Mode,
) -> Result<StreamPoint, Error> {
    if stream.is_capturing()
        && let Some(point) = stream.note_launch(operations, arguments, mode)?
    {
        return Ok(point);
    }
    let point = queue(stream, operations, arguments, mode)?;
    if stream.device().launches_wait() {
        stream.synchronize()?;
    }
    Ok(point)
}

fn queue(
    stream: &SpyreStream,
    operations: &[Operation],
    arguments: Arguments<'_>,
    mode: Mode,
) -> Result<StreamPoint, Error> {
    if let [operation] = operations
        && operation.compute().is_some()
    {
        return with_room(stream, || launch_group(stream, operations, arguments, mode));
    }
    let groups = || operations.chunk_by(is_of_one_plan);
    for group in groups() {
        check_group(stream, group, arguments, mode)?;
    }
    let mut last = Err(Error::EmptyOperation);
    for group in groups() {
        last = Ok(with_room(stream, || launch_group(stream, group, arguments, mode))?);
    }
    last
}

fn is_of_one_plan(left: &Operation, right: &Operation) -> bool {
    let definition = |operation: &Operation| {
        operation.compute().map(|compute| std::sync::Arc::as_ptr(compute.definition()))
    };
    definition(left) == definition(right)
}

/// Result of checking a group of Operations.
struct Checked<'a> {
    definition: &'a LoadablePlan,
    fit: Fit,
    loaded: LoadedGuard,
}

/// Finds all that a caller can get wrong about Operations of one plan.
fn check_group<'a>(
    stream: &SpyreStream,
    operations: &'a [Operation],
    arguments: Arguments<'_>,
    mode: Mode,
) -> Result<Option<Checked<'a>>, Error> {
    let Some(compute) = operations.first().and_then(Operation::compute) else {
        operations.iter().try_for_each(check_copies)?;
        return Ok(None);
    };
    let definition = &**compute.definition();
    let loaded = definition.loaded_for(stream, compute.name())?;
    let fit = definition.fit(stream.device(), arguments.tensors)?;
    if mode == Mode::Strict {
        fit.check_strict(definition)?;
    }
    let expected = definition.scalars();
    let given = arguments.scalars.len();
    if given != expected {
        return Err(Error::ScalarCount { expected, given });
    }
    for operation in operations {
        let Some(compute) = operation.compute() else { continue };
        fit.check_tiles(definition, compute.recipe())?;
        if !operation.is_corrected() {
            check_steps(operation, compute)?;
        }
    }
    Ok(Some(Checked { definition, fit, loaded }))
}

fn check_copies(operation: &Operation) -> Result<(), Error> {
    if operation.steps().is_empty() {
        return Err(Error::EmptyOperation);
    }
    if operation.steps().iter().any(is_correction) { Err(Error::NoCompute) } else { Ok(()) }
}

fn check_steps(operation: &Operation, compute: &SpyreCompute) -> Result<(), Error> {
    for step in operation.steps() {
        if !is_correction(step) {
            continue;
        }
        let name = || compute.name().to_owned();
        if compute.correction().is_none() {
            return Err(Error::NoCorrection { operation: name() });
        }
        let expected = compute.correction_metadata().input_bytes;
        if let PreProcessCompute::CopyToDevice { size, .. } = step
            && *size != expected
        {
            return Err(Error::CorrectionBytes { operation: name(), given: *size, expected });
        }
    }
    Ok(())
}

fn is_correction(step: &PreProcessCompute) -> bool {
    let (PreProcessCompute::CopyToDevice { device_handle, .. }
    | PreProcessCompute::CopyFromDevice { device_handle, .. }
    | PreProcessCompute::DeviceLaunch { device_handle }) = step;
    let is_input = match step {
        PreProcessCompute::CopyToDevice { host_address, .. }
        | PreProcessCompute::CopyFromDevice { host_address, .. } => host_address.parts().is_none(),
        PreProcessCompute::DeviceLaunch { .. } => false,
    };
    is_input || *device_handle == DevicePlace::Correction
}

/// Queues Operations of one plan, all together.
fn launch_group(
    stream: &SpyreStream,
    operations: &[Operation],
    arguments: Arguments<'_>,
    mode: Mode,
) -> Result<StreamPoint, Error> {
    let Some(checked) = check_group(stream, operations, arguments, mode)? else {
        return launch_copies(stream, operations);
    };
    let Checked { definition, fit, loaded } = checked;
    tracing::debug!(
        target: "spyre.execution",
        "launch {:?} on stream {} with {}",
        operations.first().map_or("", Operation::name),
        stream.id().0,
        shapes(arguments.tensors),
    );
    let loaded = definition.ready_on(stream, loaded)?;
    let instance = loaded.instance(stream)?;
    let _held = hold_interrupts();
    let Scratch { words, batch, corrected, .. } = &mut *instance.scratch();
    *corrected = None;
    let sizes = intermediate_sizes(definition, &fit);
    words.hold_intermediates(definition, &sizes, stream, batch.last())?;
    batch.begin(stream);
    for (at, tensor) in arguments.tensors.iter().enumerate() {
        let access = definition.access(at, tensor);
        batch.uses(MemoryUse { range: tensor.memory().range(), access });
    }
    let mut queue = || {
        for operation in operations {
            let Some(compute) = operation.compute() else { continue };
            let round =
                Round { stream, operation, compute, step: &instance.steps()[compute.step()] };
            round.queue(definition, &fit, words, arguments, batch)?;
        }
        batch.flush(stream)
    };
    match queue() {
        Ok(Some(point)) => Ok(point),
        Ok(None) => Err(Error::EmptyOperation),
        Err(error) => Err(explain(error, definition, instance, arguments.tensors)),
    }
}

/// Data types and shapes of a launch's tensors, as text.
fn shapes(tensors: &[SpyreTensor]) -> String {
    let shape = |tensor: &SpyreTensor| format!("{}{:?}", tensor.data_type(), tensor.shape());
    tensors.iter().map(shape).collect::<Vec<_>>().join(", ")
}

fn launch_copies(stream: &SpyreStream, operations: &[Operation]) -> Result<StreamPoint, Error> {
    let steps = || operations.iter().flat_map(Operation::steps);
    tracing::debug!(target: "spyre.execution", "copies on stream {}: {}", stream.id().0, steps().count());
    let mut batch = Batch::default();
    batch.begin(stream);
    for step in steps() {
        if let Some(block) = plain_block(step)? {
            batch.push(stream, block)?;
        }
    }
    batch.flush(stream)?.ok_or(Error::EmptyOperation)
}

/// A stream that copies correction inputs ahead, to two areas.
struct CopiesAhead<'a> {
    stream: &'a FlexStream,
    corrections: [&'a Correction; 2],
}

impl CopiesAhead<'_> {
    /// Queues the copy of a tile's inputs to an area, once what was there has been read.
    fn copy(
        &self,
        area: usize,
        bytes: &[u8],
        is_read: Option<StreamPoint>,
    ) -> Result<StreamPoint, Error> {
        let copy = self.stream.stage(bytes, self.corrections[area].input);
        let is_awaited = |point: &StreamPoint| !self.stream.is_settled(*point);
        let wait = is_read.filter(is_awaited).map(ControlBlock::WaitEvent);
        let mut blocks: Vec<ControlBlock> = wait.into_iter().chain([copy]).collect();
        Ok(self.stream.submit_using(&mut blocks, &[])?)
    }
}

/// One Operation's way onto a stream.
struct Round<'a> {
    stream: &'a SpyreStream,
    operation: &'a Operation,
    compute: &'a SpyreCompute,
    step: &'a StepInstance,
}

impl Round<'_> {
    /// Queues the Operation's blocks, for each tile anew.
    fn queue(
        &self,
        definition: &Definition,
        fit: &Fit,
        words: &mut Words,
        arguments: Arguments<'_>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let recipe = self.compute.recipe();
        let mut tiles = Tiles::new(definition, recipe, fit);
        words.fill(recipe, arguments.tensors, arguments.scalars);
        if tiles.are_many()
            && !batch.is_to_take()
            && self.operation.is_corrected()
            && let [first, second] = self.step.corrections()
            && let Some(ahead) = self.stream.device().ahead(self.stream.id())?
        {
            let copies = CopiesAhead { stream: &ahead, corrections: [first, second] };
            return self.queue_tiles(&copies, words, arguments, &mut tiles, batch);
        }
        loop {
            match self.step.correction().filter(|_| self.operation.is_corrected()) {
                Some(correction) => {
                    let bytes = words.input(recipe, arguments.tensors, &tiles);
                    let input = (bytes, correction.input);
                    self.step.push_correction(batch, self.stream, recipe, correction, input)?;
                }
                None => {
                    for step in self.operation.steps() {
                        let block = self.block(step, words, arguments, &tiles)?;
                        batch.push(self.stream, block)?;
                    }
                }
            }
            self.step.push_launch(batch, self.stream, recipe, tiles.lasts())?;
            if !tiles.advance() {
                return Ok(());
            }
        }
    }

    /// Queues the Operation's blocks for each tile, with correction inputs in two areas by turns: those of the
    /// next tile are copied while this one computes.
    fn queue_tiles(
        &self,
        copies: &CopiesAhead<'_>,
        words: &mut Words,
        arguments: Arguments<'_>,
        tiles: &mut Tiles<'_>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let recipe = self.compute.recipe();
        // The blocks after which each area may be written again: at first all that the stream has so far, for
        // earlier launches read the areas, and the stream waits until they are loaded.
        let mut is_read = [Some(self.stream.flex().last_point()); 2];
        for area in [0, 1].into_iter().cycle() {
            let bytes = words.input(recipe, arguments.tensors, tiles);
            let copied = copies.copy(area, bytes, is_read[area])?;
            batch.push(self.stream, ControlBlock::WaitEvent(copied))?;
            let correction = copies.corrections[area].binary.handle();
            batch.push(self.stream, ControlBlock::launch(correction, recipe.correction_label))?;
            self.step.push_launch(batch, self.stream, recipe, tiles.lasts())?;
            let last = batch.flush(self.stream)?;
            is_read[area] = last.map(|last| StreamPoint { sequence: last.sequence - 1, ..last });
            if !tiles.advance() {
                break;
            }
        }
        Ok(())
    }

    fn block(
        &self,
        step: &PreProcessCompute,
        words: &mut Words,
        arguments: Arguments<'_>,
        tiles: &Tiles<'_>,
    ) -> Result<ControlBlock, Error> {
        if let Some(block) = plain_block(step)? {
            return Ok(block);
        }
        let recipe = self.compute.recipe();
        let missing = || Error::NoCorrection { operation: self.compute.name().to_owned() };
        let correction = self.step.correction().ok_or_else(missing)?;
        match step {
            PreProcessCompute::DeviceLaunch { .. } => {
                let program = correction.binary.handle();
                Ok(ControlBlock::launch(program, recipe.correction_label))
            }
            _ => {
                let bytes = words.input(recipe, arguments.tensors, tiles);
                Ok(self.stream.flex().stage(bytes, correction.input))
            }
        }
    }
}

/// The block of a step that is the same in every launch; `None` for those of a correction.
fn plain_block(step: &PreProcessCompute) -> Result<Option<ControlBlock>, Error> {
    let DevicePlace::At { handle, offset } = (match step {
        PreProcessCompute::CopyToDevice { device_handle, .. }
        | PreProcessCompute::CopyFromDevice { device_handle, .. }
        | PreProcessCompute::DeviceLaunch { device_handle } => *device_handle,
    }) else {
        return Ok(None);
    };
    let range = |bytes: u64| DeviceRange { handle, offset, bytes };
    let parts = |host: &HostAddress| {
        host.parts().map(|(buffer, nest)| (buffer.clone(), nest.cloned())).ok_or(Error::NoCompute)
    };
    Ok(Some(match step {
        PreProcessCompute::CopyToDevice { host_address, size, .. } => {
            let (buffer, nest) = parts(host_address)?;
            let source = buffer.lend_to_read()?;
            let target = range(*size);
            ControlBlock::CopyToDevice(Box::new(CopyToDevice { source, target, nest }))
        }
        PreProcessCompute::CopyFromDevice { host_address, size, .. } => {
            let (buffer, nest) = parts(host_address)?;
            let source = range(*size);
            let target = buffer.lend_to_write()?;
            ControlBlock::CopyFromDevice(Box::new(CopyFromDevice { source, target, nest }))
        }
        PreProcessCompute::DeviceLaunch { .. } => ControlBlock::launch(handle, Label::default()),
    }))
}

/// Says whose handle it is that was refused.
#[cold]
fn explain(
    error: Error,
    definition: &Definition,
    instance: &Instance,
    tensors: &[SpyreTensor],
) -> Error {
    let Error::Flex(cause) = error else { return error };
    let refused = match &cause {
        spyre_flex::Error::BadHandle { handle, .. }
        | spyre_flex::Error::OutOfRange { handle, .. } => *handle,
        _ => return Error::Flex(cause),
    };
    if let Some(at) = tensors.iter().position(|tensor| tensor.device_handle() == refused) {
        let tensor = definition.output().tensor_input_metadata[at].name.clone();
        return Error::Tensor { tensor, cause };
    }
    let owner = instance.steps().iter().position(|step| {
        let correction = step.correction().map(|correction| correction.binary.handle());
        step.entry().handle() == refused
            || step.code().handle() == refused
            || correction == Some(refused)
    });
    match owner {
        Some(step) => Error::PlanGone { operation: definition.output().steps[step].name.clone() },
        None => Error::Flex(cause),
    }
}
