//! Launches of prepared plans.

use std::cell::OnceCell;
use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;

use spyre::layout::View;
use spyre::numerics::DType;
use spyre::runtime::SpyreTensor;

use super::view::{SpyreView, bytes_of};
use super::{SpyreText, guarded};
use crate::cards::{self, Card};
use crate::failure::{Failure, SpyreStatus};
use crate::handover;
use crate::kernels::{self, Origin, PreparedPlan};

/// Arguments of a launch. It has room for a byte per tensor: whether the tensor is written.
#[repr(C)]
pub struct SpyreLaunch {
    tensors: *const SpyreView<'static>,
    written: *mut u8,
    count: i64,
    scalars: *const u64,
    scalar_count: i64,
    file: SpyreText,
    line: i64,
}

/// A prepared plan.
pub struct SpyrePlan {
    plan: Arc<PreparedPlan>,
    name: OnceCell<CString>,
}

impl SpyreLaunch {
    fn tensors(&self) -> &[SpyreView<'_>] {
        list(self.tensors, self.count)
    }

    fn scalars(&self) -> &[u64] {
        list(self.scalars, self.scalar_count)
    }

    fn note_written(&self, at: usize, is_written: bool) {
        assert!(at < self.count as usize, "there is no tensor {at}");
        // SAFETY: the shim gives room for one byte per tensor, which nothing else uses during the call.
        unsafe { *self.written.add(at) = u8::from(is_written) };
    }
}

/// A list of the shim.
fn list<'a, T>(first: *const T, count: i64) -> &'a [T] {
    if count <= 0 {
        return &[];
    }
    // SAFETY: the shim alone makes launches, whose pointers are good for so many until the call returns.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// A plan by its number or, if that is 0, by its folder.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_find_plan(
    number: i64,
    folder: SpyreText,
    device: i32,
    plan: &mut Option<Box<SpyrePlan>>,
) -> SpyreStatus {
    guarded(|| {
        let found = match number {
            0 => {
                let device = i32::from(cards::card(device)?.index().0);
                kernels::of_folder(Path::new(&*folder.to_str()), device)?
            }
            number => kernels::find(number)?,
        };
        *plan = Some(Box::new(SpyrePlan { plan: found, name: OnceCell::new() }));
        Ok(())
    })
}

/// Hands a tensor over to Python, as plans know it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_hand_tensor(view: &SpyreView<'_>, number: &mut i64) -> SpyreStatus {
    guarded(|| {
        let card = match view.address() {
            0 => cards::card(-1)?,
            address => cards::card_of(address).map_or_else(|| cards::card(-1), Ok)?,
        };
        *number = handover::hand(Arc::new(tensor_as_seen(card, view)?));
        Ok(())
    })
}

/// Queues a plan on the calling thread's stream, and says of each tensor whether it is written.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_launch(plan: &SpyrePlan, given: &SpyreLaunch) -> SpyreStatus {
    guarded(|| {
        let plan = &plan.plan;
        let views = given.tensors();
        let file = kernels::kept(given.file.c_str());
        plan.launch(views, given.scalars(), Origin::Line(file, given.line as u32))?;
        let metadata = plan.job.plan().map_or(&[][..], |plan| plan.tensor_input_metadata());
        for (at, tensor) in metadata.iter().enumerate().take(views.len()) {
            given.note_written(at, tensor.role.is_written());
        }
        Ok(())
    })
}

/// Name of a plan, which is good until the plan is dropped.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_plan_name(plan: &SpyrePlan) -> *const c_char {
    let name = || CString::new(plan.plan.name().replace('\0', "?")).unwrap_or_default();
    plan.name.get_or_init(name).as_ptr()
}

/// Drops a plan.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_plan_drop(plan: Box<SpyrePlan>) {
    drop(plan);
}

/// A tensor as plans know it.
pub(crate) fn tensor_as_seen(card: &Card, view: &SpyreView<'_>) -> Result<SpyreTensor, Failure> {
    let tensor = view.tensor()?;
    device_tensor(card, view, tensor.dtype, (tensor.size, tensor.stride, 0))
}

/// Another view of a tensor's memory: its size, its stride, and how far its first element is from the
/// tensor's. All count elements of `dtype`, which is the tensor's own or that of its parts.
pub(crate) fn device_tensor(
    card: &Card,
    view: &SpyreView<'_>,
    dtype: DType,
    (size, stride, offset): (&[usize], &[usize], usize),
) -> Result<SpyreTensor, Failure> {
    let tensor = view.tensor()?;
    let address = view.address();
    if address == 0 && size.contains(&0) {
        return Ok(SpyreTensor::empty(card.current_stream()?, size, dtype)?);
    }
    let (memory, inside) = cards::memory_at(address)?;
    let width = bytes_of(tensor.dtype);
    if !inside.is_multiple_of(width as u64) {
        return Err(Failure::runtime("a storage that starts inside an element"));
    }
    let parts = width / bytes_of(dtype);
    let offset = (tensor.offset + inside as usize / width) * parts + offset;
    let elements = View::new(size, stride, offset)?;
    let own = view.layout().shared();
    let layout = own.as_ref().unwrap_or_else(|| memory.layout());
    if own.is_none() && layout.dtype() == dtype {
        return Ok(memory.tensor(elements, dtype)?);
    }
    let Some(seen) = layout.seen_as(dtype) else {
        return Err(shown_otherwise(layout.dtype(), dtype));
    };
    let device = memory.device();
    let handle = memory.range().handle;
    Ok(SpyreTensor::at(device, handle, seen.clone(), dtype, elements)?)
}

#[cold]
fn shown_otherwise(stored: DType, seen_as: DType) -> Failure {
    Failure::new(
        SpyreStatus::Unsupported,
        format!(
            "the tensor shows {stored} elements as {seen_as}: a kernel cannot see them so. clone() it \
             first"
        ),
    )
}
