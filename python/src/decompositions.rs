//! Ops that are carried out as others: `torch_spyre.ops.decompositions` is asked once for each op.

use std::collections::HashMap;

use parking_lot::RwLock;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::native;

static KNOWN: RwLock<Option<HashMap<String, bool>>> = RwLock::new(None);

/// Returns true if this op has a decomposition, which is a kernel from then on. `EAGER_MODE=0` leaves to
/// the CPU what that has a kernel for.
pub(crate) fn has(op: &str, has_cpu: bool) -> Result<bool, Failure> {
    let known = KNOWN.read().as_ref().and_then(|known| known.get(op).copied());
    match known {
        Some(has) => Ok(has),
        None if has_cpu && !native::is_on() => Ok(false),
        None => ask(op),
    }
}

/// No lock is held meanwhile: Python may let another thread run.
#[cold]
fn ask(op: &str) -> Result<bool, Failure> {
    let asked = Python::try_attach(|py| {
        let decompositions = py.import("torch_spyre.ops.decompositions")?;
        decompositions.call_method1("install", (op,))?.extract::<bool>()
    });
    // Without an interpreter there are no functions of Python.
    let has = asked.unwrap_or(Ok(false)).map_err(Failure::runtime)?;
    KNOWN.write().get_or_insert_default().insert(op.to_owned(), has);
    Ok(has)
}
