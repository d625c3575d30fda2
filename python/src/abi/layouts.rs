//! Layouts that a program chooses.

use std::ffi::c_void;
use std::sync::Arc;

use spyre::layout::SpyreTensorLayout;
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    MemoryView, SharedLayout, StorageLayout, TensorMemory, copy_on_device, shared_custom_layout,
    shared_layout,
};

use super::entry;
use super::memory::shared;
use super::view::{RawView, Shape, bytes_of};
use crate::cards;
use crate::failure::Failure;
use crate::handed;

entry! {
    /// Takes a layout that Python handed over, for a tensor of this shape.
    fn spyre_take_layout(number: i64, view: *const RawView, layout: *mut *const StorageLayout) {
        let given = handed::take::<SpyreTensorLayout>(number)?;
        // SAFETY: the shim gives a view that it filled.
        let shape = unsafe { (*view).shape()? };
        let found = for_shape(&given, &shape)?;
        // SAFETY: the shim gives the address of a pointer.
        unsafe { *layout = Arc::into_raw(found) };
        Ok(())
    }

    /// The layout of a tensor of this shape with these dimensions in sticks.
    fn spyre_stick_layout(
        view: *const RawView,
        dims: *const i64,
        count: i64,
        layout: *mut *const StorageLayout,
    ) {
        // SAFETY: the shim gives a view that it filled.
        let shape = unsafe { (*view).shape()? };
        let count = count as usize;
        // SAFETY: the shim gives so many numbers; of none, the address may be anything.
        let dims = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(dims, count) } };
        let rank = shape.size.len();
        let place = |&dim: &i64| crate::layouts::own_dim(dim, rank);
        let dims: Vec<usize> = dims.iter().map(place).collect::<Result<_, _>>()?;
        let format = cards::profile()?.supported_format(shape.dtype)?;
        let given = SpyreTensorLayout::with_stick_dims(shape.size, shape.stride, format, &dims)?;
        let found = for_shape(&Arc::new(given), &shape)?;
        // SAFETY: the shim gives the address of a pointer.
        unsafe { *layout = Arc::into_raw(found) };
        Ok(())
    }

    /// Hands the layout of a tensor over to Python: its own, its memory's, or what it would have.
    fn spyre_hand_layout(view: *const RawView, number: *mut i64) {
        // SAFETY: the shim gives a view that it filled, whose layout it holds.
        let view = unsafe { &*view };
        let layout = match (view.layout.is_null(), view.data as u64) {
            // SAFETY: as above.
            (false, _) => unsafe { shared(view.layout) },
            (true, 0) => {
                // SAFETY: as above.
                let shape = unsafe { view.shape()? };
                shared_layout(cards::profile()?, shape.size, shape.stride, shape.dtype)?
            }
            (true, address) => Arc::clone(cards::memory_at(address)?.0.layout()),
        };
        // SAFETY: the shim gives the address of a number.
        unsafe { *number = handed::hand(Arc::new(layout.layout().clone())) };
        Ok(())
    }

    /// Checks that a tensor's memory can be seen through a layout: one that reaches further is refused.
    fn spyre_check_reach(data: *const c_void, layout: *const StorageLayout) {
        let (memory, _) = cards::memory_at(data as u64)?;
        // SAFETY: the shim holds a count of the layout.
        let layout = unsafe { shared(layout) };
        let needed = layout.layout().device_bytes() as u64;
        let held = memory.range().bytes;
        if needed <= held {
            Ok(())
        } else {
            Err(Failure::runtime(format!(
                "the layout {} needs {needed} bytes, and the tensor's memory holds {held}",
                layout.layout()
            )))
        }
    }

    /// Moves all of a storage, as a tensor shows it, into memory with another layout. Its address
    /// stays, and so does everything that views it.
    fn spyre_relayout(view: *const RawView, layout: *const StorageLayout) {
        // SAFETY: the shim gives a view that it filled.
        let view = unsafe { &*view };
        // SAFETY: as above.
        let shape = unsafe { view.shape()? };
        let address = view.data as u64;
        let (old, inside) = cards::memory_at(address)?;
        let card = cards::card(i32::from(old.device().index().0))?;
        let reach = shape.reach_bytes() as u64;
        if inside != 0 || shape.offset != 0 || reach != old.host_bytes() {
            return Err(Failure::runtime(format!(
                "the tensor shows {reach} bytes of a storage of {}: only a tensor that is all of its \
                 storage can be laid out anew. restickify() makes a new one",
                old.host_bytes()
            )));
        }
        // SAFETY: the shim holds a count of the layout.
        let layout = unsafe { shared(layout) };
        let stream = card.current_stream()?;
        let new = Arc::new(TensorMemory::allocate(stream, layout, old.host_bytes())?);
        let of = |memory| MemoryView { memory, layout: None, elements: shape.elements() };
        copy_on_device(stream, &of(&old), &of(&new))?;
        card.statistics.free(old.device_bytes(), old.host_bytes());
        card.statistics.allocate(new.device_bytes(), new.host_bytes());
        card.memory.replace(address, new);
        Ok(())
    }
}

/// A layout for a storage that holds a tensor of this shape.
fn for_shape(layout: &Arc<SpyreTensorLayout>, shape: &Shape<'_>) -> Result<SharedLayout, Failure> {
    let profile = cards::profile()?;
    check_format(layout, shape.dtype, profile)?;
    SpyreTensorLayout::check_rank(profile, shape.size.len())?;
    if shape.offset > 0 {
        // What comes before the view has to have a place, too.
        let elements = shape.offset + shape.reach_bytes() / bytes_of(shape.dtype);
        return Ok(shared_custom_layout(layout, &[elements], &[1], shape.dtype)?);
    }
    Ok(shared_custom_layout(layout, shape.size, shape.stride, shape.dtype)?)
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
