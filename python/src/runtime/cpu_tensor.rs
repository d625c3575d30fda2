use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spyre::runtime::CPUTensor;

use crate::failure::{Failure, SpyreStatus};
use crate::layouts::TorchDType;

/// A tensor in host memory, row by row, that copies borrow while they are queued.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct HostTensor(pub(super) CPUTensor);

#[pymethods]
impl HostTensor {
    /// Elements as they lie in memory; zeros, without bytes.
    #[new]
    #[pyo3(signature = (shape, dtype, bytes=None))]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn new(shape: Vec<usize>, dtype: TorchDType, bytes: Option<Vec<u8>>) -> Result<Self, Failure> {
        let TorchDType::Known(dtype) = dtype else {
            return Err(Failure::new(SpyreStatus::Type, "the stack does not know this dtype"));
        };
        let tensor = match bytes {
            Some(bytes) => CPUTensor::from_bytes(&shape, dtype, bytes)?,
            None => CPUTensor::zeroed(&shape, dtype)?,
        };
        Ok(Self(tensor))
    }

    /// Its elements as they lie in memory. Refused while a copy writes them.
    fn bytes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Failure> {
        let bytes = self.0.buffer().read().map_err(spyre::runtime::Error::from)?;
        Ok(PyBytes::new(py, &bytes))
    }
}
