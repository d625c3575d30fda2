//! Signals that end a wait: Ctrl-C, and whatever handlers of Python raise.
#![allow(
    unsafe_code,
    reason = "the shim asks for the exception; handlers run without pyo3's count of attaches"
)]

use std::cell::RefCell;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use spyre::flex::{Interruption, set_interrupt_check};

thread_local! {
    /// Exception that a signal handler raised, until the wait has ended.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Has every wait for a device look for signals.
pub(crate) fn watch() {
    set_interrupt_check(check);
}

/// Runs the handlers of signals that have come. Python does that on its main thread only.
fn check() -> Option<Interruption> {
    if !is_main_thread() {
        return None;
    }
    let (raised, why) = run_handlers()?;
    RAISED.set(Some(raised));
    Some(why)
}

/// Runs the handlers with the interpreter's lock, and gives what one of them raised.
///
/// They may use the device, and wait for it: then this thread is in here again, below PyTorch, which has let go
/// of the lock. `Python::attach` would take the lock for held, as the outer call attached the thread. So this one
/// asks the interpreter itself, and attaches nothing.
fn run_handlers() -> Option<(PyErr, Interruption)> {
    // SAFETY: it takes nothing, and may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return None;
    }
    // SAFETY: the interpreter is there, and this is its main thread, which it does not end without.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // SAFETY: the lock was just taken, and is let go of below.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: this thread holds the interpreter's lock.
    let has_raised = unsafe { ffi::PyErr_CheckSignals() } != 0;
    let raised = has_raised.then(|| PyErr::take(py)).flatten().map(|raised| {
        let is_keyboard = raised.is_instance_of::<PyKeyboardInterrupt>(py);
        (raised, if is_keyboard { Interruption::Keyboard } else { Interruption::Handler })
    });
    // SAFETY: the state is that of the call above, and nothing of the interpreter is used after it.
    unsafe { ffi::PyGILState_Release(state) };
    raised
}

/// The exception that ended the calling thread's last wait.
pub(crate) fn take() -> PyErr {
    let missing = || PyRuntimeError::new_err("a wait was interrupted");
    RAISED.take().unwrap_or_else(missing)
}

/// Makes it the interpreter's current exception again; the caller holds the interpreter's lock.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_restore_interrupt() {
    Python::attach(|py| take().restore(py));
}

fn is_main_thread() -> bool {
    // SAFETY: both take nothing and cannot fail.
    unsafe { libc::gettid() == libc::getpid() }
}
