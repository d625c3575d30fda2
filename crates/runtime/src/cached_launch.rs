use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use spyre_artifact::{Binding, Operand, OperandField};
use spyre_flex::{MemoryAccess, MemoryUse};
use spyre_hal::{ControlBlock, DeviceRange, StreamPoint};

use crate::batch::with_room;
use crate::instance::{Corrected, Correction, Scratch, StepInstance};
use crate::loadable_plan::LoadablePlan;
use crate::recipe::StepRecipe;
use crate::tiles::Tiles;
use crate::words::{HandlePlace, Words};
use crate::{Error, ExecutionPlan, SharedLayout, SpyreStream, SpyreTensor, TensorMemory};

/// A launch that was made once, to be made again with other memory that lies alike.
///
/// Everything that a launch compares and works out depends on shapes, strides, layouts and scalars
/// alone. A framework that asks for the same again and again has all of it kept here: what is left are
/// the memory's handles. It is for plans of one step, in launches of one tile.
#[derive(Debug)]
pub struct CachedLaunch {
    id: u64,
    definition: Arc<LoadablePlan>,
    step: usize,
    /// Input of the correction, except for the handles.
    input: Box<[u64]>,
    handles: SmallVec<[HandlePlace; 4]>,
    /// Layout of each tensor's memory.
    layouts: SmallVec<[SharedLayout; 4]>,
    /// Access to each tensor's memory.
    accesses: SmallVec<[MemoryAccess; 4]>,
    /// True if the launch may take many milliseconds.
    lasts: bool,
    sharing: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// More tensors have more pairs than [`CachedLaunch::sharing`] has bits.
const MOST_TENSORS: usize = 11;

impl CachedLaunch {
    /// Keeps a launch of `plan` that has been made with `tensors`, which lie in memory of these layouts.
    /// `None` if it is not one that can be made again so.
    pub fn of(
        plan: &ExecutionPlan,
        tensors: &[SpyreTensor],
        layouts: &[SharedLayout],
        scalars: &[u64],
    ) -> Option<Self> {
        let [operation] = plan.operations() else { return None };
        let compute = operation.compute().filter(|_| operation.is_corrected())?;
        let definition = compute.definition();
        let recipe = compute.recipe();
        let is_plain = recipe.is_whole_table && definition.output().intermediates.is_empty();
        if !is_plain || tensors.len() > MOST_TENSORS {
            return None;
        }
        let fit = definition.fit(tensors.first()?.device(), tensors).ok()?;
        let tiles = Tiles::new(definition, recipe, &fit);
        if tiles.are_many() {
            return None;
        }
        let mut words = Words::default();
        words.fill(recipe, tensors, scalars);
        words.input(recipe, tensors, &tiles);
        let place = |(at, binding): (usize, Binding)| match binding {
            Binding::Tensor(tensor) => Some(HandlePlace {
                word: recipe.table.operand_word(Operand(at as u8), OperandField::Handle(0)),
                tensor: tensor as usize,
            }),
            Binding::Intermediate(_) => None,
        };
        let operands = recipe.operands.iter().map(|operand| operand.binding).enumerate();
        Some(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            definition: Arc::clone(definition),
            step: compute.step(),
            input: words.into_table(),
            handles: operands.map(place).collect::<Option<_>>()?,
            layouts: layouts.iter().cloned().collect(),
            accesses: tensors.iter().enumerate().map(|(at, t)| definition.access(at, t)).collect(),
            lasts: tiles.lasts(),
            sharing: sharing(tensors.iter().map(SpyreTensor::device_handle)),
        })
    }

    /// Makes the launch again with memory that [is alike](Self::is_alike); `None`, and nothing is
    /// queued, if it is not, or if the plan is no longer on the device.
    #[inline]
    pub fn launch(
        &self,
        stream: &SpyreStream,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        if !self.is_alike(stream, memories) {
            return Ok(None);
        }
        tracing::debug!(
            target: "spyre.execution",
            "launch {:?} again on stream {}",
            self.definition.output().steps[self.step].name,
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
        let Ok(loaded) = self.definition.loaded_for(stream, "") else { return Ok(None) };
        let loaded = self.definition.ready_on(stream, loaded)?;
        let instance = loaded.instance(stream)?;
        let step = &instance.steps()[self.step];
        let Some(correction) = step.correction() else { return Ok(None) };
        let scratch = &mut *instance.scratch();
        scratch.batch.begin(stream);
        // As the program's table has them, so that the card finds the operands that the scheduler has
        // checked.
        for place in &self.handles {
            let range = memories[place.tensor].range();
            scratch.batch.uses(MemoryUse { range, access: self.accesses[place.tensor] });
        }
        let queued = match self.relaunch(stream, scratch, step, correction, memories) {
            Ok(None) => self.correct(stream, scratch, step, correction, memories),
            queued => queued,
        };
        match queued {
            // A reset took the plan or the memory away: the usual way loads anew, or says what is gone.
            Err(Error::Flex(spyre_flex::Error::BadHandle { .. })) => Ok(None),
            queued => queued,
        }
    }

    /// Launches a program that was last corrected by this cached launch. For other memory, the program is
    /// first corrected with the new handles, and nothing else. `None` if another launch may have corrected it
    /// last, or if the stream has failed since.
    #[inline]
    fn relaunch(
        &self,
        stream: &SpyreStream,
        scratch: &mut Scratch,
        step: &StepInstance,
        correction: &Correction,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        let Scratch { words, batch, corrected } = scratch;
        let Some(known) = corrected.take_if(|known| known.by == self.id) else { return Ok(None) };
        if let Some(changed) = words.rename(&self.handles, memories) {
            let target = part_of(correction.input, &changed);
            batch.push(stream, stream.flex().stage(words.bytes(changed), target))?;
            batch.push(
                stream,
                ControlBlock::launch(correction.binary.handle(), self.recipe().correction_label),
            )?;
        }
        batch.push(stream, self.launch_of(step))?;
        let point = batch.flush_unless_failed_since(stream, known.epoch)?;
        *corrected = point.map(|_| known);
        Ok(point)
    }

    /// Corrects the program, and launches it.
    #[inline]
    fn correct(
        &self,
        stream: &SpyreStream,
        scratch: &mut Scratch,
        step: &StepInstance,
        correction: &Correction,
        memories: &[Arc<TensorMemory>],
    ) -> Result<Option<StreamPoint>, Error> {
        let Scratch { words, batch, corrected } = scratch;
        *corrected = None;
        let epoch = stream.flex().failure_epoch();
        let bytes = words.again(&self.input, &self.handles, memories);
        batch.push(stream, stream.flex().stage(bytes, correction.input))?;
        batch.push(
            stream,
            ControlBlock::launch(correction.binary.handle(), self.recipe().correction_label),
        )?;
        batch.push(stream, self.launch_of(step))?;
        let point = batch.flush(stream)?;
        *corrected = Some(Corrected { by: self.id, epoch });
        Ok(point)
    }

    #[inline(always)]
    fn launch_of(&self, step: &StepInstance) -> ControlBlock {
        ControlBlock::launch(step.entry().handle(), self.recipe().label).lasting(self.lasts)
    }

    #[inline]
    fn recipe(&self) -> &StepRecipe {
        &self.definition.recipes()[self.step]
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
