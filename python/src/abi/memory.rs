//! Device memory, and the layouts that come with it.

use std::ffi::c_void;
use std::sync::Arc;

use spyre::numerics::DType;
use spyre::runtime::{
    ElementsView, MemoryView, SharedLayout, StorageLayout, TensorMemory, copy_on_device,
    shared_bytes, shared_layout,
};

use super::entry;
use super::view::{RawView, Shape, bytes_of};
use crate::cards::{self, Card};
use crate::failure::{Failure, Kind};
use crate::statistics::Counts;
use crate::{history, surface};

entry! {
    fn spyre_allocate(
        device: i32,
        view: *const RawView,
        host_bytes: i64,
        data: *mut *mut c_void,
        device_bytes: *mut i64,
    ) {
        let card = cards::card(device)?;
        // SAFETY: the shim gives null or a view that it filled.
        let shape = unsafe { shape_at(view)? };
        let layout = || layout_for(card, shape.as_ref(), host_bytes as usize);
        // SAFETY: the shim gives two addresses to write to.
        unsafe { give(card, layout, host_bytes, data, device_bytes) }
    }

    fn spyre_allocate_with_layout(
        device: i32,
        layout: *const StorageLayout,
        host_bytes: i64,
        data: *mut *mut c_void,
        device_bytes: *mut i64,
    ) {
        let card = cards::card(device)?;
        // SAFETY: the shim holds a count of the layout, and gives two addresses to write to.
        unsafe { give(card, || Ok(shared(layout)), host_bytes, data, device_bytes) }
    }

    fn spyre_resize(
        data: *const c_void,
        kept_bytes: i64,
        view: *const RawView,
        host_bytes: i64,
        resized: *mut *mut c_void,
        device_bytes: *mut i64,
    ) {
        let old = match data as u64 {
            0 => None,
            address => Some(cards::memory_at(address)?.0),
        };
        let card = match cards::card_of(data as u64) {
            Some(card) => card,
            None => cards::card(-1)?,
        };
        // SAFETY: the shim gives null or a view that it filled.
        let shape = unsafe { shape_at(view)? };
        let layout = || match (&shape, &old) {
            (None, Some(old)) => longer(card, old, host_bytes as usize),
            (shape, _) => layout_for(card, shape.as_ref(), host_bytes as usize),
        };
        // SAFETY: the shim gives two addresses to write to.
        unsafe { give(card, layout, host_bytes, resized, device_bytes)? };
        // SAFETY: as above.
        let address = unsafe { *resized } as u64;
        if let (Some(old), Some((new, _))) = (&old, card.memory.find(address)) {
            keep_bytes(card, old, &new, kept_bytes as usize)?;
        }
        Ok(())
    }

    /// Bytes of no dtype become the elements of a tensor that shows all of them.
    fn spyre_adopt(view: *const RawView, host_bytes: i64) {
        // SAFETY: the shim gives a view that it filled.
        let (view, Some(shape)) = (unsafe { &*view }, unsafe { shape_at(view)? }) else {
            return Ok(());
        };
        let address = view.data as u64;
        let (old, inside) = cards::memory_at(address)?;
        let is_all = shape.offset == 0 && shape.reach_bytes() as i64 == host_bytes && inside == 0;
        let Some(card) = cards::card_of(address) else { return Ok(()) };
        if !(old.layout().is_raw() && is_all) {
            return Ok(());
        }
        let layout = layout_for(card, Some(&shape), host_bytes as usize)?;
        if shape.dtype == DType::UInt8 {
            return Ok(());
        }
        let new = TensorMemory::allocate(card.current_stream()?, layout, old.host_bytes())?;
        let new = Arc::new(new);
        keep_bytes(card, &old, &new, host_bytes as usize)?;
        card.statistics.free(old.device_bytes(), old.host_bytes());
        card.statistics.allocate(new.device_bytes(), new.host_bytes());
        card.memory.replace(address, new);
        Ok(())
    }

    fn spyre_record_stream(data: *const c_void, device: i32, stream: i64) {
        let (memory, _) = cards::memory_at(data as u64)?;
        let card = cards::card(device)?;
        // What another card's streams do with it waits for this one's first.
        if card.index() != memory.device().index() {
            return Ok(());
        }
        Ok(memory.record_use(card.stream(stream)?)?)
    }

    fn spyre_stats(device: i32, stats: *mut Counts) {
        let counts = if cards::is_started() {
            let card = cards::card(device)?;
            card.statistics.counts(&card.device)
        } else {
            Counts::default()
        };
        // SAFETY: the shim gives the address of a `SpyreStats`.
        unsafe { *stats = counts };
        Ok(())
    }

    fn spyre_reset_peak_stats(device: i32) {
        cards::card(device)?.statistics.reset_peaks();
        Ok(())
    }

    fn spyre_reset_accumulated_stats(device: i32) {
        cards::card(device)?.statistics.reset_totals();
        Ok(())
    }

    /// The budget of all cards is what a tensor can be given.
    fn spyre_memory_info(device: i32, free_bytes: *mut i64, total_bytes: *mut i64) {
        let (free, total) = memory_info(cards::card(device)?);
        // SAFETY: the shim gives the addresses of two numbers.
        unsafe {
            *free_bytes = free as i64;
            *total_bytes = total as i64;
        }
        Ok(())
    }

    fn spyre_empty_cache() {
        if cards::is_started() {
            for index in 0..cards::count() {
                cards::card(index as i32)?.device.allocator().empty_cache();
            }
        }
        Ok(())
    }
}

/// Free bytes of the budget, cached memory included, and all of its bytes.
pub(crate) fn memory_info(card: &Card) -> (u64, u64) {
    let allocator = card.device.allocator();
    let budget = allocator.budget();
    let hardware = cards::settings().map_or(u64::MAX, |settings| settings.devices.card_bytes());
    let total = budget.limit_bytes().min(hardware);
    let cached = allocator.statistics().cached_bytes;
    let used = budget.committed_bytes().saturating_sub(cached);
    (total.saturating_sub(used), total)
}

/// Gives an address back, and says how many device bytes were freed. A forked child has none.
#[unsafe(no_mangle)]
extern "C" fn spyre_free(data: *mut c_void) -> i64 {
    let address = data as u64;
    if address == 0 || cards::is_forked() {
        return 0;
    }
    let freed = std::panic::catch_unwind(|| {
        let card = cards::card_of(address)?;
        // Before another thread can be given the same address.
        history::note_free(card, address);
        let memory = card.memory.remove(address)?;
        let bytes = memory.device_bytes();
        card.statistics.free(bytes, memory.host_bytes());
        Some(bytes)
    });
    freed.ok().flatten().map_or(0, |bytes| bytes as i64)
}

#[unsafe(no_mangle)]
extern "C" fn spyre_device_of(data: *const c_void) -> i32 {
    cards::card_of(data as u64).map_or(-1, |card| i32::from(card.index().0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_layout_clone(layout: *const StorageLayout) -> *const StorageLayout {
    if !layout.is_null() {
        // SAFETY: the caller holds a count of it.
        unsafe { Arc::increment_strong_count(layout) };
    }
    layout
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_layout_drop(layout: *const StorageLayout) {
    // SAFETY: the caller gives its count up.
    drop(unsafe { Arc::from_raw(layout) });
}

/// # Safety
/// The pointer is null or a view whose pointers are good for `'a`.
unsafe fn shape_at<'a>(view: *const RawView) -> Result<Option<Shape<'a>>, Failure> {
    // SAFETY: as promised.
    match unsafe { view.as_ref() } {
        None => Ok(None),
        // SAFETY: as promised.
        Some(view) => unsafe { view.shape() }.map(Some),
    }
}

/// # Safety
/// The caller holds a count of the layout.
pub(crate) unsafe fn shared(layout: *const StorageLayout) -> SharedLayout {
    // SAFETY: as promised; the count that is made here is the result's.
    unsafe {
        Arc::increment_strong_count(layout);
        Arc::from_raw(layout)
    }
}

#[inline]
fn layout_for(
    card: &Card,
    shape: Option<&Shape<'_>>,
    bytes: usize,
) -> Result<SharedLayout, Failure> {
    let profile = card.device.profile();
    match shape {
        Some(shape) => Ok(shared_layout(profile, shape.size, shape.stride, shape.dtype)?),
        None => Ok(shared_bytes(profile, bytes)?),
    }
}

/// A row of the same elements as `old` has, if they fill the bytes.
fn longer(card: &Card, old: &TensorMemory, bytes: usize) -> Result<SharedLayout, Failure> {
    let layout = old.layout();
    let profile = card.device.profile();
    let width = bytes_of(layout.dtype());
    if layout.is_raw() || !bytes.is_multiple_of(width) {
        Ok(shared_bytes(profile, bytes)?)
    } else {
        Ok(shared_layout(profile, &[bytes / width], &[1], layout.dtype())?)
    }
}

/// # Safety
/// Both addresses can be written to.
#[inline]
unsafe fn give(
    card: &'static Card,
    layout: impl FnOnce() -> Result<SharedLayout, Failure>,
    host_bytes: i64,
    data: *mut *mut c_void,
    device_bytes: *mut i64,
) -> Result<(), Failure> {
    let (address, bytes) = match u64::try_from(host_bytes) {
        Ok(0) => (0, 0),
        Ok(host_bytes) => allocate(card, layout()?, host_bytes)?,
        Err(_) => return Err(Failure::runtime(format!("{host_bytes} bytes cannot be allocated"))),
    };
    // SAFETY: as promised.
    unsafe {
        *data = address as *mut c_void;
        *device_bytes = bytes as i64;
    }
    Ok(())
}

/// New memory with this layout: its address, and how many device bytes it takes.
pub(crate) fn allocate(
    card: &'static Card,
    layout: SharedLayout,
    host_bytes: u64,
) -> Result<(u64, u64), Failure> {
    let stream = card.current_stream()?;
    if !card.statistics.has_room(layout.layout().device_bytes() as u64) {
        return Err(out_of_memory(card, past_fraction(card), host_bytes));
    }
    let memory = match TensorMemory::allocate(stream, layout, host_bytes) {
        Ok(memory) => Arc::new(memory),
        Err(error) => {
            let failure = Failure::from(error);
            return Err(out_of_memory(card, failure, host_bytes));
        }
    };
    let bytes = memory.device_bytes();
    let address = card.memory.insert(host_bytes, memory).ok_or_else(|| {
        Failure::new(Kind::OutOfMemory, format!("there are no addresses for {host_bytes} bytes"))
    })?;
    card.statistics.allocate(bytes, host_bytes);
    history::note_allocation(card, address, bytes, host_bytes);
    Ok((address, bytes))
}

#[cold]
fn out_of_memory(card: &Card, failure: Failure, host_bytes: u64) -> Failure {
    if failure.kind != Kind::OutOfMemory {
        return failure;
    }
    card.statistics.note_out_of_memory();
    let counts = card.statistics.counts(&card.device);
    let (free, total) = memory_info(card);
    history::note_out_of_memory(card, host_bytes, free);
    surface::tell_observers(card.index().0, host_bytes, total, free);
    Failure::new(
        Kind::OutOfMemory,
        format!(
            "spyre out of memory. Tried to allocate {}. Device {} has a total capacity of {} of \
             which {} is free. {} is allocated by PyTorch, and {} is reserved by PyTorch but \
             unallocated. {}",
            shown(host_bytes as i64),
            card.index(),
            shown(total as i64),
            shown(free as i64),
            shown(counts.allocated_bytes.all.current),
            shown(counts.inactive_bytes),
            failure.message
        ),
    )
}

/// Bytes as PyTorch's messages have them.
fn shown(bytes: i64) -> String {
    let units = [(1_i64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cold]
fn past_fraction(card: &Card) -> Failure {
    let fraction = card.statistics.fraction();
    let message = format!(
        "This process may use {fraction} of the memory: set_per_process_memory_fraction said so"
    );
    Failure::new(Kind::OutOfMemory, message)
}

/// The first bytes of one memory, to the start of another.
fn keep_bytes(
    card: &Card,
    old: &Arc<TensorMemory>,
    new: &Arc<TensorMemory>,
    bytes: usize,
) -> Result<(), Failure> {
    let dtypes = [new.layout().dtype(), old.layout().dtype(), DType::UInt8];
    let dtype = dtypes.into_iter().find(|&dtype| bytes.is_multiple_of(bytes_of(dtype)));
    let dtype = dtype.unwrap_or(DType::UInt8);
    let size = [bytes / bytes_of(dtype)];
    let elements = ElementsView { dtype, size: &size, stride: &[1], offset: 0 };
    let of = |memory| MemoryView { memory, layout: None, elements };
    Ok(copy_on_device(card.current_stream()?, &of(old), &of(new))?)
}
