//! Histories and snapshots of memory, in the form that PyTorch's memory_viz reads.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use spyre::flex::{BlockInfo, BlockState};
use spyre::runtime::TensorMemory;

use crate::cards::{self, Card};
use crate::history::{self, Action, Event, Held, Settings, Traced};
use crate::traceback::{Symbols, Traceback};

const ACTIONS: [(&str, Action); 5] = [
    ("alloc", Action::Allocate),
    ("free_requested", Action::FreeRequested),
    ("free_completed", Action::FreeCompleted),
    ("snapshot", Action::Snapshot),
    ("oom", Action::OutOfMemory),
];

/// Starts or stops noting who takes and gives back memory.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
fn record_memory_history(
    enabled: Option<&str>,
    context: Option<&str>,
    with_cpp: bool,
    max_entries: usize,
    clear_history: bool,
    actions: Vec<String>,
) -> PyResult<()> {
    cards::check_process()?;
    let traced = match context {
        None => Traced::Nothing,
        Some("state") => Traced::MemoryInUse,
        Some("alloc") => Traced::Allocations,
        Some(_) => Traced::Frees,
    };
    let named = actions.iter().map(|name| action(name)).collect::<PyResult<Vec<_>>>()?;
    let kept = |actions| Settings { actions, traced, with_cpp, most_events: max_entries };
    let settings = match enabled {
        None => None,
        Some("state") => Some(kept(Vec::new())),
        Some(_) => Some(kept(named)),
    };
    history::record(settings, clear_history);
    Ok(())
}

/// Segments with their blocks, and what was noted.
#[pyfunction]
fn memory_snapshot(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    cards::check_process()?;
    let segments = PyList::empty(py);
    let traces = PyList::empty(py);
    for device in 0..cards::count() as u16 {
        let (events, held) = history::noted(device);
        traces.append(events_of(py, device, &events)?)?;
        if let Some(card) = cards::opened().find(|card| card.index().0 == device) {
            let frames = frames_of(py, held.values().map(|held| &held.traceback))?;
            let held =
                held.iter().zip(frames).map(|((&place, held), frames)| (place, (held, frames)));
            let tensors = tensors_of(card);
            let writer = Writer { py, device, events: &events, held: held.collect(), tensors };
            writer.write(card, &segments)?;
        }
    }
    let settings = PyDict::new(py);
    settings.set_item("backend", "flex")?;
    let snapshot = PyDict::new(py);
    snapshot.set_item("segments", segments)?;
    snapshot.set_item("device_traces", traces)?;
    snapshot.set_item("allocator_settings", settings)?;
    snapshot.set_item("external_annotations", PyList::empty(py))?;
    Ok(snapshot)
}

fn events_of<'py>(py: Python<'py>, device: u16, events: &[Event]) -> PyResult<Bound<'py, PyList>> {
    let frames = frames_of(py, events.iter().map(|event| &event.traceback))?;
    let list = PyList::empty(py);
    for (event, frames) in events.iter().zip(frames) {
        let entry = PyDict::new(py);
        entry.set_item("action", name(event.action))?;
        let place = if event.action == Action::OutOfMemory { "device_free" } else { "addr" };
        entry.set_item(place, event.place)?;
        entry.set_item("size", event.bytes)?;
        entry.set_item("stream", event.stream)?;
        entry.set_item("device", device)?;
        entry.set_item("time_us", event.microseconds)?;
        entry.set_item("frames", frames)?;
        entry.set_item("compile_context", "N/A")?;
        entry.set_item("user_metadata", "")?;
        list.append(entry)?;
    }
    Ok(list)
}

/// Writes the segments of one device.
struct Writer<'py, 'a> {
    py: Python<'py>,
    device: u16,
    events: &'a [Event],
    /// Holder of the memory at a place, and the traceback of its allocation.
    held: BTreeMap<u64, (&'a Held, Bound<'py, PyList>)>,
    /// Places of tensors. Memory of plans is none of PyTorch's.
    tensors: HashSet<u64>,
}

fn tensors_of(card: &Card) -> HashSet<u64> {
    let memories = card.memory.values();
    let block = |memory: &Arc<TensorMemory>| card.device.allocator().block(memory.range().handle);
    let blocks = memories.iter().filter_map(|memory| block(memory).ok());
    blocks.map(|block| history::place_of(card.index().0, &block)).collect()
}

/// Sums over a segment's blocks.
#[derive(Default)]
struct Sums {
    allocated_bytes: u64,
    requested_bytes: u64,
}

impl<'py> Writer<'py, '_> {
    /// A segment for each region of the card that has been used.
    fn write(&self, card: &Card, segments: &Bound<'py, PyList>) -> PyResult<()> {
        let blocks = card.device.allocator().snapshot();
        for region in blocks.chunk_by(|a, b| a.region == b.region) {
            let (start, end) = self.extent(region);
            if start == end {
                continue;
            }
            let mut sums = Sums::default();
            let list = PyList::empty(self.py);
            for block in region {
                self.write_block(block, end, &mut sums, &list)?;
            }
            segments.append(self.segment(start, end, &sums, list)?)?;
        }
        Ok(())
    }

    /// Range from a region's start to the last byte that is in use, or was in use at a noted event. The
    /// rest, most of 12 GB, was never touched.
    fn extent(&self, region: &[BlockInfo]) -> (u64, u64) {
        let start = history::place_of(self.device, &region[0]);
        let in_use = region.iter().filter(|block| block.state != BlockState::Free);
        let in_use = in_use.map(|block| history::place_of(self.device, block) + block.bytes);
        let noted = self.events.iter().filter(|event| event.action != Action::OutOfMemory);
        let noted = noted.filter(|event| history::is_same_region(event.place, start));
        let noted = noted.map(|event| event.place + event.bytes);
        (start, in_use.chain(noted).max().unwrap_or(start))
    }

    fn write_block(
        &self,
        block: &BlockInfo,
        end: u64,
        sums: &mut Sums,
        list: &Bound<'py, PyList>,
    ) -> PyResult<()> {
        let place = history::place_of(self.device, block);
        let bytes = block.bytes.min(end.saturating_sub(place));
        if bytes == 0 {
            return Ok(());
        }
        let is_live = block.state == BlockState::Live && self.tensors.contains(&place);
        let holder = self.held.get(&place).filter(|_| is_live);
        let requested = holder.map_or(bytes, |(held, _)| held.host_bytes.min(bytes));
        if is_live {
            sums.allocated_bytes += bytes;
            sums.requested_bytes += requested;
        }
        let entry = PyDict::new(self.py);
        entry.set_item("address", place)?;
        entry.set_item("size", bytes)?;
        entry.set_item("requested_size", requested)?;
        entry.set_item("state", if is_live { "active_allocated" } else { "inactive" })?;
        match holder {
            None => entry.set_item("frames", PyList::empty(self.py))?,
            Some((held, frames)) => {
                entry.set_item("frames", frames)?;
                entry.set_item("data_ptr", held.address)?;
                entry.set_item("pool_id", PyTuple::new(self.py, [0, held.pool])?)?;
            }
        }
        list.append(entry)
    }

    fn segment(
        &self,
        start: u64,
        end: u64,
        sums: &Sums,
        blocks: Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let segment = PyDict::new(self.py);
        segment.set_item("device", self.device)?;
        segment.set_item("address", start)?;
        segment.set_item("total_size", end - start)?;
        segment.set_item("allocated_size", sums.allocated_bytes)?;
        segment.set_item("active_size", sums.allocated_bytes)?;
        segment.set_item("requested_size", sums.requested_bytes)?;
        segment.set_item("stream", 0)?;
        segment.set_item("segment_type", "large")?;
        segment.set_item("segment_pool_id", PyTuple::new(self.py, [0, 0])?)?;
        segment.set_item("is_expandable", false)?;
        segment.set_item("frames", PyList::empty(self.py))?;
        segment.set_item("blocks", blocks)?;
        Ok(segment)
    }
}

/// Tracebacks as lists of dictionaries; those that share frames share these.
fn frames_of<'py, 'a>(
    py: Python<'py>,
    tracebacks: impl Iterator<Item = &'a Option<Arc<Traceback>>> + Clone,
) -> PyResult<Vec<Bound<'py, PyList>>> {
    let symbols = Symbols::of(&tracebacks.clone().flatten().cloned().collect::<Vec<_>>());
    let frames = symbols.frames.iter().map(|frame| {
        let dictionary = PyDict::new(py);
        dictionary.set_item("filename", &frame.file)?;
        dictionary.set_item("name", &frame.name)?;
        dictionary.set_item("line", frame.line)?;
        Ok(dictionary)
    });
    let frames = frames.collect::<PyResult<Vec<_>>>()?;
    let mut known = symbols.of.iter();
    let list = |traceback: &Option<Arc<Traceback>>| {
        let of = traceback.as_ref().and_then(|_| known.next());
        let frames: Vec<_> = of.into_iter().flatten().filter_map(|&at| frames.get(at)).collect();
        PyList::new(py, frames)
    };
    tracebacks.map(list).collect()
}

fn name(action: Action) -> &'static str {
    ACTIONS.iter().find(|(_, known)| *known == action).map_or("", |(name, _)| name)
}

fn action(name: &str) -> PyResult<Action> {
    let known = ACTIONS.iter().find(|(known, _)| *known == name).map(|&(_, action)| action);
    known.ok_or_else(|| PyValueError::new_err(format!("there is no action {name:?}")))
}

pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(record_memory_history, names)?)?;
    names.add_function(wrap_pyfunction!(memory_snapshot, names)?)
}
