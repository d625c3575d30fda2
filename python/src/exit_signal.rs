//! Ctrl-C while the interpreter exits ends the process.
//!
//! Python answers a signal between two bytecodes. At exit that raises KeyboardInterrupt in a callback, which is shown
//! and forgotten, and after the last callback it does nothing at all: the signal is dropped. Only when the
//! interpreter is finalised does the system have the signal again, and a later one ends the process.
//!
//! [`_end_on_interrupt`] closes the gap. It puts a handler before Python's that passes each signal on and arms a
//! timer, which repeats the signal every few milliseconds. The handler ignores the repeats. Once the callbacks have
//! run and the output is flushed, finalisation takes the handler away, and the next repeat ends the process.
#![allow(unsafe_code, reason = "a handler of a signal")]

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, c_long, c_void, itimerspec, siginfo_t, timespec};
use pyo3::prelude::*;

use crate::cards;

/// Nanoseconds between two repeats.
const REPEAT_EVERY: c_long = 5_000_000;

/// Python's handler, which ours passes signals on to.
static PYTHON_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// The timer that repeats a signal.
static TIMER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Has Ctrl-C end the process from here on. Called when the interpreter begins to exit.
///
/// Does nothing if no card was started, or if the program answers the signal itself.
#[pyfunction]
fn _end_on_interrupt(py: Python<'_>) -> PyResult<()> {
    if !cards::is_started() || cards::is_forked() || !is_answered_by_python(py)? {
        return Ok(());
    }
    if let Some(timer) = make_timer() {
        TIMER.store(timer, Ordering::Relaxed);
        put_before_python();
    }
    Ok(())
}

fn is_answered_by_python(py: Python<'_>) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let handler = signal.call_method1("getsignal", (libc::SIGINT,))?;
    Ok(handler.is(&signal.getattr("default_int_handler")?))
}

/// A timer that sends SIGINT once it is armed.
fn make_timer() -> Option<libc::timer_t> {
    // SAFETY: zeros are valid for this structure of integers and pointers.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGINT;
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: it reads `event` and writes `timer`, which both live here.
    let status =
        unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    (status == 0).then_some(timer)
}

/// Installs [`pass_on`] if a function is installed now, which is Python's.
fn put_before_python() {
    // SAFETY: zeros are valid for this structure, and the call writes it.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: a null pointer asks for the present action alone.
    if unsafe { libc::sigaction(libc::SIGINT, ptr::null(), &raw mut action) } != 0 {
        return;
    }
    let is_function = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
    if !is_function || action.sa_flags & libc::SA_SIGINFO != 0 {
        return;
    }
    PYTHON_HANDLER.store(action.sa_sigaction, Ordering::Relaxed);
    action.sa_sigaction = pass_on as *const () as usize;
    action.sa_flags |= libc::SA_SIGINFO;
    // SAFETY: `pass_on` takes what SA_SIGINFO passes, and calls only what is safe in a handler.
    unsafe { libc::sigaction(libc::SIGINT, &raw const action, ptr::null_mut()) };
}

/// The handler: arms the timer and calls Python's handler, but for the timer's own signals.
extern "C" fn pass_on(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the system passes a valid pointer to a handler with SA_SIGINFO.
    if unsafe { (*info).si_code } == libc::SI_TIMER {
        return;
    }
    let span = timespec { tv_sec: 0, tv_nsec: REPEAT_EVERY };
    let times = itimerspec { it_interval: span, it_value: span };
    // SAFETY: the timer was made before this handler was installed, and lives as long as the process. In a forked
    // child there is no such timer, which is an error that changes nothing.
    unsafe {
        libc::timer_settime(TIMER.load(Ordering::Relaxed), 0, &raw const times, ptr::null_mut())
    };
    let handler = PYTHON_HANDLER.load(Ordering::Relaxed);
    // SAFETY: `put_before_python` stored a handler of this type: an action without SA_SIGINFO.
    let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
    handler(signal);
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(_end_on_interrupt, names)?)
}
