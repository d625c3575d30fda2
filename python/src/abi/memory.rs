//! Device memory, and the layouts that come with it.

use std::ffi::c_void;
use std::sync::Arc;

use spyre::layout::TensorView;
use spyre::numerics::DType;
use spyre::runtime::{
    MemoryView, SharedLayout, TensorMemory, copy_on_device, shared_bytes, shared_layout,
};

use super::guarded;
use super::view::{LayoutPointer, SpyreView, bytes_of};
use crate::cards::{self, Card};
use crate::failure::{Failure, SpyreStatus};
use crate::statistics::SpyreStats;
use crate::{history, surface};

/// Memory of a storage: an address, and the device bytes that it takes. Zero bytes have no address.
#[repr(C)]
pub struct SpyreMemory {
    pub(crate) data: *mut c_void,
    pub(crate) device_bytes: i64,
}

/// Memory for a tensor; without a view, for bytes of no dtype.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_allocate(
    device: i32,
    view: Option<&SpyreView<'_>>,
    host_bytes: i64,
    memory: &mut SpyreMemory,
) -> SpyreStatus {
    guarded(|| {
        let card = cards::card(device)?;
        let tensor = view.map(SpyreView::tensor).transpose()?;
        let layout = || layout_for(card, tensor.as_ref(), host_bytes as usize);
        *memory = SpyreMemory::allocate(card, layout, host_bytes)?;
        Ok(())
    })
}

/// Memory with a layout that the program chose.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_allocate_with_layout(
    device: i32,
    layout: LayoutPointer,
    host_bytes: i64,
    memory: &mut SpyreMemory,
) -> SpyreStatus {
    guarded(|| {
        let layout = || layout.shared().ok_or_else(|| Failure::runtime("there is no layout"));
        *memory = SpyreMemory::allocate(cards::card(device)?, layout, host_bytes)?;
        Ok(())
    })
}

/// Memory of another length, with the same bytes as far as they go. Elements keep their dtype.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_resize(
    data: *const c_void,
    kept_bytes: i64,
    view: Option<&SpyreView<'_>>,
    host_bytes: i64,
    memory: &mut SpyreMemory,
) -> SpyreStatus {
    guarded(|| {
        let old = match data as u64 {
            0 => None,
            address => Some(cards::memory_at(address)?.0),
        };
        let card = match cards::card_of(data as u64) {
            Some(card) => card,
            None => cards::card(-1)?,
        };
        let tensor = view.map(SpyreView::tensor).transpose()?;
        let layout = || match (&tensor, &old) {
            (None, Some(old)) => longer(card, old, host_bytes as usize),
            (tensor, _) => layout_for(card, tensor.as_ref(), host_bytes as usize),
        };
        *memory = SpyreMemory::allocate(card, layout, host_bytes)?;
        if let (Some(old), Some((new, _))) = (&old, card.memory.find(memory.data as u64)) {
            keep_bytes(card, old, &new, kept_bytes as usize)?;
        }
        Ok(())
    })
}

/// Has bytes of no dtype become the elements of a tensor that shows all of them.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_adopt(view: &SpyreView<'_>, host_bytes: i64) -> SpyreStatus {
    guarded(|| {
        let tensor = view.tensor()?;
        let address = view.address();
        let (old, inside) = cards::memory_at(address)?;
        let is_all = tensor.offset == 0 && tensor.reach_bytes() as i64 == host_bytes && inside == 0;
        let Some(card) = cards::card_of(address) else { return Ok(()) };
        if !(old.layout().is_raw() && is_all && old.is_replaceable(card.current_stream()?)) {
            return Ok(());
        }
        let layout = layout_for(card, Some(&tensor), host_bytes as usize)?;
        if tensor.dtype == DType::UInt8 {
            return Ok(());
        }
        let new = TensorMemory::allocate(card.current_stream()?, layout, old.host_bytes())?;
        let new = Arc::new(new);
        keep_bytes(card, &old, &new, host_bytes as usize)?;
        card.statistics.free(old.device_bytes(), old.host_bytes());
        card.statistics.allocate(new.device_bytes(), new.host_bytes());
        card.memory.replace(address, new);
        Ok(())
    })
}

/// Has memory kept until what is queued on a stream now has ended.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_record_stream(
    data: *const c_void,
    device: i32,
    stream: i64,
) -> SpyreStatus {
    guarded(|| {
        let (memory, _) = cards::memory_at(data as u64)?;
        let card = cards::card(device)?;
        // What another card's streams do with it waits for this one's first.
        if card.index() != memory.device().index() {
            return Ok(());
        }
        Ok(memory.record_use(card.stream(stream)?)?)
    })
}

/// Counts of a device's memory.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_stats(device: i32, stats: &mut SpyreStats) -> SpyreStatus {
    guarded(|| {
        *stats = if cards::is_started() {
            let card = cards::card(device)?;
            card.statistics.counts(&card.device)
        } else {
            SpyreStats::default()
        };
        Ok(())
    })
}

/// Begins to count peaks anew.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_reset_peak_stats(device: i32) -> SpyreStatus {
    guarded(|| {
        cards::card(device)?.statistics.reset_peaks();
        Ok(())
    })
}

/// Begins to count totals anew.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_reset_accumulated_stats(device: i32) -> SpyreStatus {
    guarded(|| {
        cards::card(device)?.statistics.reset_totals();
        Ok(())
    })
}

/// Bytes that a tensor can be given, and all of them: the budget of all cards.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_memory_info(
    device: i32,
    free_bytes: &mut i64,
    total_bytes: &mut i64,
) -> SpyreStatus {
    guarded(|| {
        let (free, total) = memory_info(cards::card(device)?);
        *free_bytes = free as i64;
        *total_bytes = total as i64;
        Ok(())
    })
}

/// Gives back memory that the allocators keep for later.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_empty_cache() -> SpyreStatus {
    guarded(|| {
        if cards::is_started() {
            for index in 0..cards::count() {
                cards::card(index as i32)?.device.allocator().empty_cache();
            }
        }
        Ok(())
    })
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
pub extern "C" fn spyre_free(data: *mut c_void) -> i64 {
    let address = data as u64;
    if address == 0 || cards::is_forked() {
        return 0;
    }
    let freed = std::panic::catch_unwind(|| free(address));
    freed.ok().flatten().map_or(0, |bytes| bytes as i64)
}

/// Gives an address back; the device bytes that were freed.
fn free(address: u64) -> Option<u64> {
    let card = cards::card_of(address)?;
    // Before another thread can be given the same address.
    history::note_free(card, address);
    let memory = card.memory.remove(address)?;
    let bytes = memory.device_bytes();
    card.statistics.free(bytes, memory.host_bytes());
    Some(bytes)
}

/// Device of an address; -1 if it is of none.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_device_of(data: *const c_void) -> i32 {
    cards::card_of(data as u64).map_or(-1, |card| i32::from(card.index().0))
}

/// One more count of a layout.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_layout_clone(layout: LayoutPointer) -> LayoutPointer {
    layout.shared().map_or(LayoutPointer::NULL, LayoutPointer::of)
}

/// Gives a count of a layout up.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_layout_drop(layout: LayoutPointer) {
    drop(layout.into_shared());
}

#[inline]
fn layout_for(
    card: &Card,
    tensor: Option<&TensorView<'_>>,
    bytes: usize,
) -> Result<SharedLayout, Failure> {
    let profile = card.device.profile();
    match tensor {
        Some(tensor) => Ok(shared_layout(profile, tensor.size, tensor.stride, tensor.dtype)?),
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

impl SpyreMemory {
    #[inline]
    fn allocate(
        card: &'static Card,
        layout: impl FnOnce() -> Result<SharedLayout, Failure>,
        host_bytes: i64,
    ) -> Result<Self, Failure> {
        match u64::try_from(host_bytes) {
            Ok(0) => Ok(NewMemory::NONE.into_memory()),
            Ok(host_bytes) => Ok(NewMemory::allocate(card, layout()?, host_bytes)?.into_memory()),
            Err(_) => Err(Failure::runtime(format!("{host_bytes} bytes cannot be allocated"))),
        }
    }
}

/// Memory that was allocated for the shim, with its address. It is freed unless it becomes the shim's.
#[derive(Debug)]
pub(crate) struct NewMemory {
    address: u64,
    memory: Option<Arc<TensorMemory>>,
}

impl NewMemory {
    /// Memory of no bytes, which has no address.
    pub(crate) const NONE: Self = Self { address: 0, memory: None };

    /// New memory with this layout.
    pub(crate) fn allocate(
        card: &'static Card,
        layout: SharedLayout,
        host_bytes: u64,
    ) -> Result<Self, Failure> {
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
        let address = card.memory.insert(host_bytes, Arc::clone(&memory)).ok_or_else(|| {
            let why = format!("there are no addresses for {host_bytes} bytes");
            Failure::new(SpyreStatus::OutOfMemory, why)
        })?;
        card.statistics.allocate(bytes, host_bytes);
        history::note_allocation(card, address, bytes, host_bytes);
        Ok(Self { address, memory: Some(memory) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn memory(&self) -> Option<&Arc<TensorMemory>> {
        self.memory.as_ref()
    }

    /// Gives it to the shim, which frees it by its address.
    pub(crate) fn into_memory(mut self) -> SpyreMemory {
        let device_bytes = self.memory.take().map_or(0, |memory| memory.device_bytes() as i64);
        SpyreMemory { data: self.address as *mut c_void, device_bytes }
    }
}

impl Drop for NewMemory {
    fn drop(&mut self) {
        if self.memory.is_some() {
            free(self.address);
        }
    }
}

#[cold]
fn out_of_memory(card: &Card, failure: Failure, host_bytes: u64) -> Failure {
    if failure.kind != SpyreStatus::OutOfMemory {
        return failure;
    }
    card.statistics.note_out_of_memory();
    let counts = card.statistics.counts(&card.device);
    let (free, total) = memory_info(card);
    history::note_out_of_memory(card, host_bytes, free);
    surface::tell_observers(card.index().0, host_bytes, total, free);
    Failure::new(
        SpyreStatus::OutOfMemory,
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
    Failure::new(SpyreStatus::OutOfMemory, message)
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
    let elements = TensorView { dtype, size: &size, stride: &[1], offset: 0 };
    let of = |memory| MemoryView { memory, layout: None, elements };
    Ok(copy_on_device(card.current_stream()?, &of(old), &of(new))?)
}
