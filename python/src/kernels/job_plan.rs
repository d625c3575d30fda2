use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use super::PreparedPlan;
use crate::cards;
use crate::failure::Failure;

/// A kernel that is ready to be launched: what `prepare_kernel` makes from a folder.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct JobPlan {
    plan: Arc<PreparedPlan>,
}

#[pymethods]
impl JobPlan {
    /// Number of steps of a launch.
    fn num_steps(&self) -> usize {
        self.plan.job.num_steps()
    }

    /// Bytes of the job's memory, as its compiler counts them.
    fn job_allocation_size(&self) -> u64 {
        self.plan.job.job_allocation_size()
    }

    /// Type of a step: "H2D", "D2H", "Compute" or "HostCompute".
    fn get_step_type(&self, index: i64) -> Result<String, Failure> {
        let out_of_range = || Failure::runtime(format!("Step index out of range: {index}"));
        let index = usize::try_from(index).map_err(|_| out_of_range())?;
        Ok(self.plan.job.step_type(index)?.to_string())
    }

    /// Tensors of a launch: name, dtype, sizes (None for any), and True if it is written.
    fn tensors(&self) -> Vec<(String, String, Vec<Option<u64>>, bool)> {
        use spyre::artifact::ExpectedSize;
        let tensors = self.plan.job.plan().map_or(&[][..], |plan| plan.tensor_input_metadata());
        let size = |size: ExpectedSize| match size {
            ExpectedSize::Fixed(elements) => Some(elements.get()),
            ExpectedSize::Any => None,
        };
        let row = |tensor: &spyre::artifact::TensorMetadata| {
            let sizes = tensor.dims.iter().map(|dim| size(dim.size)).collect();
            (tensor.name.clone(), tensor.dtype.to_string(), sizes, tensor.role.is_written())
        };
        tensors.iter().map(row).collect()
    }

    /// The folder that it was prepared from.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.plan.job.folder().to_owned()
    }

    /// The index of the device that it lies on.
    #[getter]
    fn device_index(&self) -> i32 {
        self.plan.device
    }

    /// Number by which an op launches it.
    #[getter]
    fn _number(&self) -> i64 {
        self.plan.number
    }

    fn __repr__(&self) -> String {
        let name = self.plan.name();
        let device = self.plan.device;
        format!("<JobPlan {name:?} of {} steps on spyre:{device}>", self.num_steps())
    }
}

/// Reads a folder and copies its programs to a device: the current one and its current stream, where
/// they are -1.
#[pyfunction]
#[pyo3(signature = (folder, device=-1, stream=-1))]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(super) fn _prepare_kernel(
    py: Python<'_>,
    folder: PathBuf,
    device: i32,
    stream: i64,
) -> Result<JobPlan, Failure> {
    py.detach(|| {
        let index = i32::from(cards::card(device)?.index().0);
        let stream = if stream < 0 { i64::from(cards::current_stream(index)) } else { stream };
        Ok(JobPlan { plan: PreparedPlan::prepare(&folder, index, stream)? })
    })
}
