//! What is seen to when the interpreter ends.
#![allow(unsafe_code, reason = "a function of the shim")]

use pyo3::prelude::*;

use crate::cards;

unsafe extern "C" {
    fn spyre_flush_autograd(device: i32) -> i32;
}

/// Waits until threads of the autograd engine hold nothing of Python's. Called at exit.
#[pyfunction]
fn _flush_autograd(py: Python<'_>) {
    if !cards::is_started() || !has_autograd_threads() {
        return;
    }
    py.detach(|| {
        for card in cards::opened() {
            // SAFETY: it takes a number and catches all that is thrown.
            unsafe { spyre_flush_autograd(i32::from(card.index().0)) };
        }
    });
}

/// Whether a backward pass ever ran on a device: the engine names its threads.
fn has_autograd_threads() -> bool {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().any(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.starts_with("pt_autograd")
    })
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(_flush_autograd, names)?)
}
