use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use spyre_artifact::{HandleWords, OPERAND_WORDS, OperandWords};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_layout::{SpyreTensorLayout, TensorView, View};
use spyre_numerics::DType;

use crate::storage_layout::{SharedLayout, StorageLayout};
use crate::{Device, Error, GraphMemory, SpyreStream, SpyreTensor};

/// Device memory that tensors share, with the layout that its elements have. It is freed when it is dropped, and
/// what is queued still has it.
///
/// A framework counts in host bytes, of which [`TensorMemory::host_bytes`] have a place here;
/// device memory holds [`TensorMemory::device_bytes`].
#[derive(Debug)]
pub struct TensorMemory {
    device: Device,
    range: DeviceRange,
    layout: SharedLayout,
    host_bytes: u64,
    /// Words of an operand, except for offset and strides, once a tensor needs them.
    words: OnceLock<Box<[u64; OPERAND_WORDS]>>,
    owner: Owner,
    /// True once a graph uses it.
    is_of_a_graph: AtomicBool,
}

/// Owner of device memory, to whom it goes back.
#[derive(Debug)]
enum Owner {
    /// Another object, which frees it.
    Other,
    /// The tensors.
    Tensors,
    /// The graphs that use it.
    Graphs(Arc<GraphMemory>),
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
        let (handle, owner) = match stream.graph_memory() {
            None => (stream.flex().allocate(bytes)?, Owner::Tensors),
            Some(graphs) => (graphs.allocate(stream.flex(), bytes)?, Owner::Graphs(graphs)),
        };
        Ok(Self::of(stream.device(), handle, layout, host_bytes, owner))
    }

    /// New memory for a tensor.
    pub(crate) fn for_tensor(stream: &SpyreStream, layout: StorageLayout) -> Result<Self, Error> {
        // Found out before there is anything to give back.
        OperandWords::of_layout(HandleWords::NONE, 0, layout.layout())?;
        let host_bytes = layout.host_bytes();
        let memory = Self::allocate(stream, Arc::new(layout), host_bytes)?;
        memory.operand_words()?;
        Ok(memory)
    }

    /// Memory of a tensor that another object owns.
    pub(crate) fn borrowed(
        device: &Device,
        handle: DeviceHandle,
        layout: StorageLayout,
    ) -> Result<Self, Error> {
        Self::given(device, handle, layout, Owner::Other)
    }

    /// Memory that was allocated for a tensor.
    pub(crate) fn owned(
        device: &Device,
        handle: DeviceHandle,
        layout: StorageLayout,
    ) -> Result<Self, Error> {
        Self::given(device, handle, layout, Owner::Tensors)
    }

    fn given(
        device: &Device,
        handle: DeviceHandle,
        layout: StorageLayout,
        owner: Owner,
    ) -> Result<Self, Error> {
        let host_bytes = layout.host_bytes();
        let memory = Self::of(device, handle, Arc::new(layout), host_bytes, owner);
        memory.operand_words()?;
        Ok(memory)
    }

    #[inline]
    fn of(
        device: &Device,
        handle: DeviceHandle,
        layout: SharedLayout,
        host_bytes: u64,
        owner: Owner,
    ) -> Self {
        let range = DeviceRange::start_of(handle, layout.layout().device_bytes() as u64);
        let words = OnceLock::new();
        Self {
            device: device.clone(),
            range,
            layout,
            host_bytes,
            words,
            owner,
            is_of_a_graph: AtomicBool::new(false),
        }
    }

    /// Device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns true if it was allocated during a capture with this memory.
    pub(crate) fn is_of(&self, graphs: &Arc<GraphMemory>) -> bool {
        matches!(&self.owner, Owner::Graphs(own) if Arc::ptr_eq(own, graphs))
    }

    /// Returns true if launches on `stream` may put other memory in its place: no graph uses it, and none that is
    /// being captured would find it replaced before its replay.
    pub fn is_replaceable(&self, stream: &SpyreStream) -> bool {
        let is_new = || matches!(self.owner, Owner::Graphs(_));
        !self.is_of_a_graph.load(Ordering::Acquire) && (!stream.is_capturing() || is_new())
    }

    /// Notes that a graph uses it.
    pub(crate) fn set_of_a_graph(&self) {
        self.is_of_a_graph.store(true, Ordering::Release);
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

    /// A view of it as a tensor that plans can be launched with.
    pub fn tensor(self: &Arc<Self>, view: View, dtype: DType) -> Result<SpyreTensor, Error> {
        self.operand_words()?;
        SpyreTensor::in_memory(Arc::clone(self), view, dtype)
    }

    /// Places of the elements on the device.
    pub(crate) fn tensor_layout(&self) -> &SpyreTensorLayout {
        self.layout.layout()
    }

    /// Words of an operand that is in this memory, except for offset and strides.
    pub(crate) fn operand_words(&self) -> Result<&[u64; OPERAND_WORDS], Error> {
        if let Some(words) = self.words.get() {
            return Ok(words);
        }
        let handle = HandleWords(self.range.handle.to_words());
        let words = OperandWords::of_layout(handle, self.range.bytes, self.tensor_layout())?;
        Ok(self.words.get_or_init(|| Box::new(words.encode())))
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
        match &self.owner {
            Owner::Other => {}
            Owner::Graphs(graphs) => graphs.take_back(self.range.handle, self.range.bytes),
            Owner::Tensors => {
                // After a reset of the card it is gone already, and a forked child never had it.
                let _ = self.device.context().free(self.range.handle);
            }
        }
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
