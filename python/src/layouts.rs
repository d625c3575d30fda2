//! Layouts as Python sees them.

use pyo3::prelude::*;

/// Adds the names of this part to the extension module.
pub(crate) fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
