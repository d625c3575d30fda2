//! Memory: limits, observers, histories and snapshots.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use spyre::flex::BlockState;

use crate::cards::{self, Card};
use crate::history::{self, Action, Event, Held, Settings, Traced};
use crate::pinned;
use crate::statistics::Stat;
use crate::traceback::Symbols;

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

/// What is counted of pinned host memory.
#[pyfunction]
fn host_memory_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = pinned::counts();
    let stat = |stat: Stat| {
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
    pinned::reset_peaks();
}

/// Lets what was ever taken of pinned host memory be nothing.
#[pyfunction]
fn reset_accumulated_host_memory_stats() {
    pinned::reset_totals();
}

/// Makes a pool the calling thread's on a device, 0 for none, and says which was.
#[pyfunction]
fn exchange_pool(device: u16, pool: u64) -> u64 {
    history::pools::exchange(device, pool)
}

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

/// Segments with their blocks, and what was noted, in the form that memory_viz reads.
#[pyfunction]
fn memory_snapshot(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    cards::check_process()?;
    let (segments, traces) = (PyList::empty(py), PyList::empty(py));
    for device in 0..cards::count() as u16 {
        let (events, held) = history::noted(device);
        let tracebacks: Vec<_> =
            events.iter().filter_map(|event| event.traceback.clone()).collect();
        let in_use: Vec<_> = held.values().filter_map(|held| held.traceback.clone()).collect();
        let (of_events, of_held) = (Frames::of(py, &tracebacks)?, Frames::of(py, &in_use)?);
        traces.append(events_of(py, device, &events, of_events)?)?;
        if let Some(card) = cards::opened().find(|card| card.index().0 == device) {
            segments_of(card, &events, &held, of_held, &segments)?;
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

/// Tracebacks as lists of dictionaries, in the order in which they are asked for.
struct Frames<'py> {
    lists: std::vec::IntoIter<Bound<'py, PyList>>,
}

impl<'py> Frames<'py> {
    fn of(
        py: Python<'py>,
        tracebacks: &[std::sync::Arc<crate::traceback::Traceback>],
    ) -> PyResult<Self> {
        let symbols = Symbols::of(tracebacks);
        let frames = symbols.frames.iter().map(|frame| {
            let dictionary = PyDict::new(py);
            dictionary.set_item("filename", &frame.file)?;
            dictionary.set_item("name", &frame.name)?;
            dictionary.set_item("line", frame.line)?;
            Ok(dictionary)
        });
        let frames = frames.collect::<PyResult<Vec<_>>>()?;
        let list = |of: &Vec<usize>| PyList::new(py, of.iter().filter_map(|&at| frames.get(at)));
        let lists = symbols.of.iter().map(list).collect::<PyResult<Vec<_>>>()?;
        Ok(Self { lists: lists.into_iter() })
    }

    fn next(&mut self, py: Python<'py>, has_traceback: bool) -> Bound<'py, PyList> {
        let next = has_traceback.then(|| self.lists.next()).flatten();
        next.unwrap_or_else(|| PyList::empty(py))
    }
}

fn events_of<'py>(
    py: Python<'py>,
    device: u16,
    events: &[Event],
    mut frames: Frames<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for event in events {
        let entry = PyDict::new(py);
        entry.set_item("action", name(event.action))?;
        let place = if event.action == Action::OutOfMemory { "device_free" } else { "addr" };
        entry.set_item(place, event.place)?;
        entry.set_item("size", event.bytes)?;
        entry.set_item("stream", event.stream)?;
        entry.set_item("device", device)?;
        entry.set_item("time_us", event.microseconds)?;
        entry.set_item("frames", frames.next(py, event.traceback.is_some()))?;
        entry.set_item("compile_context", "N/A")?;
        entry.set_item("user_metadata", "")?;
        list.append(entry)?;
    }
    Ok(list)
}

/// A segment for each region of the card that has been used, up to the last byte that ever was.
fn segments_of<'py>(
    card: &Card,
    events: &[Event],
    held: &std::collections::BTreeMap<u64, Held>,
    mut frames: Frames<'py>,
    segments: &Bound<'py, PyList>,
) -> PyResult<()> {
    let (py, device) = (segments.py(), card.index().0);
    let blocks = card.device.allocator().snapshot();
    for region in blocks.chunk_by(|a, b| a.region == b.region) {
        let address = history::place_of(device, &region[0]);
        let ends = |place: u64, bytes: u64| place + bytes;
        let in_use = region.iter().filter(|block| block.state != BlockState::Free);
        let used = in_use.map(|block| ends(history::place_of(device, block), block.bytes));
        let is_here = |event: &&Event| event.place >= address && event.place - address < 1 << 34;
        let noted = events.iter().filter(is_here).map(|event| ends(event.place, event.bytes));
        let end = used.chain(noted).max().unwrap_or(address);
        let list = PyList::empty(py);
        let (mut allocated, mut requested) = (0, 0);
        for block in region {
            let place = history::place_of(device, block);
            let bytes = block.bytes.min(end.saturating_sub(place));
            if bytes == 0 {
                continue;
            }
            let holder = held.get(&place).filter(|_| block.state == BlockState::Live);
            let asked = holder.map_or(bytes, |held| held.host_bytes.min(bytes));
            let is_live = block.state == BlockState::Live;
            if is_live {
                (allocated, requested) = (allocated + bytes, requested + asked);
            }
            let has_traceback = holder.is_some_and(|held| held.traceback.is_some());
            let entry = PyDict::new(py);
            entry.set_item("address", place)?;
            entry.set_item("size", bytes)?;
            entry.set_item("requested_size", asked)?;
            entry.set_item("state", if is_live { "active_allocated" } else { "inactive" })?;
            entry.set_item("frames", frames.next(py, has_traceback))?;
            if let Some(held) = holder {
                entry.set_item("data_ptr", held.address)?;
                entry.set_item("pool_id", PyTuple::new(py, [0, held.pool])?)?;
            }
            list.append(entry)?;
        }
        if list.is_empty() {
            continue;
        }
        let segment = PyDict::new(py);
        segment.set_item("device", device)?;
        segment.set_item("address", address)?;
        segment.set_item("total_size", end - address)?;
        segment.set_item("allocated_size", allocated)?;
        segment.set_item("active_size", allocated)?;
        segment.set_item("requested_size", requested)?;
        segment.set_item("stream", 0)?;
        segment.set_item("segment_type", "large")?;
        segment.set_item("segment_pool_id", PyTuple::new(py, [0, 0])?)?;
        segment.set_item("is_expandable", false)?;
        segment.set_item("frames", PyList::empty(py))?;
        segment.set_item("blocks", list)?;
        segments.append(segment)?;
    }
    Ok(())
}

const ACTIONS: [(&str, Action); 5] = [
    ("alloc", Action::Allocate),
    ("free_requested", Action::FreeRequested),
    ("free_completed", Action::FreeCompleted),
    ("snapshot", Action::Snapshot),
    ("oom", Action::OutOfMemory),
];

fn name(action: Action) -> &'static str {
    ACTIONS.iter().find(|(_, known)| *known == action).map_or("", |(name, _)| name)
}

fn action(name: &str) -> PyResult<Action> {
    let known = ACTIONS.iter().find(|(known, _)| *known == name).map(|&(_, action)| action);
    known.ok_or_else(|| PyValueError::new_err(format!("there is no action {name:?}")))
}

pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(memory_fraction, names)?)?;
    names.add_function(wrap_pyfunction!(set_memory_fraction, names)?)?;
    names.add_function(wrap_pyfunction!(attach_out_of_memory_observer, names)?)?;
    names.add_function(wrap_pyfunction!(host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(reset_peak_host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(reset_accumulated_host_memory_stats, names)?)?;
    names.add_function(wrap_pyfunction!(exchange_pool, names)?)?;
    names.add_function(wrap_pyfunction!(record_memory_history, names)?)?;
    names.add_function(wrap_pyfunction!(memory_snapshot, names)?)
}
