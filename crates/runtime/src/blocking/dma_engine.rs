use std::sync::Arc;

use spyre_layout::{SpyreTensorLayout, View};

use super::{LocationInSegment, Program};
use crate::{CPUTensor, Error, SpyreStream, SpyreTensor, StorageLayout, TensorMemory};

/// Moves programs and tensors between host and device, and waits until they are there.
///
/// ```
/// use std::sync::Arc;
/// use spyre_hal::{MemoryMode, ScriptedCard};
/// use spyre_numerics::DType;
/// use spyre_runtime::blocking::DMAEngine;
/// use spyre_runtime::{CPUTensor, Device};
///
/// let device = Device::open(Arc::new(ScriptedCard::new(MemoryMode::Vf)))?;
/// let engine = DMAEngine::new(&device.default_stream()?);
/// let host = CPUTensor::from_values(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
///
/// let place = engine.allocate_tensor(&host)?; // a segment, and an offset in it
/// assert_eq!((place.segment_id(), place.vf_offset() % 128), (0, 0));
/// let tensor = engine.copy_to_device(&host, place)?;
/// let back = CPUTensor::zeroed(&[2, 2], DType::Float32)?;
/// engine.copy_to_host(&tensor, &back)?;
/// assert_eq!(back.values::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DMAEngine {
    stream: SpyreStream,
}

impl DMAEngine {
    /// An engine that works through this stream.
    pub fn new(stream: &SpyreStream) -> Self {
        Self { stream: stream.clone() }
    }

    /// Room for a host tensor, as the device lays it out.
    pub fn allocate_tensor(&self, host: &CPUTensor) -> Result<LocationInSegment, Error> {
        LocationInSegment::allocate(&self.stream, self.layout(host)?.device_bytes() as u64)
    }

    /// Room for each of a program's binaries.
    pub fn allocate_program(&self, program: &Program) -> Result<Vec<LocationInSegment>, Error> {
        let bytes = program.binary_bytes().into_iter();
        bytes.map(|bytes| LocationInSegment::allocate_program(&self.stream, bytes)).collect()
    }

    /// Copies a program's binaries to the device, one to each location. It can then be launched.
    pub fn copy_program(
        &self,
        program: &Program,
        locations: Vec<LocationInSegment>,
    ) -> Result<(), Error> {
        program.load_at(&self.stream, locations)?;
        self.stream.synchronize()
    }

    /// Copies a host tensor to the device.
    pub fn copy_to_device(
        &self,
        host: &CPUTensor,
        location: LocationInSegment,
    ) -> Result<SpyreTensor, Error> {
        let device = self.stream.device();
        let layout = self.layout(host)?;
        let handle = location.take(device, layout.device_bytes() as u64)?;
        let layout = StorageLayout::new(layout, host.data_type());
        let memory = Arc::new(TensorMemory::owned(device, handle, layout)?);
        let tensor = memory.tensor(View::contiguous(host.shape())?, host.data_type())?;
        tensor.copy_from(&self.stream, host)?;
        self.stream.synchronize()?;
        Ok(tensor)
    }

    /// Copies a device tensor to the host.
    pub fn copy_to_host(&self, tensor: &SpyreTensor, host: &CPUTensor) -> Result<(), Error> {
        tensor.copy_to(&self.stream, host)?;
        self.stream.synchronize()
    }

    fn layout(&self, host: &CPUTensor) -> Result<SpyreTensorLayout, Error> {
        let profile = self.stream.device().profile();
        Ok(SpyreTensorLayout::for_dtype(profile, host.shape(), host.data_type())?)
    }
}
