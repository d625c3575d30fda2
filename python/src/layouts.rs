//! Device layouts in Python: `SpyreTensorLayout` and the enums that it is written with.

mod arguments;
mod dtype;
mod element_arrangement;
mod formats;
mod state;
mod tensor_layout;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::{Failure, SpyreStatus};

pub(crate) use dtype::TorchDType;
pub(crate) use element_arrangement::ElementArrangement;
pub(crate) use formats::DataFormats;
pub(crate) use tensor_layout::SpyreTensorLayout;

/// Adds the classes and functions to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    DataFormats::register(module)?;
    ElementArrangement::register(module)?;
    module.add_class::<SpyreTensorLayout>()?;
    module.add_function(wrap_pyfunction!(formats::encode_constant, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::get_device_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::get_elem_in_stick, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::_is_card_profile, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_layout::_take_layout, module)?)?;
    module.add_function(wrap_pyfunction!(state::_layout_from_state, module)?)
}

/// Exception for a layout that is refused: a `RuntimeError`, as PyTorch raises it.
pub(crate) fn refused(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A dimension that may be counted from the end, counted from the front.
pub(crate) fn own_dim(dim: i64, rank: usize) -> Result<usize, Failure> {
    let from_front = if dim < 0 { dim + rank as i64 } else { dim };
    match usize::try_from(from_front) {
        Ok(own) if own < rank => Ok(own),
        _ => Err(Failure::new(
            SpyreStatus::Index,
            format!(
                "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
                -(rank as i64),
                rank as i64 - 1
            ),
        )),
    }
}
