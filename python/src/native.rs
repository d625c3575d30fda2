//! Ops that the card carries out: their kernels, compiled when they are first used.

mod arguments;
mod cached_calls;
mod card_layouts;
mod plans;
mod reports;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Launch, Recipe};
use spyre::numerics::Profile;
use spyre::runtime::{
    CachedLaunch, Error, ExecutionPlan, SharedLayout, SpyreTensor, launch_kernel_with,
};

pub(crate) use arguments::{RawArgument, add_to_key, arguments_of, lists_of};
pub(crate) use cached_calls::{CachedCall, Key, Known, keep, known};
use cached_calls::{CallLaunch, CallTensor, view_at};
use card_layouts::CardLayouts;
pub(crate) use reports::register;

use crate::abi::{RawView, device_tensor};
use crate::cards::{self, Card};
use crate::failure::{Failure, Kind};
use crate::{recording, traffic, variables};

thread_local! {
    /// Call that the calling thread is about to launch, once its results are made.
    pub(crate) static PENDING: RefCell<Pending> = RefCell::default();
    /// Such a call, if it was launched before.
    pub(crate) static CACHED_CALL: RefCell<Option<Rc<CachedCall>>> = const { RefCell::new(None) };
}

/// Tensors of a launch.
type Tensors = SmallVec<[SpyreTensor; 8]>;

/// A call whose results are being made, and the key that it is to be kept by.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) recipe: Recipe,
    pub(crate) key: Option<Key>,
}

/// Returns true if ops are carried out on the card at all: not with `EAGER_MODE=0`.
pub(crate) fn is_on() -> bool {
    // A value that means nothing is refused when a card is opened.
    static IS_ON: LazyLock<bool> = LazyLock::new(|| variables::is_eager().unwrap_or(true));
    *IS_ON
}

/// Queues all launches of a recipe on the calling thread's stream. Says how the same call can be
/// carried out again, if it can and `is_kept` asks for it.
///
/// # Safety
/// The views' pointers are good.
#[allow(unsafe_code, reason = "views point to a tensor's own numbers")]
pub(crate) unsafe fn launch(
    card: &Card,
    recipe: &Recipe,
    arguments: &[RawArgument],
    results: &[RawView],
    is_kept: bool,
) -> Result<Option<SmallVec<[CallLaunch; 1]>>, Failure> {
    let stream = card.current_stream()?;
    let mut cached = is_kept.then(SmallVec::new);
    let is_card = card.device.profile() == Profile::Card;
    // SAFETY: as promised.
    let mut layouts = is_card.then(|| unsafe { CardLayouts::new(card, arguments, results) });
    for launch in &recipe.launches {
        let plan = plans::of(card, &launch.kernel)?;
        // SAFETY: as promised.
        let mut tensors = unsafe { tensors(card, launch, arguments, results)? };
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
            ) => Err(Failure::new(Kind::Unsupported, error)),
            Err(error) => Err(error.into()),
        };
        recording::noted(stream, true, || shapes(&tensors), queue)?;
        if let Some(layouts) = &mut layouts {
            layouts.commit();
        }
        cached = cached.and_then(|mut all: SmallVec<_>| {
            // SAFETY: as promised.
            all.push(unsafe { cache_launch(&plan, launch, &tensors, arguments, results)? });
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

/// # Safety
/// The views' pointers are good.
#[allow(unsafe_code, reason = "views point to a tensor's own numbers")]
unsafe fn tensors(
    card: &Card,
    launch: &Launch,
    arguments: &[RawArgument],
    results: &[RawView],
) -> Result<Tensors, Failure> {
    let mut tensors = SmallVec::new();
    for operand in &launch.operands {
        // SAFETY: as promised.
        let view = unsafe { view_at(operand.place, arguments, results) };
        let view = view.ok_or_else(|| Failure::runtime("a tensor of the call is missing"))?;
        // SAFETY: as promised.
        tensors.push(unsafe {
            device_tensor(card, view, &operand.size, &operand.stride, operand.offset)?
        });
    }
    Ok(tensors)
}

/// Keeps a launch that was made.
///
/// # Safety
/// The views' pointers are good.
#[allow(unsafe_code, reason = "views point to a tensor's own numbers")]
unsafe fn cache_launch(
    plan: &ExecutionPlan,
    launch: &Launch,
    tensors: &[SpyreTensor],
    arguments: &[RawArgument],
    results: &[RawView],
) -> Option<CallLaunch> {
    let mut places = SmallVec::new();
    let mut layouts = SmallVec::<[SharedLayout; 4]>::new();
    for operand in &launch.operands {
        // SAFETY: as promised.
        let view = unsafe { view_at(operand.place, arguments, results)? };
        let (memory, inside) = cards::memory_at(view.data as u64).ok()?;
        places.push(CallTensor { place: operand.place, inside });
        layouts.push(SharedLayout::clone(memory.layout()));
    }
    let cached = CachedLaunch::of(plan, tensors, &layouts, &launch.scalars)?;
    Some(CallLaunch { cached, tensors: places })
}
