//! Launches of a compiled graph that follow each other: one call makes all of them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use spyre::aten::ResultShape;

use super::graph_launch::{GraphBuffer, GraphLaunch};
use crate::abi::NewMemory;
use crate::cards;

/// Launches of kernels, one after the other: a function of a list of buffers and of values, which gives the tensors
/// that are kept.
///
/// A tensor that only launches of the segment read has no object in Python, and its memory is free for what is queued
/// after the last of them. Buffers that are given leave the list, and are let go after their last launch.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct GraphSegment {
    steps: Vec<SegmentLaunch>,
    /// True for the buffers that are written, in the order in which they are given.
    written: Vec<bool>,
    /// Sizes and scalars that are given at each call.
    value_count: usize,
    /// Results of launches that the call returns, counted through all of them.
    kept: Vec<usize>,
}

/// A launch, and where its arguments are found.
#[derive(Debug)]
struct SegmentLaunch {
    launch: Py<GraphLaunch>,
    /// Places of its buffers: first those that are given, then the results of all launches.
    buffers: Vec<usize>,
    /// Places of its sizes and scalars among the values.
    values: Vec<usize>,
    /// Places of buffers that no later launch uses, and that are not kept.
    ends: Vec<usize>,
}

/// A launch, as Python describes it: places of its buffers, and of its values.
type LaunchGiven = (Py<GraphLaunch>, Vec<usize>, Vec<usize>);

/// A tensor that a launch has made and that is not given back yet.
type Made = Option<(ResultShape, NewMemory)>;

#[pymethods]
impl GraphSegment {
    /// Launches of so many buffers and values.
    #[new]
    fn new(steps: Vec<LaunchGiven>, counts: (usize, usize), kept: Vec<usize>) -> PyResult<Self> {
        let (buffer_count, value_count) = counts;
        let refused = |why: String| Err(PyValueError::new_err(why));
        let Some((first, ..)) = steps.first() else {
            return refused("a segment has at least one launch".to_owned());
        };
        let device = first.get().device();
        let most = steps.iter().map(|(_, buffers, _)| buffers.len()).sum();
        if buffer_count > most {
            return refused(format!(
                "the launches use {most} buffers, and {buffer_count} are given"
            ));
        }
        let mut written = vec![false; buffer_count];
        let mut known = buffer_count;
        for (at, step) in steps.iter().enumerate() {
            if let Err(why) = check_step(step, device, known, value_count) {
                return refused(format!("launch {at} {why}"));
            }
            let launch = step.0.get();
            for (nth, &place) in step.1.iter().enumerate() {
                if let Some(buffer) = written.get_mut(place) {
                    *buffer |= launch.writes(nth);
                }
            }
            known += launch.counts().2;
        }
        let results = known - buffer_count;
        if let Some(place) = kept.iter().find(|&&place| place >= results) {
            return refused(format!("result {place} of {results} is kept"));
        }
        if (1..kept.len()).any(|at| kept[..at].contains(&kept[at])) {
            return refused("a result is kept twice".to_owned());
        }
        let steps = with_ends(steps, buffer_count, &kept);
        Ok(Self { steps, written, value_count, kept })
    }

    /// Queues all of them. The list is empty afterwards.
    #[pyo3(signature = (buffers, *values))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        buffers: &Bound<'py, PyList>,
        values: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cards::check_process()?;
        let expected = (self.written.len(), self.value_count);
        if (buffers.len(), values.len()) != expected {
            return Err(PyTypeError::new_err(format!(
                "the segment takes {} buffers and {} values, not {} and {}",
                expected.0,
                expected.1,
                buffers.len(),
                values.len()
            )));
        }
        let first = self.steps[0].launch.get();
        let mut given: SmallVec<[Option<Bound<'_, PyAny>>; 16]> =
            buffers.iter().map(Some).collect();
        buffers.set_slice(0, given.len(), &PyList::empty(py))?;
        let mut known: SmallVec<[GraphBuffer; 16]> = SmallVec::new();
        for (at, (object, &is_written)) in given.iter().flatten().zip(&self.written).enumerate() {
            known.push(first.buffer(object, at, is_written)?);
        }
        let mut made: SmallVec<[Made; 16]> = SmallVec::new();
        for step in &self.steps {
            let taken: SmallVec<[GraphBuffer; 8]> =
                step.buffers.iter().map(|&place| known[place].clone()).collect();
            let values = step.values.iter().map(|&place| values.get_item(place));
            let results = step.launch.get().launch_with(py, &taken, values)?;
            for (shape, memory) in results.shapes.into_iter().zip(results.memories) {
                known.push(GraphBuffer::of(&shape, &memory));
                made.push(Some((shape, memory)));
            }
            for &place in &step.ends {
                match place.checked_sub(self.written.len()) {
                    Some(result) => made[result] = None,
                    None => given[place] = None,
                }
            }
        }
        let kept: SmallVec<[(ResultShape, NewMemory); 4]> =
            self.kept.iter().filter_map(|&result| made[result].take()).collect();
        let (shapes, memories): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) = kept.into_iter().unzip();
        first.give(py, shapes.iter().zip(memories))
    }

    fn __repr__(&self) -> String {
        let device = self.steps[0].launch.get().device();
        format!("<GraphSegment of {} launches on spyre:{device}>", self.steps.len())
    }
}

/// Compares a launch with its places; why they do not go together.
fn check_step(
    (launch, buffers, values): &LaunchGiven,
    device: i32,
    known: usize,
    value_count: usize,
) -> Result<(), String> {
    let launch = launch.get();
    let (buffers_taken, values_taken, _) = launch.counts();
    if (buffers.len(), values.len()) != (buffers_taken, values_taken) {
        let given = (buffers.len(), values.len());
        return Err(format!(
            "takes {buffers_taken} buffers and {values_taken} values, not {} and {}",
            given.0, given.1
        ));
    }
    if launch.device() != device {
        return Err(format!("is for spyre:{}, and the first for spyre:{device}", launch.device()));
    }
    if let Some(place) = buffers.iter().find(|&&place| place >= known) {
        return Err(format!("takes buffer {place} of {known} that are known"));
    }
    match values.iter().find(|&&place| place >= value_count) {
        Some(place) => Err(format!("takes value {place} of {value_count}")),
        None => Ok(()),
    }
}

/// The launches, each with the buffers that end with it.
fn with_ends(steps: Vec<LaunchGiven>, buffer_count: usize, kept: &[usize]) -> Vec<SegmentLaunch> {
    let results = steps.iter().map(|(launch, ..)| launch.get().counts().2);
    let mut last: Vec<usize> = vec![0; buffer_count];
    for (at, results) in results.enumerate() {
        last.extend(std::iter::repeat_n(at, results));
    }
    for (at, (_, buffers, _)) in steps.iter().enumerate() {
        buffers.iter().for_each(|&place| last[place] = at);
    }
    let is_kept =
        |place: usize| place.checked_sub(buffer_count).is_some_and(|of| kept.contains(&of));
    let ends_with =
        |at| (0..last.len()).filter(|&place| last[place] == at && !is_kept(place)).collect();
    steps
        .into_iter()
        .enumerate()
        .map(|(at, (launch, buffers, values))| SegmentLaunch {
            launch,
            buffers,
            values,
            ends: ends_with(at),
        })
        .collect()
}
