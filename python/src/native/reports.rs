//! Ops that have kernels, and how a real card would handle the kernels of this process.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use pyo3::prelude::*;
use spyre::aten::Op;
use spyre::compiler::{CardNote, Kernel};

use super::plans;

/// Notes of launches, by the names of their kernels.
static FOUND: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// Reports something that a launch of a kernel has found.
pub(super) fn note(kernel: &Kernel, note: &CardNote) {
    FOUND.lock().entry(kernel.name().to_owned()).or_default().insert(note.to_string());
}

/// Name and notes of each kernel that was launched: what a real card would refuse, leave to the host, or do
/// in another way. The profile `card` adds the notes of its launches.
#[pyfunction]
fn card_reports(py: Python<'_>) -> Vec<(String, Vec<String>)> {
    py.detach(|| plans::texts().iter().filter_map(|text| report(text)).collect())
}

fn report(text: &str) -> Option<(String, Vec<String>)> {
    let kernel: Kernel = text.parse().ok()?;
    let mut notes: Vec<String> = kernel.card_report(&[]).iter().map(ToString::to_string).collect();
    for found in FOUND.lock().get(kernel.name()).into_iter().flatten() {
        if !notes.contains(found) {
            notes.push(found.clone());
        }
    }
    Some((kernel.name().to_owned(), notes))
}

/// The ops that kernels are known for, such as `add.out`.
#[pyfunction]
fn native_ops() -> Vec<&'static str> {
    Op::all().map(Op::name).collect()
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(native_ops, names)?)?;
    names.add_function(wrap_pyfunction!(card_reports, names)?)
}
