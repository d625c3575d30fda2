//! Groups of processes: the engine of collectives, as the library of the distributed backend calls it.
//!
//! That library, `_dist`, is compiled for one version of Python and this one for all, so that it gets the functions
//! as a table. What crosses the border lives until the call returns, as in [`crate::abi`].
#![allow(unsafe_code, reason = "texts and lists of C, and a capsule of Python")]

mod calls;
mod remotes;
mod rows;
mod stores;

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;
use spyre::collectives::{Error, GroupOptions, ProcessGroup};

use crate::abi::{SpyreView, guarded, spyre_message};
use crate::failure::{Failure, SpyreStatus};
use crate::variables;
use calls::{CallEnded, Ended, GroupCall};
use remotes::TorchRemote;
use rows::TensorRow;
use stores::TorchStore;

/// A group of processes.
pub struct CollectiveGroup {
    engine: Arc<ProcessGroup>,
}

/// Ranks of a group and how they meet.
#[repr(C)]
pub struct GroupSettings {
    name: *const c_char,
    global_ranks: *const u64,
    global_count: usize,
    rank: i64,
    size: i64,
    milliseconds: i64,
    store: TorchStore,
    remote: TorchRemote,
}

/// A receiver of bytes.
pub type Take = extern "C" fn(sink: *mut c_void, bytes: *const u8, count: usize);

/// The functions of this part.
#[repr(C)]
pub struct GroupTable {
    /// Message of the calling thread's last failure.
    message: extern "C" fn() -> *const c_char,
    /// The view of a tensor of PyTorch's, which is given by its address.
    view_of: unsafe extern "C" fn(tensor: *const c_void) -> SpyreView<'static>,
    /// Meets the other ranks of a group.
    connect: extern "C" fn(
        settings: &GroupSettings,
        group: &mut Option<Box<CollectiveGroup>>,
    ) -> SpyreStatus,
    /// Says if all elements of a tensor lie in one row, in the bits that ranks exchange.
    is_in_a_row: extern "C" fn(view: &SpyreView<'_>, is: &mut bool) -> SpyreStatus,
    /// Gives calls one place in the group's order, and has a stream carry them out in its turn; without a device they
    /// begin at once. `ended` is called once, also when the status is an error.
    start: extern "C" fn(
        group: &CollectiveGroup,
        calls: *const GroupCall<'_>,
        count: usize,
        device: i32,
        stream: i64,
        ended: CallEnded,
        context: *mut c_void,
    ) -> SpyreStatus,
    /// Ends a group now.
    abort: extern "C" fn(group: &CollectiveGroup, reason: *const c_char),
    /// Says if a group has failed.
    has_failed: extern "C" fn(group: &CollectiveGroup) -> bool,
    /// Sets the time of later calls.
    set_timeout: extern "C" fn(group: &CollectiveGroup, milliseconds: i64),
    /// The flight record.
    history: extern "C" fn(group: &CollectiveGroup, sink: *mut c_void, take: Take),
    /// Waits for calls that are under way, and drops the group.
    close: extern "C" fn(group: Box<CollectiveGroup>),
}

static TABLE: GroupTable = GroupTable {
    message: spyre_message,
    view_of: spyre_view_of_tensor,
    connect,
    is_in_a_row,
    start,
    abort,
    has_failed,
    set_timeout,
    history,
    close,
};

#[expect(
    improper_ctypes,
    reason = "the layout in a view is a pointer that only this side looks into"
)]
unsafe extern "C" {
    fn spyre_view_of_tensor(tensor: *const c_void) -> SpyreView<'static>;
}

impl From<Error> for Failure {
    /// A mistake of the caller is `Value`; anything else is the end of the group.
    fn from(error: Error) -> Self {
        let kind = if error.is_argument() { SpyreStatus::Value } else { SpyreStatus::Runtime };
        Self::new(kind, error)
    }
}

/// A text of the other side.
pub(crate) fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the other side passes texts that end, and holds them for the call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A list of the other side.
pub(crate) fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the other side passes lists of this length, and holds them for the call.
    unsafe { slice::from_raw_parts(first, count) }
}

fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

extern "C" fn connect(
    settings: &GroupSettings,
    group: &mut Option<Box<CollectiveGroup>>,
) -> SpyreStatus {
    guarded(|| {
        let numbers = [settings.rank, settings.size].map(usize::try_from);
        let [Ok(rank), Ok(size)] = numbers else {
            return Err(Failure::runtime(format!(
                "rank {} of {} is not a rank",
                settings.rank, settings.size
            )));
        };
        let store = Box::new(settings.store);
        let mut options = GroupOptions::new(&text(settings.name), rank, size, store);
        let global = list(settings.global_ranks, settings.global_count);
        options.global_ranks = global.iter().map(|&rank| rank as usize).collect();
        options.timeout = duration(settings.milliseconds);
        options.remote = Some(Box::new(settings.remote));
        options.latency = variables::collective_latency()?;
        if variables::is_over_gloo()? {
            options.machine = format!("rank {rank}");
        }
        *group = Some(Box::new(CollectiveGroup { engine: ProcessGroup::connect(options)? }));
        Ok(())
    })
}

extern "C" fn is_in_a_row(view: &SpyreView<'_>, is: &mut bool) -> SpyreStatus {
    guarded(|| {
        *is = TensorRow::of(view)?.is_some();
        Ok(())
    })
}

extern "C" fn start(
    group: &CollectiveGroup,
    calls: *const GroupCall<'_>,
    count: usize,
    device: i32,
    stream: i64,
    ended: CallEnded,
    context: *mut c_void,
) -> SpyreStatus {
    let ended = Ended::new(ended, context);
    guarded(|| calls::start(&group.engine, list(calls, count), (device, stream), ended))
}

extern "C" fn abort(group: &CollectiveGroup, reason: *const c_char) {
    group.engine.abort(&text(reason));
}

extern "C" fn has_failed(group: &CollectiveGroup) -> bool {
    group.engine.last_error().is_some()
}

extern "C" fn set_timeout(group: &CollectiveGroup, milliseconds: i64) {
    group.engine.set_timeout(duration(milliseconds));
}

extern "C" fn history(group: &CollectiveGroup, sink: *mut c_void, take: Take) {
    let record = group.engine.history_json();
    take(sink, record.as_ptr(), record.len());
}

extern "C" fn close(group: Box<CollectiveGroup>) {
    group.engine.shutdown();
}

/// The table of these functions.
#[pyfunction]
fn _group_table(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the table and the name live as long as the process; the capsule owns neither.
    unsafe {
        let table = ptr::from_ref(&TABLE).cast_mut().cast();
        let capsule = ffi::PyCapsule_New(table, c"spyre_group_table".as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(_group_table, names)?)
}
