//! Layouts that a program chooses.

use std::ffi::c_void;
use std::sync::Arc;

use spyre::layout::{SpyreTensorLayout, TensorView};
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    MemoryView, SharedLayout, TensorMemory, copy_on_device, shared_custom_layout, shared_layout,
};

use super::guarded;
use super::view::{LayoutPointer, SpyreView, bytes_of};
use crate::cards;
use crate::failure::{Failure, SpyreStatus};
use crate::handover;

/// Dims of a tensor.
#[repr(C)]
pub struct SpyreDims {
    first: *const i64,
    count: i64,
}

impl SpyreDims {
    fn list(&self) -> &[i64] {
        if self.count <= 0 {
            return &[];
        }
        // SAFETY: the shim alone makes these, of so many numbers that it holds for the call.
        unsafe { std::slice::from_raw_parts(self.first, self.count as usize) }
    }
}

/// Takes a layout that Python handed over, for a tensor of this shape.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_take_layout(
    number: i64,
    view: &SpyreView<'_>,
    layout: &mut LayoutPointer,
) -> SpyreStatus {
    guarded(|| {
        let given = handover::take::<SpyreTensorLayout>(number)?;
        *layout = LayoutPointer::of(for_tensor(&given, &view.tensor()?)?);
        Ok(())
    })
}

/// The layout of a tensor of this shape with these dimensions in sticks.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_stick_layout(
    view: &SpyreView<'_>,
    dims: SpyreDims,
    layout: &mut LayoutPointer,
) -> SpyreStatus {
    guarded(|| {
        *layout = LayoutPointer::of(with_stick_dims(&view.tensor()?, dims.list())?);
        Ok(())
    })
}

/// Hands the layout of a tensor over to Python: its own, its memory's, or what it would have.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_hand_layout(view: &SpyreView<'_>, number: &mut i64) -> SpyreStatus {
    guarded(|| {
        let layout = match (view.layout().shared(), view.address()) {
            (Some(own), _) => own,
            (None, 0) => {
                let tensor = view.tensor()?;
                shared_layout(cards::profile()?, tensor.size, tensor.stride, tensor.dtype)?
            }
            (None, address) => Arc::clone(cards::memory_at(address)?.0.layout()),
        };
        *number = handover::hand(Arc::new(layout.layout().clone()));
        Ok(())
    })
}

/// Checks that a tensor's memory can be seen through a layout: one that reaches further is refused.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_check_reach(data: *const c_void, layout: LayoutPointer) -> SpyreStatus {
    guarded(|| {
        let (memory, _) = cards::memory_at(data as u64)?;
        let Some(layout) = layout.shared() else { return Ok(()) };
        let needed = layout.layout().device_bytes() as u64;
        let held = memory.range().bytes;
        if needed <= held {
            return Ok(());
        }
        Err(Failure::runtime(format!(
            "the layout {} needs {needed} bytes, and the tensor's memory holds {held}",
            layout.layout()
        )))
    })
}

/// Moves all of a storage, as a tensor shows it, into memory with another layout. Its address stays, and so does
/// everything that views it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_relayout(view: &SpyreView<'_>, layout: LayoutPointer) -> SpyreStatus {
    guarded(|| {
        let tensor = view.tensor()?;
        let address = view.address();
        let (old, inside) = cards::memory_at(address)?;
        let card = cards::card(i32::from(old.device().index().0))?;
        let reach = tensor.reach_bytes() as u64;
        if inside != 0 || tensor.offset != 0 || reach != old.host_bytes() {
            return Err(Failure::runtime(format!(
                "the tensor shows {reach} bytes of a storage of {}: only a tensor that is all of its \
                 storage can be laid out anew. restickify() makes a new one",
                old.host_bytes()
            )));
        }
        let Some(layout) = layout.shared() else { return Ok(()) };
        let stream = card.current_stream()?;
        if !old.is_replaceable(stream) {
            return Err(Failure::runtime(
                "a graph uses the tensor's memory, which cannot be laid out anew: choose the layout before the capture, \
                 or make a new tensor by restickify()",
            ));
        }
        let new = Arc::new(TensorMemory::allocate(stream, layout, old.host_bytes())?);
        let of = |memory| MemoryView { memory, layout: None, elements: tensor };
        copy_on_device(stream, &of(&old), &of(&new))?;
        card.statistics.free(old.device_bytes(), old.host_bytes());
        card.statistics.allocate(new.device_bytes(), new.host_bytes());
        card.memory.replace(address, new);
        Ok(())
    })
}

/// The layout of a tensor of this shape with these dimensions in sticks.
pub(crate) fn with_stick_dims(
    tensor: &TensorView<'_>,
    dims: &[i64],
) -> Result<SharedLayout, Failure> {
    let rank = tensor.size.len();
    let place = |&dim: &i64| crate::layouts::own_dim(dim, rank);
    let dims: Vec<usize> = dims.iter().map(place).collect::<Result<_, _>>()?;
    let format = cards::profile()?.supported_format(tensor.dtype)?;
    let layout = SpyreTensorLayout::with_stick_dims(tensor.size, tensor.stride, format, &dims)?;
    for_tensor(&Arc::new(layout), tensor)
}

/// A layout for a storage that holds a tensor of this shape.
pub(crate) fn for_tensor(
    layout: &Arc<SpyreTensorLayout>,
    tensor: &TensorView<'_>,
) -> Result<SharedLayout, Failure> {
    let profile = cards::profile()?;
    check_format(layout, tensor.dtype, profile)?;
    SpyreTensorLayout::check_rank(profile, tensor.size.len())?;
    if tensor.offset > 0 {
        // What comes before the view has to have a place, too.
        let elements = tensor.offset + tensor.reach();
        return Ok(shared_custom_layout(layout, &[elements], &[1], tensor.dtype)?);
    }
    Ok(shared_custom_layout(layout, tensor.size, tensor.stride, tensor.dtype)?)
}

/// Refuses formats that hold something else than the dtype's values.
fn check_format(layout: &SpyreTensorLayout, dtype: DType, profile: Profile) -> Result<(), Failure> {
    let expected = profile.supported_format(dtype)?;
    let given = layout.device_dtype();
    let is_cards = profile == Profile::Open && given == Profile::Card.device_format(dtype);
    if given == expected || is_cards {
        Ok(())
    } else {
        Err(Failure::runtime(format!(
            "a tensor of {} bytes per element and dtype {dtype} is stored as {expected}, and the \
             layout is for {given}: give dtype= or another layout",
            bytes_of(dtype)
        )))
    }
}
