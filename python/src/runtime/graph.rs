use std::sync::Arc;

use pyo3::prelude::*;
use spyre::runtime;

use super::launch::Site;
use crate::cards;
use crate::failure::Failure;

/// Launches that a stream was given during a capture.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct RawGraph(runtime::LaunchGraph);

/// Memory that graphs share.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct RawGraphMemory(Arc<runtime::GraphMemory>);

#[pymethods]
impl RawGraph {
    /// Has launches on a stream noted from now on.
    #[staticmethod]
    fn begin(device: i32, stream: i64, memory: &RawGraphMemory) -> Result<(), Failure> {
        Ok(cards::card(device)?.stream(stream)?.begin_capture(&memory.0)?)
    }

    /// Ends the capture: the graph of what was noted.
    #[staticmethod]
    fn end(device: i32, stream: i64) -> Result<Self, Failure> {
        Ok(Self(cards::card(device)?.stream(stream)?.end_capture()?))
    }

    /// Queues all launches.
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn replay(&self, py: Python<'_>, site: Site) -> Result<(), Failure> {
        py.detach(|| site.queue(true, &[], |stream| self.0.replay(stream)))
    }

    /// Number of control blocks that the first replay queues.
    fn __len__(&self) -> usize {
        self.0.blocks()
    }
}

#[pymethods]
impl RawGraphMemory {
    #[new]
    fn new(device: i32) -> Result<Self, Failure> {
        Ok(Self(runtime::GraphMemory::new(cards::card(device)?.device.context())))
    }
}

/// Returns true if a stream captures a graph. A card that was not opened has none.
#[pyfunction]
pub(super) fn _is_capturing(device: i32, stream: i64) -> Result<bool, Failure> {
    Ok(cards::is_started() && cards::card(device)?.stream(stream)?.is_capturing())
}
