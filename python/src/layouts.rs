//! Device layouts in Python: `SpyreTensorLayout` and the enums that it is written with.

mod arguments;
mod dtype;
mod element_arrangement;
mod formats;
mod state;
mod tensor_layout;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pub(crate) use dtype::TorchDType;
pub(crate) use element_arrangement::ElementArrangement;
pub(crate) use formats::DataFormats;
pub(crate) use tensor_layout::SpyreTensorLayout;

/// Adds the classes and functions to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    DataFormats::register(module)?;
    ElementArrangement::register(module)?;
    module.add_class::<SpyreTensorLayout>()?;
    module.add_function(wrap_pyfunction!(dtype::get_device_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::get_elem_in_stick, module)?)?;
    module.add_function(wrap_pyfunction!(state::_layout_from_state, module)?)
}

/// What a layout is refused for, as PyTorch says it: a `RuntimeError`.
pub(crate) fn refused(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
