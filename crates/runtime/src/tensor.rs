use std::sync::Arc;

use spyre_hal::DeviceHandle;
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DType;

use crate::blocking::{segment_id, vf_offset};
use crate::cpu_tensor::element_bytes;
use crate::storage_layout::StorageLayout;
use crate::{CPUTensor, Device, Error, HostAddress, PreProcessCompute, SpyreStream, TensorMemory};

/// A tensor in device memory: a view of a storage that lies in sticks.
///
/// Clones and views share the storage, whose memory is freed with the last of them; what is queued
/// still has it. Copies go through a stream and return at once.
///
/// ```
/// use std::sync::Arc;
/// use spyre_hal::{MemoryMode, ScriptedCard};
/// use spyre_runtime::{CPUTensor, Device, SpyreTensor};
///
/// let device = Device::open(Arc::new(ScriptedCard::new(MemoryMode::Vf)))?;
/// let stream = device.default_stream()?;
/// let host = CPUTensor::from_values(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
///
/// let tensor = SpyreTensor::from_host(&stream, &host)?;
/// assert_eq!((tensor.shape(), tensor.stride()), ([2, 3].as_slice(), vec![12, 4]));
/// assert_eq!(tensor.size_bytes(), 2 * 128); // each row fills a stick
///
/// let columns = tensor.transpose(0, 1)?.narrow(0, 1, 2)?.to_host(&stream)?;
/// stream.synchronize()?;
/// assert_eq!(columns.values::<f32>()?, [2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpyreTensor {
    memory: Arc<TensorMemory>,
    view: View,
    dtype: DType,
}

impl SpyreTensor {
    /// Memory with anything in it, laid out as the device's profile has it.
    pub fn empty(stream: &SpyreStream, shape: &[usize], dtype: DType) -> Result<Self, Error> {
        let layout = SpyreTensorLayout::for_dtype(stream.device().profile(), shape, dtype)?;
        Self::with_layout(stream, shape, dtype, layout)
    }

    /// Memory with anything in it, in a layout of one's own for a row-major tensor of this shape.
    pub fn with_layout(
        stream: &SpyreStream,
        shape: &[usize],
        dtype: DType,
        layout: SpyreTensorLayout,
    ) -> Result<Self, Error> {
        let view = View::contiguous(shape)?;
        check_reach(&view, &layout)?;
        let memory = TensorMemory::for_tensor(stream, StorageLayout::new(layout, dtype))?;
        Ok(Self { memory: Arc::new(memory), view, dtype })
    }

    /// A tensor in memory that the caller owns, and keeps. The handle is checked whenever the tensor is
    /// used.
    pub fn at(
        device: &Device,
        handle: DeviceHandle,
        layout: SpyreTensorLayout,
        dtype: DType,
        view: View,
    ) -> Result<Self, Error> {
        check_reach(&view, &layout)?;
        let layout = StorageLayout::new(layout, dtype);
        let memory = TensorMemory::borrowed(device, handle, layout)?;
        Ok(Self { memory: Arc::new(memory), view, dtype })
    }

    /// A new tensor with the elements of a host tensor.
    pub fn from_host(stream: &SpyreStream, host: &CPUTensor) -> Result<Self, Error> {
        let tensor = Self::empty(stream, host.shape(), host.data_type())?;
        tensor.copy_from(stream, host)?;
        Ok(tensor)
    }

    /// A new host tensor with these elements, once the stream has come there.
    pub fn to_host(&self, stream: &SpyreStream) -> Result<CPUTensor, Error> {
        let host = CPUTensor::zeroed(self.shape(), self.dtype)?;
        self.copy_to(stream, &host)?;
        Ok(host)
    }

    /// Overwrites the elements with those of a host tensor, converted if need be.
    pub fn copy_from(&self, stream: &SpyreStream, host: &CPUTensor) -> Result<(), Error> {
        self.check_copy(stream, host.shape(), self.shape())?;
        if self.view.elements() == 0 {
            return Ok(());
        }
        let copy = self.copy_to_device(host)?;
        stream.launch_step(copy)?;
        Ok(())
    }

    /// Overwrites a host tensor with these elements, once the stream has come there.
    pub fn copy_to(&self, stream: &SpyreStream, host: &CPUTensor) -> Result<(), Error> {
        self.check_copy(stream, self.shape(), host.shape())?;
        if self.view.elements() == 0 {
            return Ok(());
        }
        let copy = self.copy_from_device(host)?;
        stream.launch_step(copy)?;
        Ok(())
    }

    /// The step that overwrites the elements with those of a host tensor, for an Operation.
    pub fn copy_to_device(&self, host: &CPUTensor) -> Result<PreProcessCompute, Error> {
        check_shapes(host.shape(), self.shape())?;
        let nest = DmaNest::derive(host_end(host), self.device_end())?;
        Ok(PreProcessCompute::copy_to_device(self.side(host, nest), self.memory.range()))
    }

    /// The step that overwrites a host tensor with these elements, for an Operation.
    pub fn copy_from_device(&self, host: &CPUTensor) -> Result<PreProcessCompute, Error> {
        check_shapes(self.shape(), host.shape())?;
        let nest = DmaNest::derive(self.device_end(), host_end(host))?;
        Ok(PreProcessCompute::copy_from_device(self.side(host, nest), self.memory.range()))
    }

    /// Elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        self.view.size()
    }

    /// Bytes between neighbours along each dimension, as the host counts them: on the device, rows
    /// are cut into sticks.
    pub fn stride(&self) -> Vec<usize> {
        let bytes = element_bytes(self.dtype);
        self.view.stride().iter().map(|stride| stride * bytes).collect()
    }

    /// Data type of its elements.
    pub fn data_type(&self) -> DType {
        self.dtype
    }

    /// Handle of its storage's start.
    pub fn device_handle(&self) -> DeviceHandle {
        self.memory.range().handle
    }

    /// Device bytes of its storage.
    pub fn size_bytes(&self) -> u64 {
        self.memory.range().bytes
    }

    /// Layout of its storage in device memory.
    pub fn layout(&self) -> &SpyreTensorLayout {
        self.memory.tensor_layout()
    }

    /// The part of the storage that it shows, in elements.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Device that it is on.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Another view of the same storage, in elements.
    pub fn as_strided(
        &self,
        shape: &[usize],
        stride: &[usize],
        offset: usize,
    ) -> Result<Self, Error> {
        let view = View::new(shape, stride, offset)?;
        check_reach(&view, self.layout())?;
        Ok(Self { view, ..self.clone() })
    }

    /// A part along one dimension.
    pub fn narrow(&self, dim: usize, start: usize, length: usize) -> Result<Self, Error> {
        let elements = *self.shape().get(dim).ok_or_else(|| self.no_such(dim))?;
        if start.checked_add(length).is_none_or(|end| end > elements) {
            return Err(Error::Narrow { dim, start, length, elements });
        }
        let mut shape = self.shape().to_vec();
        shape[dim] = length;
        let offset = self.view.offset() + start * self.view.stride()[dim];
        self.as_strided(&shape, self.view.stride(), offset)
    }

    /// Two dimensions, exchanged.
    pub fn transpose(&self, first: usize, second: usize) -> Result<Self, Error> {
        let last = first.max(second);
        if last >= self.shape().len() {
            return Err(self.no_such(last));
        }
        let mut shape = self.shape().to_vec();
        let mut stride = self.view.stride().to_vec();
        shape.swap(first, second);
        stride.swap(first, second);
        self.as_strided(&shape, &stride, self.view.offset())
    }

    /// Number of the device memory segment of its storage; 0 in PF mode.
    pub fn segment_id(&self) -> u16 {
        segment_id(self.device_handle())
    }

    /// Bytes from the start of the segment to its storage; 0 in PF mode.
    pub fn vf_offset(&self) -> u64 {
        vf_offset(self.device_handle())
    }

    /// A view of memory that others share.
    pub(crate) fn in_memory(
        memory: Arc<TensorMemory>,
        view: View,
        dtype: DType,
    ) -> Result<Self, Error> {
        check_reach(&view, memory.tensor_layout())?;
        Ok(Self { memory, view, dtype })
    }

    pub(crate) fn memory(&self) -> &Arc<TensorMemory> {
        &self.memory
    }

    fn side(&self, host: &CPUTensor, nest: DmaNest) -> HostAddress {
        HostAddress::Nested { buffer: host.buffer().clone(), nest: Arc::new(nest) }
    }

    fn device_end(&self) -> Endpoint<'_> {
        Endpoint::device(&self.view, self.memory.tensor_layout())
    }

    fn check_copy(&self, stream: &SpyreStream, from: &[usize], to: &[usize]) -> Result<(), Error> {
        if !self.device().is(stream.device()) {
            let expected = stream.device().index();
            let given = self.device().index();
            return Err(Error::TensorDevice { tensor: "of the copy".into(), expected, given });
        }
        check_shapes(from, to)
    }

    fn no_such(&self, dim: usize) -> Error {
        Error::NoSuchDim { dim, rank: self.shape().len() }
    }
}

fn check_shapes(from: &[usize], to: &[usize]) -> Result<(), Error> {
    if from == to {
        return Ok(());
    }
    Err(Error::CopyShapes { from: from.to_vec(), to: to.to_vec() })
}

fn host_end(host: &CPUTensor) -> Endpoint<'_> {
    Endpoint::host(host.view(), host.data_type().host_format())
}

fn check_reach(view: &View, layout: &SpyreTensorLayout) -> Result<(), Error> {
    let Some(last) = view.last_element() else { return Ok(()) };
    let is_inside = match layout.storage_elements() {
        Some(elements) => last < elements,
        None => layout.device_element(last).is_some(),
    };
    if is_inside {
        return Ok(());
    }
    let elements = layout.storage_elements().unwrap_or_else(|| layout.device_elements());
    let shape = view.size().to_vec();
    let stride = view.stride().to_vec();
    Err(Error::ViewReach { shape, stride, offset: view.offset(), last, elements })
}
