//! Copies between tensors.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use spyre::hal::{HostSource, HostTarget};
use spyre::layout::TensorView;
use spyre::numerics::DType;
use spyre::runtime::{
    MemoryView, Return, SharedLayout, TensorMemory, copy_from_device, copy_on_device,
    copy_to_device, copy_to_peer,
};

use super::guarded;
use super::view::{SpyreMemoryKind, SpyreView, bytes_of};
use crate::cards::{self, Card};
use crate::failure::{Failure, SpyreStatus};
use crate::{pinned_memory, recording, traffic};

/// Copies a tensor to one of the same sizes; at least one is on a device.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_copy(
    source: &SpyreView<'_>,
    target: &SpyreView<'_>,
    non_blocking: bool,
) -> SpyreStatus {
    guarded(|| {
        let from = source.tensor()?;
        if from.is_empty() {
            return Ok(());
        }
        let to = target.tensor()?;
        let may_wait = !non_blocking || waits()?;
        let copy = || copy(source, &from, target, &to, may_wait);
        let on_device = if source.place() == SpyreMemoryKind::Device { source } else { target };
        match cards::card_of(on_device.address()).filter(|_| recording::is_on()) {
            Some(card) => {
                let shapes = || format!("{} to {}{:?}", from.dtype, to.dtype, to.size);
                recording::noted(card.current_stream()?, false, shapes, copy)
            }
            None => copy(),
        }
    })
}

/// Refuses a view whose bits the card does not keep.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_check_view(view: &SpyreView<'_>) -> SpyreStatus {
    guarded(|| {
        let tensor = view.tensor()?;
        let found = Found::of(view, &tensor)?;
        let layout = found.layout.as_ref().unwrap_or_else(|| found.memory.layout());
        if tensor.dtype == layout.dtype() || layout.is_exact() {
            return Ok(());
        }
        Err(other_bits(layout, tensor.dtype))
    })
}

fn copy(
    source: &SpyreView<'_>,
    from: &TensorView<'_>,
    target: &SpyreView<'_>,
    to: &TensorView<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    match (source.place(), target.place()) {
        (SpyreMemoryKind::Device, SpyreMemoryKind::Device) => {
            between(&Found::of(source, from)?, &Found::of(target, to)?, may_wait)
        }
        (_, SpyreMemoryKind::Device) => inward(source, from, &Found::of(target, to)?, may_wait),
        (SpyreMemoryKind::Device, _) => outward(&Found::of(source, from)?, target, to, may_wait),
        _ => Err(Failure::runtime("a copy between two host tensors")),
    }
}

/// Returns true if every copy waits for its end: `SPYRE_LAUNCH_BLOCKING`.
fn waits() -> Result<bool, Failure> {
    static WAITS: OnceLock<bool> = OnceLock::new();
    if let Some(&waits) = WAITS.get() {
        return Ok(waits);
    }
    let waits = cards::settings()?.launches_wait;
    Ok(*WAITS.get_or_init(|| waits))
}

/// Device memory that a view shows.
struct Found<'a> {
    card: &'static Card,
    memory: Arc<TensorMemory>,
    layout: Option<SharedLayout>,
    tensor: &'a TensorView<'a>,
    /// Elements before the storage's start, where it starts inside an allocation.
    before: usize,
}

impl<'a> Found<'a> {
    #[inline]
    fn of(view: &SpyreView<'_>, tensor: &'a TensorView<'a>) -> Result<Self, Failure> {
        let (memory, inside) = cards::memory_at(view.address())?;
        let width = bytes_of(tensor.dtype) as u64;
        if !inside.is_multiple_of(width) {
            return Err(Failure::runtime("a storage that starts inside an element"));
        }
        let card = cards::card(i32::from(memory.device().index().0))?;
        let layout = view.layout().shared();
        check_bits(&memory, layout.as_ref(), tensor.dtype)?;
        Ok(Self { card, memory, layout, tensor, before: (inside / width) as usize })
    }

    /// Returns true if the device can address its elements: each lies in one piece, in the host's bits or in
    /// a format that copies convert.
    #[inline]
    fn is_seen(&self) -> bool {
        let layout = self.layout.as_ref().unwrap_or_else(|| self.memory.layout());
        layout.seen_as(self.tensor.dtype).is_some()
    }

    fn view(&self) -> MemoryView<'_> {
        let offset = self.tensor.offset + self.before;
        let elements = TensorView { offset, ..*self.tensor };
        MemoryView { memory: &self.memory, layout: self.layout.as_ref(), elements }
    }
}

/// Refuses a view of another dtype if the card keeps other bits than the host. A view of bytes is allowed.
#[inline]
fn check_bits(
    memory: &TensorMemory,
    layout: Option<&SharedLayout>,
    seen_as: DType,
) -> Result<(), Failure> {
    let layout = layout.unwrap_or_else(|| memory.layout());
    if seen_as == layout.dtype() || layout.is_exact() || seen_as == DType::UInt8 {
        return Ok(());
    }
    Err(other_bits(layout, seen_as))
}

#[cold]
fn other_bits(layout: &SharedLayout, seen_as: DType) -> Failure {
    let own = layout.dtype();
    let format = layout.layout().device_dtype().name();
    Failure::runtime(format!(
        "the card stores {own} as {format}, whose bits are not the host's: a view as {seen_as} is \
         not supported"
    ))
}

/// Copies a host tensor to a device.
fn inward(
    source: &SpyreView<'_>,
    from: &TensorView<'_>,
    target: &Found<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    let data = source.bytes().cast_const();
    let bytes = from.reach_bytes();
    let stream = target.card.current_stream()?;
    traffic::TO_DEVICE.note();
    let keep = if may_wait { None } else { pinned_memory::block_at(data as usize).map(as_owner) };
    let host = match keep {
        // SAFETY: the block, which the tensor lies in, is kept.
        Some(keep) => unsafe { HostSource::foreign(data, bytes, keep) },
        // SAFETY: the shim holds the tensor, which reaches so far, and the copy is waited for below.
        None if may_wait => unsafe { HostSource::borrowed(data, bytes) },
        // SAFETY: the shim holds the tensor, which reaches so far.
        None => HostSource::from(unsafe { std::slice::from_raw_parts(data, bytes) }.to_vec()),
    };
    Ok(copy_to_device(stream, host, from, &target.view(), returns(may_wait))?)
}

/// Copies a tensor of a device to the host.
fn outward(
    source: &Found<'_>,
    target: &SpyreView<'_>,
    to: &TensorView<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    let data = target.bytes();
    let bytes = to.reach_bytes();
    let stream = source.card.current_stream()?;
    let keep = if may_wait { None } else { pinned_memory::block_at(data as usize).map(as_owner) };
    let must_wait = may_wait || keep.is_none();
    traffic::TO_HOST.note();
    let host = match keep {
        // SAFETY: the block, which the tensor lies in, is kept.
        Some(keep) => unsafe { HostTarget::foreign(data, bytes, keep) },
        // SAFETY: the shim holds the tensor, which reaches so far, and the copy is waited for below.
        None => unsafe { HostTarget::borrowed(data, bytes) },
    };
    Ok(copy_from_device(stream, &source.view(), host, to, returns(must_wait))?)
}

/// Copies between tensors of devices.
fn between(from: &Found<'_>, to: &Found<'_>, may_wait: bool) -> Result<(), Failure> {
    if from.tensor.dtype != to.tensor.dtype && !is_plain_conversion(from, to) {
        return Err(Failure::new(SpyreStatus::Unsupported, "the host converts"));
    }
    let stream = from.card.current_stream()?;
    if from.card.index() != to.card.index() {
        let target = to.card.current_stream()?;
        return Ok(copy_to_peer(stream, &from.view(), target, &to.view())?);
    }
    if !from.is_seen() || !to.is_seen() {
        // The runtime takes host memory to help.
        traffic::TO_HOST.note();
    }
    copy_on_device(stream, &from.view(), &to.view())?;
    if may_wait && waits()? { Ok(stream.synchronize()?) } else { Ok(()) }
}

/// Returns true if a loop nest converts as PyTorch does: numbers that are not complex, in the host's formats.
fn is_plain_conversion(from: &Found<'_>, to: &Found<'_>) -> bool {
    let is_complex =
        |dtype| matches!(dtype, DType::Complex32 | DType::Complex64 | DType::Complex128);
    let is_own = |found: &Found<'_>| {
        let layout = found.layout.as_ref().unwrap_or_else(|| found.memory.layout());
        layout.is_exact() && layout.dtype() == found.tensor.dtype
    };
    !is_complex(from.tensor.dtype) && !is_complex(to.tensor.dtype) && is_own(from) && is_own(to)
}

fn returns(must_wait: bool) -> Return {
    if must_wait { Return::WhenDone } else { Return::WhenQueued }
}

/// A block keeps itself.
fn as_owner(block: Arc<pinned_memory::Block>) -> Arc<dyn Any + Send + Sync> {
    block
}
