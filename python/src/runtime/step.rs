use pyo3::prelude::*;
use spyre::hal::DeviceRange;
use spyre::runtime::{DevicePlace, HostAddress, PreProcessCompute};

use super::cpu_tensor::HostTensor;
use super::device_handle::DeviceHandle;
use super::tensor::SpyreTensor;
use crate::failure::Failure;

/// A step of an Operation.
#[pyclass(frozen, skip_from_py_object, module = "torch_spyre._C")]
#[derive(Clone, Debug)]
pub(crate) struct RawStep(pub(super) PreProcessCompute);

#[pymethods]
impl RawStep {
    /// A copy of all of a host tensor to a tensor on the device.
    #[staticmethod]
    fn copy_to_tensor(host: &HostTensor, tensor: &SpyreTensor) -> Result<Self, Failure> {
        Ok(Self(tensor.0.copy_to_device(&host.0)?))
    }

    /// A copy of all of a tensor on the device to a host tensor.
    #[staticmethod]
    fn copy_from_tensor(host: &HostTensor, tensor: &SpyreTensor) -> Result<Self, Failure> {
        Ok(Self(tensor.0.copy_from_device(&host.0)?))
    }

    /// A copy of bytes as they are to so many bytes of device memory.
    #[staticmethod]
    fn copy_to_device(host: &HostTensor, handle: DeviceHandle, offset: u64, size: u64) -> Self {
        let range = DeviceRange { handle: handle.0, offset, bytes: size };
        let host = HostAddress::Buffer(host.0.buffer().clone());
        Self(PreProcessCompute::copy_to_device(host, range))
    }

    /// A copy of so many bytes of device memory as they are.
    #[staticmethod]
    fn copy_from_device(host: &HostTensor, handle: DeviceHandle, offset: u64, size: u64) -> Self {
        let range = DeviceRange { handle: handle.0, offset, bytes: size };
        let host = HostAddress::Buffer(host.0.buffer().clone());
        Self(PreProcessCompute::copy_from_device(host, range))
    }

    /// A launch of the binary at a handle.
    #[staticmethod]
    fn device_launch(handle: DeviceHandle) -> Self {
        Self(PreProcessCompute::device_launch(handle.0))
    }

    /// "CopyToDevice", "CopyFromDevice" or "DeviceLaunch".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            PreProcessCompute::CopyToDevice { .. } => "CopyToDevice",
            PreProcessCompute::CopyFromDevice { .. } => "CopyFromDevice",
            PreProcessCompute::DeviceLaunch { .. } => "DeviceLaunch",
        }
    }

    /// Device bytes that it copies; `None` for a launch.
    #[getter]
    fn size(&self) -> Option<u64> {
        match self.0 {
            PreProcessCompute::CopyToDevice { size, .. }
            | PreProcessCompute::CopyFromDevice { size, .. } => Some(size),
            PreProcessCompute::DeviceLaunch { .. } => None,
        }
    }

    /// The device's side; `None` for a correction, of which every stream has its own.
    #[getter]
    fn device_handle(&self) -> Option<DeviceHandle> {
        let (PreProcessCompute::CopyToDevice { device_handle, .. }
        | PreProcessCompute::CopyFromDevice { device_handle, .. }
        | PreProcessCompute::DeviceLaunch { device_handle }) = self.0;
        match device_handle {
            DevicePlace::At { handle, .. } => Some(DeviceHandle(handle)),
            DevicePlace::Correction => None,
        }
    }
}
