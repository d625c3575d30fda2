//! The runtime's own types for Python: tensors as plans know them, Operations, plans, composed launches.
//!
//! `torch_spyre/runtime` gives them the names and the forms that Python code uses.

mod composition;
mod cpu_tensor;
mod device_handle;
mod graph;
mod launch;
mod operation;
mod plan;
mod step;
mod tensor;

use pyo3::prelude::*;

/// Adds the names of this part to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<composition::Composition>()?;
    module.add_class::<cpu_tensor::HostTensor>()?;
    module.add_class::<device_handle::DeviceHandle>()?;
    module.add_class::<graph::RawGraphMemory>()?;
    module.add_class::<graph::RawGraph>()?;
    module.add_class::<operation::RawOperation>()?;
    module.add_class::<operation::SpyreCompute>()?;
    module.add_class::<plan::RawPlan>()?;
    module.add_class::<step::RawStep>()?;
    module.add_class::<tensor::SpyreTensor>()?;
    module.add_function(wrap_pyfunction!(graph::_is_capturing, module)?)?;
    module.add_function(wrap_pyfunction!(launch::_launch_operation, module)?)?;
    module.add_function(wrap_pyfunction!(launch::_launch_plan, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::_take_tensor, module)?)
}
