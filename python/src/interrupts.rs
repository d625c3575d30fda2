//! Signals that end a wait: Ctrl-C, and whatever handlers of Python raise.
#![allow(unsafe_code, reason = "the shim asks for the exception")]

use std::cell::RefCell;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use spyre::flex::{Interruption, set_interrupt_check};

thread_local! {
    /// What a handler raised, until the wait has ended.
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
    let raised = Python::try_attach(|py| {
        let raised = py.check_signals().err()?;
        let is_keyboard = raised.is_instance_of::<PyKeyboardInterrupt>(py);
        let why = if is_keyboard { Interruption::Keyboard } else { Interruption::Handler };
        Some((raised, why))
    });
    let (raised, why) = raised.flatten()?;
    RAISED.set(Some(raised));
    Some(why)
}

/// The exception that ended the calling thread's last wait.
pub(crate) fn take() -> PyErr {
    let missing = || PyRuntimeError::new_err("a wait was interrupted");
    RAISED.take().unwrap_or_else(missing)
}

/// Makes it the interpreter's current exception again; the caller holds the interpreter's lock.
#[unsafe(no_mangle)]
extern "C" fn spyre_restore_interrupt() {
    Python::attach(|py| take().restore(py));
}

fn is_main_thread() -> bool {
    // SAFETY: both take nothing and cannot fail.
    unsafe { libc::gettid() == libc::getpid() }
}
