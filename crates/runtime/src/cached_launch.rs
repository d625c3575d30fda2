use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use spyre_artifact::{Binding, Operand, OperandField};
use spyre_flex::{MemoryAccess, MemoryUse};
use spyre_hal::{DeviceHandle, DeviceRange, StreamPoint};
use zerocopy::IntoBytes;

use crate::batch::with_room;
use crate::fit::Fit;
use crate::instance::{Corrected, Instance, Scratch};
use crate::loadable_plan::LoadablePlan;
use crate::tiles::Tiles;
use crate::words::{Sizes, Words, intermediate_sizes};
use crate::{
    Error, ExecutionPlan, Operation, SharedLayout, SpyreStream, SpyreTensor, TensorMemory,
};

/// A launch that was made once, to be made again with other memory that lies alike.
///
/// Everything that a launch compares and works out depends on shapes, strides, layouts and scalars
/// alone. A framework that asks for the same again and again has all of it kept here: what is left are
/// the memory's handles. It is for launches of one tile, of plans with any number of steps.
#[derive(Debug)]
pub struct CachedLaunch {
    id: u64,
    plan: Arc<LoadablePlan>,
    steps: SmallVec<[CachedStep; 1]>,
    /// Layout of each tensor's memory.
    layouts: SmallVec<[SharedLayout; 4]>,
    /// Tensors that are used, and the access to their memory.
    uses: SmallVec<[(usize, MemoryAccess); 4]>,
    /// Sizes of the plan's intermediates.
    intermediates: SmallVec<[Sizes; 1]>,
    sharing: u64,
}

/// A step of such a launch.
#[derive(Debug)]
struct CachedStep {
    /// Index among the plan's steps.
    step: usize,
    /// Input of the correction, except for the handles.
    input: Box<[u64]>,
    handles: SmallVec<[HandlePlace; 4]>,
    /// True if the launch may take many milliseconds.
    lasts: bool,
}

/// Index of the word at which an operand's handle goes.
#[derive(Clone, Copy, Debug)]
struct HandlePlace {
    word: usize,
    binding: Binding,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// More tensors have more pairs than [`CachedLaunch::sharing`] has bits.
const MOST_TENSORS: usize = 11;

impl CachedLaunch {
    /// Keeps a launch of `plan` that has been made on `stream` with `tensors`, which lie in memory of these layouts.
    /// `None` if it is not one that can be made again so.
    pub fn of(
        stream: &SpyreStream,
        plan: &ExecutionPlan,
        tensors: &[SpyreTensor],
        layouts: &[SharedLayout],
        scalars: &[u64],
    ) -> Option<Self> {
        if tensors.len() > MOST_TENSORS {
            return None;
        }
        let definition = plan.operations().first()?.compute()?.definition();
        let fit = definition.fit(stream.device(), tensors).ok()?;
        let intermediates = intermediate_sizes(definition, &fit);
        let mut words = Words::default();
        words.hold_intermediates(definition, &intermediates, stream, None).ok()?;
        let step = |operation| CachedStep::of(operation, &fit, &mut words, tensors, scalars);
        let steps: SmallVec<[CachedStep; 1]> =
            plan.operations().iter().map(step).collect::<Option<_>>()?;
        Some(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            plan: Arc::clone(definition),
            uses: uses(&steps, |tensor| definition.access(tensor, &tensors[tensor])),
            steps,
            layouts: layouts.iter().cloned().collect(),
            intermediates,
            sharing: sharing(tensors.iter().map(SpyreTensor::device_handle)),
        })
    }

    /// Makes the launch again with memory that [is alike](Self::is_alike); `None`, and nothing is
    /// queued, if it is not, if the plan is no longer on the device, or if the stream captures a graph.
    #[inline]
    pub fn launch(
        &self,
        stream: &SpyreStream,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        // A graph has programs of its own.
        if !self.is_alike(stream, memories) || stream.is_capturing() {
            return Ok(None);
        }
        tracing::debug!(
            target: "spyre.execution",
            "launch {:?} again on stream {}",
            self.plan.output().steps[self.steps[0].step].name,
            stream.id().0,
        );
        let point = with_room(stream, || self.queue(stream, memories))?;
        if point.is_some() && stream.device().launches_wait() {
            stream.synchronize()?;
        }
        Ok(point)
    }

    /// Queues it; `None`, and nothing is queued, if the plan is no longer on the device.
    #[inline]
    fn queue(
        &self,
        stream: &SpyreStream,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        let Ok(loaded) = self.plan.loaded_for(stream, "") else { return Ok(None) };
        let loaded = self.plan.ready_on(stream, loaded)?;
        let instance = loaded.instance(stream)?;
        let scratch = &mut *instance.scratch();
        let last = scratch.batch.last();
        scratch.words.hold_intermediates(&self.plan, &self.intermediates, stream, last)?;
        scratch.inputs.resize_with(self.plan.recipes().len(), Vec::new);
        scratch.batch.begin(stream);
        for &(tensor, access) in &self.uses {
            let range = memories[tensor].range();
            scratch.batch.uses(MemoryUse { range, access });
        }
        match self.correct_and_launch(stream, instance, scratch, memories) {
            // A reset took the plan or the memory away: the usual way loads anew, or says what is gone.
            Err(Error::Flex(spyre_flex::Error::BadHandle { .. })) => Ok(None),
            queued => queued,
        }
    }

    /// Launches the programs. If this cached launch corrected them last, only handles that changed are corrected;
    /// if another launch may have done so, or if the stream has failed since, all words are.
    #[inline]
    fn correct_and_launch(
        &self,
        stream: &SpyreStream,
        instance: &Instance,
        scratch: &mut Scratch,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        if let Some(known) = scratch.corrected.take_if(|known| known.by == self.id) {
            self.push(stream, instance, scratch, memories, true)?;
            let point = scratch.batch.flush_unless_failed_since(stream, known.epoch)?;
            if point.is_some() {
                scratch.corrected = Some(known);
                return Ok(point);
            }
        }
        scratch.corrected = None;
        let epoch = stream.flex().failure_epoch();
        self.push(stream, instance, scratch, memories, false)?;
        let point = scratch.batch.flush(stream)?;
        scratch.corrected = Some(Corrected { by: self.id, epoch });
        Ok(point)
    }

    /// Adds the blocks of all steps.
    #[inline]
    fn push(
        &self,
        stream: &SpyreStream,
        instance: &Instance,
        scratch: &mut Scratch,
        memories: &[Arc<TensorMemory>],
        is_corrected: bool,
    ) -> Result<(), Error> {
        let Scratch { words, batch, inputs, .. } = scratch;
        let handle = |binding| match binding {
            Binding::Tensor(tensor) => Some(memories[tensor as usize].range().handle),
            Binding::Intermediate(at) => words.intermediate(at),
        };
        for cached in &self.steps {
            let input = &mut inputs[cached.step];
            let recipe = &self.plan.recipes()[cached.step];
            let step = &instance.steps()[cached.step];
            if let (Some(changed), Some(correction)) =
                (cached.fill(input, is_corrected, handle), step.correction())
            {
                let target = part_of(correction.input, &changed);
                let part = (input[changed].as_bytes(), target);
                step.push_correction(batch, stream, recipe, correction, part)?;
            }
            step.push_launch(batch, stream, recipe, cached.lasts)?;
        }
        Ok(())
    }

    /// Returns true if memory has the layouts of the first launch, and the same tensors share it.
    #[inline]
    pub fn is_alike(&self, stream: &SpyreStream, memories: &[Arc<TensorMemory>]) -> bool {
        let is_alike = |(memory, layout): (&Arc<TensorMemory>, &SharedLayout)| {
            memory.device().is(stream.device()) && is_same(memory.layout(), layout)
        };
        memories.len() == self.layouts.len()
            && memories.iter().zip(&self.layouts).all(is_alike)
            && sharing(memories.iter().map(|memory| memory.range().handle)) == self.sharing
    }
}

impl CachedStep {
    fn of(
        operation: &Operation,
        fit: &Fit,
        words: &mut Words,
        tensors: &[SpyreTensor],
        scalars: &[u64],
    ) -> Option<Self> {
        let compute = operation.compute().filter(|_| operation.is_corrected())?;
        let recipe = compute.recipe();
        let tiles = Tiles::new(compute.definition(), recipe, fit);
        if !recipe.is_whole_table || tiles.are_many() {
            return None;
        }
        words.fill(recipe, tensors, scalars);
        words.input(recipe, tensors, &tiles);
        let place = |(at, binding)| HandlePlace {
            word: recipe.table.operand_word(Operand(at as u8), OperandField::Handle(0)),
            binding,
        };
        let bindings = recipe.operands.iter().map(|operand| operand.binding).enumerate();
        Some(Self {
            step: compute.step(),
            input: words.table().into(),
            handles: bindings.map(place).collect(),
            lasts: tiles.lasts(),
        })
    }

    /// Brings a correction's input up to date; the words from the first to the last that changed, if some did.
    #[inline]
    fn fill(
        &self,
        input: &mut Vec<u64>,
        is_corrected: bool,
        handle: impl Fn(Binding) -> Option<DeviceHandle>,
    ) -> Option<Range<usize>> {
        if !is_corrected {
            input.clear();
            input.extend_from_slice(&self.input);
        }
        let mut changed: Option<Range<usize>> = None;
        for &HandlePlace { word, binding } in &self.handles {
            let Some(handle) = handle(binding) else { continue };
            let handle = handle.to_words();
            let place = word..word + handle.len();
            let words = &mut input[place.clone()];
            if *words != handle {
                words.copy_from_slice(&handle);
                let first = changed.map_or(place.start, |before| before.start);
                changed = Some(first..place.end);
            }
        }
        if is_corrected { changed } else { Some(0..input.len()) }
    }
}

/// The tensors of steps, in the order of the operands of the only step, so that the card finds the operands that
/// the scheduler has checked.
fn uses(
    steps: &[CachedStep],
    access: impl Fn(usize) -> MemoryAccess,
) -> SmallVec<[(usize, MemoryAccess); 4]> {
    let mut uses = SmallVec::<[(usize, MemoryAccess); 4]>::new();
    for place in steps.iter().flat_map(|step| &step.handles) {
        if let Binding::Tensor(tensor) = place.binding {
            let tensor = tensor as usize;
            if steps.len() == 1 || uses.iter().all(|&(known, _)| known != tensor) {
                uses.push((tensor, access(tensor)));
            }
        }
    }
    uses
}

/// Device range of some of a correction's words.
fn part_of(input: DeviceRange, words: &Range<usize>) -> DeviceRange {
    let bytes = |words: usize| (words * size_of::<u64>()) as u64;
    DeviceRange { offset: input.offset + bytes(words.start), bytes: bytes(words.len()), ..input }
}

#[inline]
fn is_same(left: &SharedLayout, right: &SharedLayout) -> bool {
    Arc::ptr_eq(left, right) || left.dtype() == right.dtype() && left.layout() == right.layout()
}

/// Equality of all pairs of handles, a bit for each pair.
#[inline]
fn sharing<T: PartialEq>(handles: impl Iterator<Item = T> + Clone) -> u64 {
    let mut pairs = 0;
    let mut bit = 0;
    let mut rest = handles;
    while let Some(handle) = rest.next() {
        for other in rest.clone() {
            pairs |= u64::from(handle == other) << bit;
            bit += 1;
        }
    }
    pairs
}
