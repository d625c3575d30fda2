//! Ops that the card carries out: their kernels, compiled when they are first used.

mod arguments;
mod plans;

use std::cell::RefCell;
use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Launch, Place, Recipe};
use spyre::runtime::{Error, SpyreTensor, launch_kernel_with};

pub(crate) use arguments::{RawArgument, arguments_of, lists_of};

use crate::abi::{RawView, device_tensor};
use crate::cards::Card;
use crate::failure::{Failure, Kind};

thread_local! {
    /// What the calling thread is about to launch, once its results are made.
    pub(crate) static PENDING: RefCell<Recipe> = RefCell::default();
}

/// Whether ops are carried out on the card at all: `EAGER_MODE=0` says no.
pub(crate) fn is_on() -> bool {
    static IS_ON: LazyLock<bool> =
        LazyLock::new(|| std::env::var("EAGER_MODE").map_or(true, |mode| mode.trim() != "0"));
    *IS_ON
}

/// Queues all launches of a recipe on the calling thread's stream.
///
/// # Safety
/// The views' pointers are good.
#[allow(unsafe_code, reason = "views point to a tensor's own numbers")]
pub(crate) unsafe fn launch(
    card: &Card,
    recipe: &Recipe,
    arguments: &[RawArgument],
    results: &[RawView],
) -> Result<(), Failure> {
    let stream = card.current_stream()?;
    for launch in &recipe.launches {
        let plan = plans::of(card, &launch.kernel)?;
        // SAFETY: as promised.
        let tensors = unsafe { tensors(card, launch, arguments, results)? };
        match launch_kernel_with(stream, &plan, &tensors, &launch.scalars) {
            Ok(_) => {}
            // What shares memory in other ways than a kernel allows is the host's to sort out.
            Err(error @ (Error::Aliased { .. } | Error::SharedElements { .. })) => {
                return Err(Failure::new(Kind::Elsewhere, error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// # Safety
/// The views' pointers are good.
#[allow(unsafe_code, reason = "views point to a tensor's own numbers")]
unsafe fn tensors(
    card: &Card,
    launch: &Launch,
    arguments: &[RawArgument],
    results: &[RawView],
) -> Result<SmallVec<[SpyreTensor; 8]>, Failure> {
    let mut tensors = SmallVec::new();
    for operand in &launch.operands {
        let view = match operand.place {
            // SAFETY: as promised.
            Place::Argument(at) => unsafe { arguments[at].view(0) },
            // SAFETY: as promised.
            Place::Item(at, item) => unsafe { arguments[at].view(item) },
            Place::Result(at) => results.get(at),
        };
        let view = view.ok_or_else(|| Failure::runtime("a tensor of the call is missing"))?;
        // SAFETY: as promised.
        tensors.push(unsafe {
            device_tensor(card, view, &operand.size, &operand.stride, operand.offset)?
        });
    }
    Ok(tensors)
}
