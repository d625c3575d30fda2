//! Launches of prepared plans.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre::layout::View;
use spyre::numerics::DType;
use spyre::runtime::SpyreTensor;

use super::entry;
use super::memory::shared;
use super::view::{RawView, bytes_of};
use crate::cards::{self, Card};
use crate::failure::{Failure, Kind};
use crate::handed;
use crate::kernels::{self, Launch, PreparedPlan};
use crate::native::shapes;
use crate::recording;

/// Arguments of a launch: `SpyreLaunch` in `csrc/spyre.h`.
#[repr(C)]
pub(crate) struct RawLaunch {
    tensors: *const RawView,
    count: i64,
    scalars: *const i64,
    scalar_count: i64,
    file: *const c_char,
    line: i64,
}

entry! {
    /// A plan by its number or, if that is 0, by its folder: a count of it.
    fn spyre_find_plan(
        number: i64,
        folder: *const c_char,
        device: i32,
        plan: *mut *const PreparedPlan,
    ) {
        let found = match number {
            0 => {
                // SAFETY: the shim gives a text that ends with a zero.
                let folder = unsafe { CStr::from_ptr(folder) }.to_string_lossy();
                let device = i32::from(cards::card(device)?.index().0);
                kernels::of_folder(Path::new(&*folder), device)?
            }
            number => kernels::find(number)?,
        };
        // SAFETY: the shim gives the address of a pointer.
        unsafe { *plan = Arc::into_raw(found) };
        Ok(())
    }

    /// Hands a tensor over to Python, as plans know it.
    fn spyre_hand_tensor(view: *const RawView, number: *mut i64) {
        // SAFETY: the shim gives a view that it filled, of a tensor that it holds.
        let view = unsafe { &*view };
        let card = match view.data as u64 {
            0 => cards::card(-1)?,
            address => cards::card_of(address).map_or_else(|| cards::card(-1), Ok)?,
        };
        // SAFETY: as above.
        let tensor = unsafe { tensor(card, view)? };
        // SAFETY: the shim gives the address of a number.
        unsafe { *number = handed::hand(Arc::new(tensor)) };
        Ok(())
    }

    /// Queues a plan on the calling thread's stream, and says of each tensor whether it is written.
    fn spyre_launch(plan: *const PreparedPlan, given: *const RawLaunch, written: *mut u8) {
        // SAFETY: the shim holds a count of the plan, and fills what it gives.
        let (plan, given) = unsafe { (&*plan, &*given) };
        // SAFETY: as above.
        let views = unsafe { list(given.tensors, given.count) };
        // SAFETY: as above.
        let scalars = unsafe { list(given.scalars, given.scalar_count) };
        let card = cards::card(plan.device)?;
        let tensors: Result<SmallVec<[SpyreTensor; 8]>, Failure> =
            // SAFETY: as above; views hold what they point to.
            views.iter().map(|view| unsafe { tensor(card, view) }).collect();
        let tensors = tensors?;
        let scalars: SmallVec<[u64; 8]> = scalars.iter().map(|&word| word as u64).collect();
        let stream = card.current_stream()?;
        let before = stream.flex().last_point();
        let queue = || Ok(plan.job.launch(stream, &tensors, &scalars)?);
        let last = recording::noted(stream, true, || shapes(&tensors), queue)?;
        // SAFETY: as above: a text that ends with a zero.
        let file = kernels::kept(unsafe { CStr::from_ptr(given.file) });
        kernels::note_launch(Launch { before, last, file, line: given.line as u32 });
        let metadata = plan.job.plan().map_or(&[][..], |plan| plan.tensor_input_metadata());
        for (at, tensor) in metadata.iter().enumerate().take(views.len()) {
            // SAFETY: the shim gives room for one byte per tensor.
            unsafe { *written.add(at) = u8::from(tensor.role.is_written()) };
        }
        Ok(())
    }
}

/// Name of a plan. The caller owns the text and gives it back to `spyre_text_drop`.
#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_plan_name(plan: *const PreparedPlan) -> *mut c_char {
    // SAFETY: the caller holds a count of it.
    let name = unsafe { &*plan }.name();
    CString::new(name.replace('\0', "?")).unwrap_or_default().into_raw()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_text_drop(text: *mut c_char) {
    // SAFETY: it came from `into_raw`, and the caller gives it up.
    drop(unsafe { CString::from_raw(text) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_plan_drop(plan: *const PreparedPlan) {
    // SAFETY: the caller gives its count up.
    drop(unsafe { Arc::from_raw(plan) });
}

/// # Safety
/// There are so many, for `'a`.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: i64) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: as promised.
        count => unsafe { std::slice::from_raw_parts(first, count as usize) },
    }
}

/// A tensor as plans know it.
///
/// # Safety
/// The view's pointers are good, and its layout is held.
unsafe fn tensor(card: &Card, view: &RawView) -> Result<SpyreTensor, Failure> {
    // SAFETY: as promised.
    let shape = unsafe { view.shape()? };
    // SAFETY: as promised.
    unsafe { device_tensor(card, view, shape.size, shape.stride, 0) }
}

/// Another view of a tensor's memory, whose first element is `offset` elements from the tensor's.
///
/// # Safety
/// The view's pointers are good, and its layout is held.
pub(crate) unsafe fn device_tensor(
    card: &Card,
    view: &RawView,
    size: &[usize],
    stride: &[usize],
    offset: usize,
) -> Result<SpyreTensor, Failure> {
    // SAFETY: as promised.
    let shape = unsafe { view.shape()? };
    let address = view.data as u64;
    if address == 0 && size.contains(&0) {
        return Ok(SpyreTensor::empty(card.current_stream()?, size, shape.dtype)?);
    }
    let (memory, inside) = cards::memory_at(address)?;
    let width = bytes_of(shape.dtype);
    if !inside.is_multiple_of(width as u64) {
        return Err(Failure::runtime("a storage that starts inside an element"));
    }
    let offset = shape.offset + offset + inside as usize / width;
    let elements = View::new(size, stride, offset)?;
    // SAFETY: as promised.
    let own = (!view.layout.is_null()).then(|| unsafe { shared(view.layout) });
    let layout = own.as_ref().unwrap_or_else(|| memory.layout());
    if own.is_none() && layout.dtype() == shape.dtype {
        return Ok(memory.tensor(elements, shape.dtype)?);
    }
    let Some(seen) = layout.seen_as(shape.dtype) else {
        return Err(shown_otherwise(layout.dtype(), shape.dtype));
    };
    let device = memory.device();
    let handle = memory.range().handle;
    Ok(SpyreTensor::at(device, handle, seen.clone(), shape.dtype, elements)?)
}

#[cold]
fn shown_otherwise(stored: DType, seen_as: DType) -> Failure {
    Failure::new(
        Kind::Unsupported,
        format!(
            "the tensor shows {stored} elements as {seen_as}: a kernel cannot see them so. clone() it \
             first"
        ),
    )
}
