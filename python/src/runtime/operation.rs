use std::sync::Arc;

use pyo3::prelude::*;
use spyre::artifact::ExpectedSize;
use spyre::runtime::{self, Operation};

use super::device_handle::DeviceHandle;
use super::step::RawStep;
use crate::cards;
use crate::failure::Failure;

/// A compiled program that an Operation computes with.
#[pyclass(frozen, skip_from_py_object, module = "torch_spyre.runtime")]
#[derive(Clone, Debug)]
pub(crate) struct SpyreCompute(pub(super) runtime::SpyreCompute);

#[pymethods]
impl SpyreCompute {
    /// Name of the program.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Expected sizes of each tensor: the tile, or `None` for any size.
    #[getter]
    fn expected_input_shapes(&self) -> Vec<Vec<Option<u64>>> {
        let size = |size: ExpectedSize| match size {
            ExpectedSize::Fixed(elements) => Some(elements.get()),
            ExpectedSize::Any => None,
        };
        let shapes = self.0.expected_input_shapes().into_iter();
        shapes.map(|shape| shape.into_iter().map(size).collect()).collect()
    }

    /// The binary that the stream that loaded it launches; `None` before it is loaded.
    #[getter]
    fn device_handle(&self) -> Option<DeviceHandle> {
        self.0.device_handle().map(DeviceHandle)
    }

    /// Bytes that its correction is given at each launch; 0 if it has none.
    #[getter]
    fn correction_bytes(&self) -> u64 {
        self.0.correction().map_or(0, |_| self.0.correction_metadata().input_bytes)
    }

    /// True for each tensor that it writes.
    fn _written(&self) -> Vec<bool> {
        self.0.tensor_metadata().iter().map(|tensor| tensor.role.is_written()).collect()
    }

    /// The steps of its correction, if it was compiled with one.
    fn _correction(&self) -> Vec<RawStep> {
        self.0.correction().into_iter().flatten().map(RawStep).collect()
    }

    fn __repr__(&self) -> String {
        format!("<SpyreCompute {:?}>", self.0.name())
    }
}

/// An Operation: steps that come first, and a compute.
#[pyclass(frozen, skip_from_py_object, module = "torch_spyre._C")]
#[derive(Clone, Debug)]
pub(crate) struct RawOperation(pub(super) Arc<Operation>);

#[pymethods]
impl RawOperation {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn new(compute: Option<PyRef<'_, SpyreCompute>>, steps: Vec<PyRef<'_, RawStep>>) -> Self {
        let steps: Vec<_> = steps.iter().map(|step| step.0.clone()).collect();
        let operation = match compute.map(|compute| compute.0.clone()) {
            Some(compute) if steps.is_empty() => Operation::new(compute),
            Some(compute) => Operation::with_preprocessing(compute, steps),
            None => Operation::preprocessing(steps),
        };
        Self(Arc::new(operation))
    }

    /// A compute with the correction that it was compiled with.
    #[staticmethod]
    fn corrected(compute: &SpyreCompute) -> Self {
        Self(Arc::new(Operation::corrected(compute.0.clone())))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compute(&self) -> Option<SpyreCompute> {
        self.0.compute().cloned().map(SpyreCompute)
    }

    fn steps(&self) -> Vec<RawStep> {
        self.0.steps().iter().cloned().map(RawStep).collect()
    }

    /// Its binaries as a stream launches them; as the stream that loaded them does, where it is -1.
    fn device_handles(&self, device: i32, stream: i64) -> Result<Vec<DeviceHandle>, Failure> {
        let handles = match stream {
            -1 => self.0.device_handles(),
            stream => self.0.device_handles_on(cards::card(device)?.stream(stream)?)?,
        };
        Ok(handles.into_iter().map(DeviceHandle).collect())
    }
}
