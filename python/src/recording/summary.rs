//! Recordings as Python sees them: a trace file, and numbers of what is in it.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spyre::artifact::cost::CostBreakdown;
use spyre::hal::BlockKind;
use spyre::trace::{Trace, TracedBlock};

use super::operations::operations;
use super::{RecordedBlock, Recording};
use crate::cards;
use crate::failure::Failure;

/// Begins a recording of all cards, and gives its number.
#[pyfunction]
fn start_recording() -> PyResult<u64> {
    cards::check_process()?;
    Ok(super::start())
}

/// Ends a recording, writes its trace if it is given a path, and says what was recorded.
///
/// A path that ends in `.pftrace` or `.perfetto-trace` gets Perfetto's format, any other Chrome's.
#[pyfunction]
#[pyo3(signature = (number, path = None))]
fn stop_recording(
    py: Python<'_>,
    number: u64,
    path: Option<PathBuf>,
) -> PyResult<Bound<'_, PyDict>> {
    cards::check_process()?;
    let recording = py.detach(move || ended(number, path))?;
    summary(py, &recording)
}

fn ended(number: u64, path: Option<PathBuf>) -> Result<Recording, Failure> {
    let unknown = || Failure::runtime(format!("there is no recording {number}: it ended before"));
    let recording = super::stop(number).ok_or_else(unknown)?;
    if let Some(path) = path {
        write(&recording, &path)?;
    }
    Ok(recording)
}

fn write(recording: &Recording, path: &Path) -> Result<(), Failure> {
    let is_perfetto =
        path.extension().is_some_and(|kind| kind == "pftrace" || kind == "perfetto-trace");
    let traces = traces(recording);
    let bytes = if is_perfetto {
        Trace::perfetto_of(&traces)
    } else {
        Trace::chrome_of(&traces).into_bytes()
    };
    let wrong = |error| {
        Failure::runtime(format!("the trace {} cannot be written: {error}", path.display()))
    };
    std::fs::write(path, bytes).map_err(wrong)
}

/// A trace for each card.
fn traces(recording: &Recording) -> Vec<Trace> {
    let mut devices: Vec<_> = recording.blocks.iter().map(|block| block.device).collect();
    devices.sort_by_key(|device| device.0);
    devices.dedup();
    let of_device = |device| {
        let own = recording.blocks.iter().filter(move |block| block.device == device);
        Trace::new(device, own.map(RecordedBlock::traced))
    };
    devices.into_iter().map(of_device).collect()
}

impl RecordedBlock {
    /// Returns true if it is part of a program correction.
    pub(crate) fn is_correction(&self) -> bool {
        let is_launch = || self.call.as_ref().is_some_and(|call| call.is_launch);
        match self.record.kind {
            BlockKind::Launch => {
                self.record.label.name().is_some_and(|name| name.ends_with(".correction"))
            }
            BlockKind::CopyToDevice => is_launch(),
            _ => false,
        }
    }

    fn traced(&self) -> TracedBlock {
        let shapes = self.call.as_ref().map(|call| call.shapes.clone());
        TracedBlock { shapes, ..TracedBlock::from(self.record) }
    }
}

fn summary<'py>(py: Python<'py>, recording: &Recording) -> PyResult<Bound<'py, PyDict>> {
    let is_copy = |kind: BlockKind| {
        matches!(
            kind,
            BlockKind::CopyToDevice
                | BlockKind::CopyFromDevice
                | BlockKind::CopyDevice
                | BlockKind::CopyPeer
        )
    };
    let is_kernel =
        |block: &&RecordedBlock| block.record.kind == BlockKind::Launch && !block.is_correction();
    let kernels = recording.blocks.iter().filter(is_kernel);
    // Copies of programs take nothing of their own.
    let is_own_copy = |block: &&RecordedBlock| {
        let RecordedBlock { record, .. } = block;
        is_copy(record.kind) && record.modelled_nanoseconds > 0
    };
    let copies = recording.blocks.iter().filter(is_own_copy);
    let mut cost = CostBreakdown::default();
    for trace in traces(recording) {
        cost += trace.cost();
    }
    let summary = PyDict::new(py);
    summary.set_item("blocks", recording.blocks.len())?;
    summary.set_item("kernels", kernels.count())?;
    summary.set_item("copies", copies.count())?;
    summary.set_item("lost", recording.lost)?;
    summary.set_item("operations", operations(recording))?;
    summary.set_item("modelled_nanoseconds", cost.total())?;
    summary.set_item("modelled_kernels_nanoseconds", cost.kernels)?;
    summary.set_item("modelled_copies_nanoseconds", cost.copies)?;
    summary.set_item("modelled_collectives_nanoseconds", cost.collectives)?;
    summary.set_item("modelled_launches_nanoseconds", cost.launches)?;
    summary.set_item("modelled_text", cost.to_string())?;
    Ok(summary)
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(start_recording, names)?)?;
    names.add_function(wrap_pyfunction!(stop_recording, names)?)
}
