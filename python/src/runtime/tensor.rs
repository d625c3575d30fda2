use std::sync::Arc;

use pyo3::prelude::*;
use spyre::runtime;

use super::device_handle::DeviceHandle;
use crate::failure::Failure;
use crate::handover;
use crate::layouts::SpyreTensorLayout;

/// A tensor as plans know it: a view of memory that lies in sticks. It does not keep the memory.
#[pyclass(frozen, module = "torch_spyre.runtime")]
#[derive(Debug)]
pub(crate) struct SpyreTensor(pub(super) Arc<runtime::SpyreTensor>);

#[pymethods]
impl SpyreTensor {
    /// Elements along each dimension.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.shape().to_vec()
    }

    /// Bytes between neighbours along each dimension, as the host counts them.
    #[getter]
    fn stride(&self) -> Vec<usize> {
        self.0.stride()
    }

    /// The name of the elements' dtype.
    #[getter]
    fn data_type(&self) -> String {
        self.0.data_type().to_string()
    }

    /// Start of its storage.
    #[getter]
    fn device_handle(&self) -> DeviceHandle {
        DeviceHandle(self.0.device_handle())
    }

    /// Device bytes of its storage.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Layout of its storage in device memory.
    #[getter]
    fn layout(&self) -> SpyreTensorLayout {
        self.0.layout().clone().into()
    }

    /// The index of its device.
    #[getter]
    fn device_index(&self) -> u16 {
        self.0.device().index().0
    }

    fn __repr__(&self) -> String {
        let shape = self.0.shape();
        let dtype = self.0.data_type();
        format!("<SpyreTensor {dtype}{shape:?} at {}>", self.0.device_handle())
    }
}

/// The tensor that the shim handed over under a number.
#[pyfunction]
pub(super) fn _take_tensor(number: i64) -> Result<SpyreTensor, Failure> {
    handover::take::<runtime::SpyreTensor>(number).map(SpyreTensor)
}
