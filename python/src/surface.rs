//! Functions of `torch.spyre` that PyTorch's hooks do not cover: the module's Python files call these.

mod memory;
mod runtime;
mod snapshot;

use pyo3::prelude::*;

pub(crate) use memory::tell_observers;

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    runtime::register(names)?;
    memory::register(names)?;
    snapshot::register(names)
}
