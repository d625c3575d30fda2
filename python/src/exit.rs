//! Work at the interpreter's exit.
#![allow(unsafe_code, reason = "a function of the shim")]

use pyo3::prelude::*;

use crate::cards;

unsafe extern "C" {
    fn spyre_flush_autograd(device: i32);
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

/// The niceness of the device's threads while the interpreter ends: a tenth of a share.
///
/// A thread also needs its share to die. With less than this (SCHED_IDLE), a process that is interrupted on a busy
/// machine ends 200 ms later.
const NICE_AT_EXIT: libc::c_int = 10;

/// Has the device's threads make way for the interpreter's end, which competes with work that is still
/// under way. Called at exit.
#[pyfunction]
fn _make_way() {
    if !cards::is_started() || cards::is_forked() {
        return;
    }
    for thread in threads("spyre") {
        // SAFETY: it takes numbers; a thread that has ended is an error, which means nothing here.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread.cast_unsigned(), NICE_AT_EXIT) };
    }
}

/// Returns true if a backward pass ever ran on a device: the autograd engine names its threads.
fn has_autograd_threads() -> bool {
    threads("pt_autograd").next().is_some()
}

/// The threads of this process whose names begin so.
fn threads(name: &str) -> impl Iterator<Item = libc::pid_t> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(move |task| {
        let known = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let is_meant = known.starts_with(name);
        is_meant.then(|| task.file_name().to_str()?.parse().ok()).flatten()
    })
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(_flush_autograd, names)?)?;
    names.add_function(wrap_pyfunction!(_make_way, names)?)
}
