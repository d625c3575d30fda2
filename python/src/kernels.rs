//! Kernels: compiled from text or saved to folders, prepared and launched on tensors.

mod cached_launches;
mod compiled_kernel;
mod graph_launch;
mod graph_segment;
mod job_plan;
mod journal;
mod kernel_checks;
mod prepared_plan;
mod samples;

use pyo3::prelude::*;

use cached_launches::KnownLaunch;
pub(crate) use compiled_kernel::CompiledKernel;
pub(crate) use journal::{Launch, Origin, explain, kept, note_launch};
pub(crate) use prepared_plan::{PreparedPlan, find, of_folder};

/// Adds the names of this part to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CompiledKernel>()?;
    module.add_function(wrap_pyfunction!(compiled_kernel::_compile_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(compiled_kernel::_is_kernel_function, module)?)?;
    module.add_class::<graph_launch::GraphLaunch>()?;
    module.add_class::<graph_segment::GraphSegment>()?;
    module.add_class::<job_plan::JobPlan>()?;
    module.add_function(wrap_pyfunction!(job_plan::_prepare_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(samples::_save_sample_plan, module)?)
}
