use std::ptr;

use spyre::collectives::DeviceBuffer;
use spyre::flex::{MemoryAccess, MemoryUse};
use spyre::hal::DeviceRange;
use spyre::numerics::{DType, DataFormat};

use crate::abi::SpyreView;
use crate::cards;
use crate::failure::Failure;

/// Elements of a tensor that follow each other in device memory.
pub(crate) struct TensorRow {
    address: usize,
    elements: u64,
    range: DeviceRange,
    /// True if it is all of its allocation.
    is_whole: bool,
}

/// Format in which ranks exchange elements: the device's own.
pub(crate) fn format_of(dtype: DType) -> Result<DataFormat, Failure> {
    Ok(cards::profile()?.supported_format(dtype)?)
}

impl TensorRow {
    /// The row of a contiguous tensor; `None` if its elements lie in several pieces, or have other bits.
    pub(crate) fn of(view: &SpyreView<'_>) -> Result<Option<Self>, Failure> {
        let tensor = view.tensor()?;
        let elements: usize = tensor.size.iter().product();
        let (memory, inside) = cards::memory_at(view.address())?;
        let own = view.layout().shared();
        let layout = own.as_ref().unwrap_or_else(|| memory.layout());
        let places = layout.seen_as(tensor.dtype).filter(|_| inside == 0);
        let Some(places) =
            places.filter(|places| format_of(tensor.dtype) == Ok(places.device_dtype()))
        else {
            return Ok(None);
        };
        let run = places.run_from(tensor.offset, 1);
        let is_row = |run: &spyre::layout::DeviceRun| {
            run.elements >= elements && (elements == 1 || run.stride == 1)
        };
        let (Some(run), Some(width)) = (run.filter(is_row), places.device_dtype().element_bytes())
        else {
            return Ok(None);
        };
        let all = memory.range();
        let offset = (run.start * width) as u64;
        let bytes = (elements * width) as u64;
        let range = DeviceRange { handle: all.handle, offset: all.offset + offset, bytes };
        let is_whole = offset == 0 && places.storage_elements() == Some(elements);
        let address = memory.device().context().hardware().host_address(range);
        Ok(address.map(|address| Self { address, elements: elements as u64, range, is_whole }))
    }

    /// The memory, as the engine knows it.
    pub(crate) fn buffer(&self) -> DeviceBuffer {
        let address = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the range lies inside a live allocation, which the queued work names as used: it is neither freed
        // nor used by other work before that has ended, and programs that break this see unspecified bytes.
        unsafe { DeviceBuffer::new(address, self.range.bytes as usize, self.elements) }
    }

    /// Its use, as a source.
    pub(crate) fn read(&self) -> MemoryUse {
        MemoryUse { range: self.range, access: MemoryAccess::Read }
    }

    /// Its use, as a target.
    pub(crate) fn written(&self) -> MemoryUse {
        let access = if self.is_whole { MemoryAccess::WriteAll } else { MemoryAccess::WritePart };
        MemoryUse { range: self.range, access }
    }
}
