//! Ops that the card carries out: their kernels, compiled when they are first used.

mod arguments;
mod cached_calls;
mod card_layouts;
mod plans;
mod reports;

use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Launch, Recipe, ResultShape, part_of};
use spyre::layout::TensorView;
use spyre::numerics::Profile;
use spyre::runtime::{
    CachedLaunch, Error, ExecutionPlan, SharedLayout, SpyreStream, SpyreTensor, launch_kernel_with,
    shared_layout,
};

pub(crate) use arguments::{SpyreArgument, add_to_key, arguments_of, lists_of};
pub(crate) use cached_calls::known;
use cached_calls::{CallLaunch, CallTensor, keep, view_at};
pub(crate) use card_layouts::CardLayouts;
pub(crate) use reports::register;

use crate::abi::{NewMemory, SpyreView, device_tensor};
use crate::call_cache::Key;
use crate::cards::{self, Card};
use crate::failure::{Failure, SpyreStatus};
use crate::{recording, traffic, variables};

/// Tensors of a launch.
type Tensors = SmallVec<[SpyreTensor; 8]>;

/// Results of a call: tensors that are made for it.
#[derive(Debug, Default)]
pub(crate) struct NewTensors {
    pub(crate) shapes: SmallVec<[ResultShape; 1]>,
    pub(crate) memories: SmallVec<[NewMemory; 1]>,
}

impl NewTensors {
    /// Allocates memory for all of them.
    pub(crate) fn allocate(
        card: &'static Card,
        shapes: SmallVec<[ResultShape; 1]>,
    ) -> Result<Self, Failure> {
        Self::allocate_with(card, shapes, |_| None)
    }

    /// Allocates memory for all of them, with the layouts that are chosen for some.
    pub(crate) fn allocate_with(
        card: &'static Card,
        shapes: SmallVec<[ResultShape; 1]>,
        chosen: impl Fn(usize) -> Option<SharedLayout>,
    ) -> Result<Self, Failure> {
        let memory = |(at, shape)| {
            let tensor = tensor_of(shape);
            if tensor.is_empty() {
                return Ok(NewMemory::NONE);
            }
            let layout = match chosen(at) {
                Some(layout) => layout,
                None => {
                    let profile = card.device.profile();
                    shared_layout(profile, tensor.size, tensor.stride, tensor.dtype)?
                }
            };
            NewMemory::allocate(card, layout, tensor.reach_bytes() as u64)
        };
        let memories = shapes.iter().enumerate().map(memory).collect::<Result<_, Failure>>()?;
        Ok(Self { shapes, memories })
    }

    fn views(&self) -> SmallVec<[SpyreView<'_>; 2]> {
        (0..self.shapes.len()).map(|at| self.view(at)).collect()
    }

    /// One of them, as kernels see it.
    pub(crate) fn view(&self, at: usize) -> SpyreView<'_> {
        SpyreView::of(&tensor_of(&self.shapes[at]), self.memories[at].address())
    }
}

fn tensor_of(shape: &ResultShape) -> TensorView<'_> {
    TensorView { dtype: shape.dtype, size: &shape.size, stride: &shape.stride, offset: 0 }
}

/// Makes the results of a recipe, and queues its launches on the calling thread's stream. The call is kept by its
/// key, if there is one, to be made again.
pub(crate) fn carry_out(
    card: &'static Card,
    recipe: Recipe,
    arguments: &[SpyreArgument<'_>],
    key: Option<Key>,
) -> Result<NewTensors, Failure> {
    let made = NewTensors::allocate(card, recipe.results)?;
    let launches = launch(card, &recipe.launches, arguments, &made.views(), key.is_some())?;
    if let (Some(key), Some(launches)) = (key, launches) {
        keep(&key, &made, launches);
    }
    Ok(made)
}

/// Returns true if ops are carried out on the card at all: not with `EAGER_MODE=0`.
pub(crate) fn is_on() -> bool {
    // A value that means nothing is refused when a card is opened.
    static IS_ON: LazyLock<bool> = LazyLock::new(|| variables::is_eager().unwrap_or(true));
    *IS_ON
}

/// Queues launches on the calling thread's stream. Says how the same call can be carried out again, if it can and
/// `is_kept` asks for it.
fn launch(
    card: &Card,
    launches: &[Launch],
    arguments: &[SpyreArgument<'_>],
    results: &[SpyreView<'_>],
    is_kept: bool,
) -> Result<Option<SmallVec<[CallLaunch; 1]>>, Failure> {
    let stream = card.current_stream()?;
    let mut cached = is_kept.then(SmallVec::new);
    let is_card = card.device.profile() == Profile::Card;
    let mut layouts = is_card.then(|| CardLayouts::new(card, arguments, results));
    for launch in launches {
        let plan = plans::of(card, &launch.kernel)?;
        let mut tensors = tensors(card, launch, arguments, results)?;
        if changes_nothing(launch, &tensors) {
            // The same call with other memory has to copy.
            cached = None;
            continue;
        }
        if let Some(layouts) = &mut layouts
            && layouts.arrange(launch, &mut tensors)?
        {
            cached = None;
        }
        traffic::LAUNCHES.note();
        let queue = || match launch_kernel_with(stream, &plan, &tensors, &launch.scalars) {
            Ok(_) => Ok(()),
            // What shares memory in other ways than a kernel allows, or is stored as something else, is
            // the host's to sort out.
            Err(
                error @ (Error::Aliased { .. }
                | Error::SharedElements { .. }
                | Error::Format { .. }),
            ) => Err(Failure::new(SpyreStatus::Unsupported, error)),
            Err(error) => Err(error.into()),
        };
        recording::noted(stream, true, || shapes(&tensors), queue)?;
        if let Some(layouts) = &mut layouts {
            layouts.commit();
        }
        cached = cached.and_then(|mut all: SmallVec<_>| {
            all.push(cache_launch(stream, &plan, launch, &tensors, arguments, results)?);
            Some(all)
        });
    }
    Ok(cached)
}

/// Tensors as a trace shows them.
pub(crate) fn shapes(tensors: &[SpyreTensor]) -> String {
    let of = |tensor: &SpyreTensor| format!("{}{:?}", tensor.data_type(), tensor.shape());
    tensors.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Returns true if a launch copies a tensor to itself: ops that begin with a copy do so if they work in
/// place.
fn changes_nothing(launch: &Launch, tensors: &[SpyreTensor]) -> bool {
    let [source, target] = tensors else { return false };
    launch.kernel.is_copy()
        && source.device_handle() == target.device_handle()
        && (source.view(), source.data_type()) == (target.view(), target.data_type())
}

fn tensors(
    card: &Card,
    launch: &Launch,
    arguments: &[SpyreArgument<'_>],
    results: &[SpyreView<'_>],
) -> Result<Tensors, Failure> {
    let mut tensors = SmallVec::new();
    for operand in &launch.operands {
        let view = view_at(operand.place, arguments, results);
        let view = view.ok_or_else(|| Failure::runtime("a tensor of the call is missing"))?;
        let seen = (&operand.size[..], &operand.stride[..], operand.offset);
        tensors.push(device_tensor(card, view, part_of(view.tensor()?.dtype), seen)?);
    }
    Ok(tensors)
}

/// Keeps a launch that was made.
fn cache_launch(
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    launch: &Launch,
    tensors: &[SpyreTensor],
    arguments: &[SpyreArgument<'_>],
    results: &[SpyreView<'_>],
) -> Option<CallLaunch> {
    let mut places = SmallVec::new();
    let mut layouts = SmallVec::<[SharedLayout; 4]>::new();
    for operand in &launch.operands {
        let view = view_at(operand.place, arguments, results)?;
        let (memory, inside) = cards::memory_at(view.address()).ok()?;
        places.push(CallTensor { place: operand.place, inside });
        layouts.push(SharedLayout::clone(memory.layout()));
    }
    let cached = CachedLaunch::of(stream, plan, tensors, &layouts, &launch.scalars)?;
    Some(CallLaunch { cached, tensors: places })
}
