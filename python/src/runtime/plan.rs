use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spyre::artifact::{CompilerOutput, ExpectedSize, SpyreCode, TensorMetadata};
use spyre::runtime::{Error, ExecutionPlan};

use super::operation::RawOperation;
use crate::cards;
use crate::failure::Failure;
use crate::kernels::CompiledKernel;

/// A tensor of a launch: name, dtype, names and sizes of dims, whether it is written.
type Tensor = (String, String, Vec<(String, Option<u64>)>, bool);

/// An ordered list of Operations, with what a compiler says about them.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct RawPlan(Mutex<ExecutionPlan>);

#[pymethods]
impl RawPlan {
    /// An empty plan.
    #[new]
    fn new() -> Self {
        Self(Mutex::new(ExecutionPlan::new()))
    }

    /// The plan in a folder.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn of_folder(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let read = || -> Result<Option<CompilerOutput>, Failure> {
            if folder.join("plan.json").is_file() && !SpyreCode::is_in(&folder) {
                return Ok(Some(CompilerOutput::load(&folder).map_err(Error::from)?));
            }
            let code = SpyreCode::load(&folder).map_err(Error::from)?;
            Ok(code.plan().map_err(Error::from)?)
        };
        let output = py.detach(read)?.ok_or_else(|| {
            let folder = folder.display();
            PyValueError::new_err(format!("{folder} holds programs of another card, and no plan"))
        })?;
        Self::of_output(output)
    }

    /// The plan of a kernel that was compiled from its text.
    #[staticmethod]
    fn of_kernel(kernel: &CompiledKernel) -> PyResult<Self> {
        Self::of_output(kernel.output())
    }

    /// Adds an Operation at the end.
    fn add_operation(&self, operation: &RawOperation) {
        self.0.lock().add_operation((*operation.0).clone());
    }

    fn operations(&self) -> Vec<RawOperation> {
        let plan = self.0.lock();
        plan.operations().iter().map(|one| RawOperation(Arc::new(one.clone()))).collect()
    }

    /// Tensors of a launch: name, dtype, names and sizes (None for any) of dims, and True if it is written.
    fn tensors(&self) -> Vec<Tensor> {
        let size = |size: ExpectedSize| match size {
            ExpectedSize::Fixed(elements) => Some(elements.get()),
            ExpectedSize::Any => None,
        };
        let row = |tensor: &TensorMetadata| {
            let dims = tensor.dims.iter().map(|dim| (dim.name.clone(), size(dim.size))).collect();
            (tensor.name.clone(), tensor.dtype.to_string(), dims, tensor.role.is_written())
        };
        self.0.lock().tensor_input_metadata().iter().map(row).collect()
    }

    /// Bytes that the correction of each Operation with a compute is given.
    fn correction_bytes(&self) -> Vec<u64> {
        self.0.lock().correction_metadata().iter().map(|of| of.input_bytes).collect()
    }

    /// Bytes that are written when a stream's part is made: their offset in its image, and their number.
    fn init_packets(&self) -> Vec<(u64, usize)> {
        let plan = self.0.lock();
        plan.init_packets().iter().map(|packet| (packet.offset, packet.bytes.len())).collect()
    }

    /// Number of scalars of a launch.
    #[getter]
    fn scalars(&self) -> usize {
        self.0.lock().scalars()
    }

    /// Copies each binary to device memory, by way of a stream.
    fn load(&self, py: Python<'_>, device: i32, stream: i64) -> Result<(), Failure> {
        let plan = self.snapshot();
        py.detach(|| Ok(plan.load(cards::card(device)?.stream(stream)?)?))
    }

    #[getter]
    fn is_loaded(&self) -> bool {
        self.0.lock().is_loaded()
    }
}

impl RawPlan {
    fn of_output(output: CompilerOutput) -> PyResult<Self> {
        let plan = ExecutionPlan::from_compiler_output(output).map_err(Failure::from)?;
        Ok(Self(Mutex::new(plan)))
    }

    /// A copy of its present state, which shares the Operations.
    pub(super) fn snapshot(&self) -> ExecutionPlan {
        self.0.lock().clone()
    }
}
