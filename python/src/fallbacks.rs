//! Fallbacks: ops that ran on the CPU because the card has no program for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::failure::{Failure, SpyreStatus};
use crate::{abi, cards, variables};

/// Reaction to a fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Warn = 1,
    Silent = 2,
    Error = 3,
}

/// Current [`Mode`]; 0 until it is set, or first read from the environment.
static MODE: AtomicU8 = AtomicU8::new(0);
static COUNTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

impl Mode {
    fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "warn" | "" => Some(Self::Warn),
            "silent" => Some(Self::Silent),
            "error" => Some(Self::Error),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Silent => "silent",
            Self::Error => "error",
        }
    }

    fn current() -> Result<Self, Failure> {
        match MODE.load(Ordering::Relaxed) {
            1 => Ok(Self::Warn),
            2 => Ok(Self::Silent),
            3 => Ok(Self::Error),
            _ => Self::of_the_environment(),
        }
    }

    #[cold]
    fn of_the_environment() -> Result<Self, Failure> {
        let value = variables::value("SPYRE_FALLBACK").unwrap_or_default();
        let wrong = || {
            let message = format!(
                "SPYRE_FALLBACK is {value:?}: give error, warn or silent, or unset it for warn"
            );
            Failure::new(SpyreStatus::Value, message)
        };
        let mode = Self::named(&value).ok_or_else(wrong)?;
        MODE.store(mode as u8, Ordering::Relaxed);
        Ok(mode)
    }
}

/// Refuses a `SPYRE_FALLBACK` that means nothing.
pub(crate) fn check() -> Result<(), Failure> {
    Mode::current().map(drop)
}

/// Counts a fallback; warns of an op's first, or refuses it.
pub(crate) fn note(op: &str) -> Result<(), Failure> {
    if count(op)? { warn(op) } else { Ok(()) }
}

/// Counts a fallback, and says whether it is to be warned of; or refuses it.
fn count(op: &str) -> Result<bool, Failure> {
    let mode = Mode::current()?;
    if mode == Mode::Error {
        return Err(Failure::new(
            SpyreStatus::NotImplemented,
            format!(
                "{op} has no implementation for spyre, and falling back to cpu is forbidden by \
                 SPYRE_FALLBACK=error"
            ),
        ));
    }
    let mut counts = COUNTS.lock();
    let is_first = match counts.get_mut(op) {
        Some(count) => {
            *count += 1;
            false
        }
        None => counts.insert(op.to_owned(), 1).is_none(),
    };
    Ok(is_first && mode == Mode::Warn)
}

#[cold]
fn warn(op: &str) -> Result<(), Failure> {
    let warned = Python::try_attach(|py| -> PyResult<()> {
        let fallbacks = py.import("torch_spyre.ops.fallbacks");
        if let Ok(warn) = fallbacks.and_then(|module| module.getattr("warn_fallback")) {
            return warn.call1((op,)).map(drop);
        }
        let text = format!("{op} is falling back to cpu");
        py.import("warnings")?.call_method1("warn", (text,)).map(drop)
    });
    match warned {
        Some(Err(error)) => Err(Failure::runtime(error)),
        _ => Ok(()),
    }
}

/// Number of runs on the CPU, by op.
#[pyfunction]
fn fallback_stats() -> BTreeMap<String, u64> {
    if cards::is_forked() { BTreeMap::new() } else { COUNTS.lock().clone() }
}

/// Resets these numbers, and warns of each op again.
#[pyfunction]
fn reset_fallback_stats() {
    if !cards::is_forked() {
        COUNTS.lock().clear();
    }
}

/// Counts a fallback that is done in Python, and says whether it is to be warned of; or refuses it.
#[pyfunction]
fn count_fallback(op: &str) -> PyResult<bool> {
    cards::check_process()?;
    Ok(count(op)?)
}

/// Has the CPU carry an op out in place of the device's kernels.
#[pyfunction]
fn register_fallback(namespace: &str, op: &str) -> PyResult<()> {
    abi::register_fallback(namespace, op)?;
    Ok(())
}

/// "warn", "silent" or "error".
#[pyfunction]
fn fallback_mode() -> PyResult<&'static str> {
    Ok(Mode::current()?.name())
}

/// Sets what [`fallback_mode`] gives.
#[pyfunction]
fn set_fallback_mode(mode: &str) -> PyResult<()> {
    let wrong = || {
        let message = format!("fallback mode is {mode:?}: give error, warn or silent");
        Failure::new(SpyreStatus::Value, message)
    };
    MODE.store(Mode::named(mode).ok_or_else(wrong)? as u8, Ordering::Relaxed);
    Ok(())
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(fallback_stats, names)?)?;
    names.add_function(wrap_pyfunction!(reset_fallback_stats, names)?)?;
    names.add_function(wrap_pyfunction!(count_fallback, names)?)?;
    names.add_function(wrap_pyfunction!(register_fallback, names)?)?;
    names.add_function(wrap_pyfunction!(fallback_mode, names)?)?;
    names.add_function(wrap_pyfunction!(set_fallback_mode, names)?)
}
