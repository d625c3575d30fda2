use std::sync::{Arc, OnceLock};

use spyre_hal::DeviceRange;
use spyre_layout::{TensorView, View};
use spyre_numerics::DType;

use crate::storage::Storage;
use crate::storage_layout::SharedLayout;
use crate::{Device, Error, SpyreStream, SpyreTensor};

/// Device memory of a framework's storage: it is freed when it is dropped, and what is queued still
/// has it.
///
/// The framework counts in host bytes, of which [`TensorMemory::host_bytes`] have a place here;
/// device memory holds [`TensorMemory::device_bytes`].
#[derive(Debug)]
pub struct TensorMemory {
    device: Device,
    range: DeviceRange,
    layout: SharedLayout,
    host_bytes: u64,
    /// Storage that its tensors share, once there are some.
    storage: OnceLock<Arc<Storage>>,
}

impl TensorMemory {
    /// New memory, for use on `stream` first.
    #[inline]
    pub fn allocate(
        stream: &SpyreStream,
        layout: SharedLayout,
        host_bytes: u64,
    ) -> Result<Self, Error> {
        let bytes = layout.layout().device_bytes() as u64;
        let handle = stream.flex().allocate(bytes)?;
        let range = DeviceRange::start_of(handle, bytes);
        let device = stream.device().clone();
        let storage = OnceLock::new();
        Ok(Self { device, range, layout, host_bytes, storage })
    }

    /// Device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// All of it.
    pub fn range(&self) -> DeviceRange {
        self.range
    }

    /// Layout of its elements.
    pub fn layout(&self) -> &SharedLayout {
        &self.layout
    }

    /// Bytes as the host counts them.
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    /// Bytes of device memory: whole blocks.
    pub fn device_bytes(&self) -> u64 {
        self.range.bytes.max(1).next_multiple_of(spyre_flex::BLOCK_BYTES)
    }

    /// A view of it as a tensor that plans can be launched with. It does not own the memory.
    pub fn tensor(&self, view: View, dtype: DType) -> Result<SpyreTensor, Error> {
        let storage = match self.storage.get() {
            Some(storage) => storage,
            None => {
                let layout = self.layout.layout().clone();
                let made = Storage::borrowed(&self.device, self.range.handle, layout)?;
                self.storage.get_or_init(|| Arc::new(made))
            }
        };
        SpyreTensor::in_storage(storage, view, dtype)
    }

    /// Has the memory kept until what is queued on `stream` now has ended. Copies and launches are
    /// known without it.
    pub fn record_use(&self, stream: &SpyreStream) -> Result<(), Error> {
        let point = stream.flex().last_point();
        let last_use = spyre_flex::LastUse { stream: point.stream, sequence: point.sequence };
        Ok(self.device.allocator().record_use(self.range.handle, last_use)?)
    }
}

impl Drop for TensorMemory {
    fn drop(&mut self) {
        // After a reset of the card it is gone already, and a forked child never had it.
        let _ = self.device.context().free(self.range.handle);
    }
}

/// A view of device memory: what a copy reads or writes.
#[derive(Clone, Debug)]
pub struct MemoryView<'a> {
    /// The memory.
    pub memory: &'a Arc<TensorMemory>,
    /// A layout that the view has in place of the memory's own.
    pub layout: Option<&'a SharedLayout>,
    /// Its elements.
    pub elements: TensorView<'a>,
}

impl<'a> MemoryView<'a> {
    /// The layout that counts.
    pub(crate) fn storage_layout(&self) -> &'a SharedLayout {
        self.layout.unwrap_or_else(|| self.memory.layout())
    }
}
