//! Memory: limits, observers, pools, and what is pinned on the host.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::statistics::SpyreStat;
use crate::{cards, history, pinned_memory};

static OBSERVERS: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());

/// The share of the budget that a device's tensors may hold.
#[pyfunction]
fn memory_fraction(device: i32) -> PyResult<f64> {
    Ok(cards::card(device)?.statistics.fraction())
}

/// Sets it.
#[pyfunction]
fn set_memory_fraction(device: i32, fraction: f64) -> PyResult<()> {
    let card = cards::card(device)?;
    let (_, total_bytes) = crate::abi::memory_info(card);
    card.statistics.set_fraction(fraction, total_bytes);
    Ok(())
}

/// Has a function called with device, bytes, total and free bytes whenever memory has run out.
#[pyfunction]
fn attach_out_of_memory_observer(observer: Py<PyAny>) {
    OBSERVERS.lock().push(observer);
}

/// Tells the observers. What they raise is printed: the caller has an error of its own to raise.
pub(crate) fn tell_observers(device: u16, bytes: u64, total_bytes: u64, free_bytes: u64) {
    if OBSERVERS.lock().is_empty() {
        return;
    }
    Python::try_attach(|py| {
        let observers: Vec<_> = OBSERVERS.lock().iter().map(|it| it.clone_ref(py)).collect();
        for observer in observers {
            if let Err(error) = observer.call1(py, (device, bytes, total_bytes, free_bytes)) {
                error.write_unraisable(py, Some(observer.bind(py)));
            }
        }
    });
}

/// Statistics of pinned host memory.
#[pyfunction]
fn host_memory_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = pinned_memory::counts();
    let stat = |stat: SpyreStat| {
        let entry = PyDict::new(py);
        entry.set_item("current", stat.current)?;
        entry.set_item("peak", stat.peak)?;
        entry.set_item("allocated", stat.allocated)?;
        entry.set_item("freed", stat.freed)?;
        Ok::<_, PyErr>(entry)
    };
    let stats = PyDict::new(py);
    stats.set_item("active_bytes", stat(counts.bytes)?)?;
    stats.set_item("allocated_bytes", stat(counts.bytes)?)?;
    stats.set_item("active_requests", stat(counts.blocks)?)?;
    stats.set_item("allocations", stat(counts.blocks)?)?;
    stats.set_item("num_host_alloc", counts.blocks.allocated)?;
    stats.set_item("num_host_free", counts.blocks.freed)?;
    Ok(stats)
}

/// Lets the peaks of pinned host memory be what is in use now.
#[pyfunction]
fn reset_peak_host_memory_stats() {
    pinned_memory::reset_peaks();
}

/// Lets what was ever taken of pinned host memory be nothing.
#[pyfunction]
fn reset_accumulated_host_memory_stats() {
    pinned_memory::reset_totals();
}

/// Makes a pool the calling thread's on a device, 0 for none, and says which was.
#[pyfunction]
fn exchange_pool(device: u16, pool: u64) -> u64 {
    history::pools::exchange(device, pool)
}

pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(memory_fraction, names)?)?;
    names.add_function(wrap_pyfunction!(set_memory_fraction, names)?)?;
    names.add_function(wrap_pyfunction!(attach_out_of_memory_observer, names)?)?;
    names.add_function(wrap_pyfunction!(host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(reset_peak_host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(reset_accumulated_host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(exchange_pool, names)?)
}
