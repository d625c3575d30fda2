//! Table of operators, as Python asks for it.

use pyo3::prelude::*;
use spyre::aten::{Flag, OperatorRow, Way};

/// Name and ways of each overload that has a row: "native" or "composite", or both.
#[pyfunction]
fn operators() -> Vec<(&'static str, Vec<&'static str>)> {
    let is_open = |way: &Way| !matches!(way, Way::PyTorch | Way::Cpu);
    let rows = OperatorRow::all()
        .map(|(name, row)| (name, row.ways().filter(is_open).map(Way::name).collect::<Vec<_>>()));
    rows.filter(|(_, ways)| !ways.is_empty()).collect()
}

/// Names of the flags that an overload has, such as "MixedDevices".
#[pyfunction]
fn operator_flags(op: &str) -> Vec<String> {
    let word = Flag::of(op);
    let flags = Flag::ALL.into_iter().filter(|flag| word & flag.bit() != 0);
    flags.map(|flag| format!("{flag:?}")).collect()
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(operators, names)?)?;
    names.add_function(wrap_pyfunction!(operator_flags, names)?)
}
