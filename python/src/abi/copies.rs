//! Copies between tensors.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use spyre::hal::{HostSource, HostTarget};
use spyre::numerics::DType;
use spyre::runtime::{
    MemoryView, Return, SharedLayout, TensorMemory, copy_from_device, copy_on_device,
    copy_to_device, copy_to_peer,
};

use super::entry;
use super::memory::shared;
use super::view::{MemoryKind, RawView, Shape, bytes_of};
use crate::cards::{self, Card};
use crate::failure::{Failure, Kind};
use crate::{pinned, recording, traffic};

entry! {
    /// Copies a tensor to one of the same sizes; at least one is on a device.
    fn spyre_copy(source: *const RawView, target: *const RawView, non_blocking: i32) {
        // SAFETY: the shim gives two views that it filled, of tensors that it holds.
        let (source, target) = unsafe { (&*source, &*target) };
        // SAFETY: as above.
        let (from, to) = unsafe { (source.shape()?, target.shape()?) };
        if from.size.contains(&0) {
            return Ok(());
        }
        let may_wait = non_blocking == 0 || waits()?;
        // SAFETY: as above.
        let copy = || unsafe { copy(source, &from, target, &to, may_wait) };
        let on_device = if source.place() == MemoryKind::Device { source } else { target };
        match cards::card_of(on_device.data as u64).filter(|_| recording::is_on()) {
            Some(card) => {
                let shapes = || format!("{} to {}{:?}", from.dtype, to.dtype, to.size);
                recording::noted(card.current_stream()?, false, shapes, copy)
            }
            None => copy(),
        }
    }

    /// Refuses a view whose bits the card does not keep.
    fn spyre_check_view(view: *const RawView) {
        // SAFETY: the shim gives a view that it filled, of a tensor that it holds.
        let view = unsafe { &*view };
        // SAFETY: as above.
        let shape = unsafe { view.shape()? };
        // SAFETY: as above.
        let found = unsafe { Found::of(view, &shape)? };
        let layout = found.layout.as_ref().unwrap_or_else(|| found.memory.layout());
        if shape.dtype == layout.dtype() || layout.is_exact() {
            return Ok(());
        }
        Err(other_bits(layout, shape.dtype))
    }
}

/// # Safety
/// Both views are of tensors that the caller holds.
unsafe fn copy(
    source: &RawView,
    from: &Shape<'_>,
    target: &RawView,
    to: &Shape<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    match (source.place(), target.place()) {
        // SAFETY: as promised.
        (MemoryKind::Device, MemoryKind::Device) => unsafe {
            between(source, from, target, to, may_wait)
        },
        // SAFETY: as promised.
        (_, MemoryKind::Device) => unsafe { inward(source, from, target, to, may_wait) },
        // SAFETY: as promised.
        (MemoryKind::Device, _) => unsafe { outward(source, from, target, to, may_wait) },
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
    shape: &'a Shape<'a>,
    /// Elements before the storage's start, where it starts inside an allocation.
    before: usize,
}

impl<'a> Found<'a> {
    /// # Safety
    /// The view's layout, if it has one, is held by the caller.
    #[inline]
    unsafe fn of(view: &RawView, shape: &'a Shape<'a>) -> Result<Self, Failure> {
        let address = view.data as u64;
        let (memory, inside) = cards::memory_at(address)?;
        let width = bytes_of(shape.dtype) as u64;
        if !inside.is_multiple_of(width) {
            return Err(Failure::runtime("a storage that starts inside an element"));
        }
        let card = cards::card(i32::from(memory.device().index().0))?;
        // SAFETY: as promised.
        let layout = (!view.layout.is_null()).then(|| unsafe { shared(view.layout) });
        check_bits(&memory, layout.as_ref(), shape)?;
        Ok(Self { card, memory, layout, shape, before: (inside / width) as usize })
    }

    /// Returns true if the device can address its elements: each lies in one piece, in the host's bits or in
    /// a format that copies convert.
    #[inline]
    fn is_seen(&self) -> bool {
        let layout = self.layout.as_ref().unwrap_or_else(|| self.memory.layout());
        layout.seen_as(self.shape.dtype).is_some()
    }

    fn view(&self) -> MemoryView<'_> {
        let mut elements = self.shape.elements();
        elements.offset += self.before;
        MemoryView { memory: &self.memory, layout: self.layout.as_ref(), elements }
    }
}

/// Refuses a view of another dtype if the card keeps other bits than the host. A view of bytes is allowed.
#[inline]
fn check_bits(
    memory: &TensorMemory,
    layout: Option<&SharedLayout>,
    shape: &Shape<'_>,
) -> Result<(), Failure> {
    let layout = layout.unwrap_or_else(|| memory.layout());
    let own = layout.dtype();
    if shape.dtype == own || layout.is_exact() || shape.dtype == DType::UInt8 {
        return Ok(());
    }
    Err(other_bits(layout, shape.dtype))
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

/// # Safety
/// Both views are of tensors that the caller holds.
unsafe fn inward(
    source: &RawView,
    from: &Shape<'_>,
    target: &RawView,
    to: &Shape<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    // SAFETY: as promised.
    let found = unsafe { Found::of(target, to)? };
    let data = source.data.cast::<u8>().cast_const();
    let bytes = from.reach_bytes();
    let stream = found.card.current_stream()?;
    traffic::TO_DEVICE.note();
    let keep = if may_wait { None } else { pinned::block_at(data as usize).map(as_owner) };
    let is_staged = !may_wait && keep.is_none();
    let host = if is_staged {
        // SAFETY: the tensor reaches so far.
        HostSource::from(unsafe { std::slice::from_raw_parts(data, bytes) }.to_vec())
    } else {
        match keep {
            // SAFETY: the block is kept.
            Some(keep) => unsafe { HostSource::foreign(data, bytes, keep) },
            // SAFETY: the caller waits below while it holds the tensor.
            None => unsafe { HostSource::borrowed(data, bytes) },
        }
    };
    Ok(copy_to_device(stream, host, &from.elements(), &found.view(), returns(may_wait))?)
}

/// # Safety
/// Both views are of tensors that the caller holds.
unsafe fn outward(
    source: &RawView,
    from: &Shape<'_>,
    target: &RawView,
    to: &Shape<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    // SAFETY: as promised.
    let found = unsafe { Found::of(source, from)? };
    let data = target.data.cast::<u8>();
    let bytes = to.reach_bytes();
    let stream = found.card.current_stream()?;
    let keep = if may_wait { None } else { pinned::block_at(data as usize).map(as_owner) };
    let must_wait = may_wait || keep.is_none();
    traffic::TO_HOST.note();
    let host = match keep {
        // SAFETY: the block is kept.
        Some(keep) => unsafe { HostTarget::foreign(data, bytes, keep) },
        // SAFETY: the caller waits below while it holds the tensor.
        None => unsafe { HostTarget::borrowed(data, bytes) },
    };
    Ok(copy_from_device(stream, &found.view(), host, &to.elements(), returns(must_wait))?)
}

/// # Safety
/// Both views are of tensors that the caller holds.
unsafe fn between(
    source: &RawView,
    from: &Shape<'_>,
    target: &RawView,
    to: &Shape<'_>,
    may_wait: bool,
) -> Result<(), Failure> {
    // SAFETY: as promised.
    let (from, to) = unsafe { (Found::of(source, from)?, Found::of(target, to)?) };
    if from.shape.dtype != to.shape.dtype && !is_plain_conversion(&from, &to) {
        return Err(Failure::new(Kind::Unsupported, "the host converts"));
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
        layout.is_exact() && layout.dtype() == found.shape.dtype
    };
    !is_complex(from.shape.dtype) && !is_complex(to.shape.dtype) && is_own(from) && is_own(to)
}

fn returns(must_wait: bool) -> Return {
    if must_wait { Return::WhenDone } else { Return::WhenQueued }
}

/// A block keeps itself.
fn as_owner(block: Arc<pinned::Block>) -> Arc<dyn Any + Send + Sync> {
    block
}
