//! Counts of launches and of copies to and from the card: they show if an op stayed on it.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Counts something of one kind.
pub(crate) struct Count(AtomicU64);

/// Launches of kernels for ops.
pub(crate) static LAUNCHES: Count = Count::new();
/// Tensors that were restickified for a launch, as a real card needs it.
pub(crate) static RESTICKIFIES: Count = Count::new();
/// Copies from the host to a card.
pub(crate) static TO_DEVICE: Count = Count::new();
/// Copies from a card to the host.
pub(crate) static TO_HOST: Count = Count::new();

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    #[inline]
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Copies to the host that are numbers which a program asked for.
static READS: Count = Count::new();

/// The next copy to the host is a number that a program asked for.
#[allow(unsafe_code, reason = "the shim calls it")]
#[unsafe(no_mangle)]
pub extern "C" fn spyre_note_read() {
    READS.note();
}

/// Launches for ops, copies to the device and to the host, and numbers that were read, since the
/// process started.
#[pyfunction]
fn traffic(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("launches", LAUNCHES.number())?;
    counts.set_item("restickifies", RESTICKIFIES.number())?;
    counts.set_item("copies_to_device", TO_DEVICE.number())?;
    counts.set_item("copies_to_host", TO_HOST.number() - READS.number())?;
    counts.set_item("numbers_read", READS.number())?;
    Ok(counts)
}

/// Adds the name of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(traffic, names)?)
}
