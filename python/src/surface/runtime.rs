//! Start, devices, streams.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use spyre::flex::num_devices;
use spyre::hal::MemoryMode;
use spyre::numerics::Profile;

use crate::abi::{set_warns_of_downcasts, warns_of_downcasts};
use crate::failure::Failure;
use crate::{cards, variables};

/// Opens the device that the calling thread has selected, if no device was opened yet.
///
/// That is what `set_device` said, else `LOCAL_RANK`, else 0.
#[pyfunction]
fn start_runtime(py: Python<'_>) -> PyResult<()> {
    cards::check_process()?;
    check_rank()?;
    Ok(py.detach(|| cards::card(-1)).map(drop)?)
}

/// Refuses a rank that has no device, unless a launcher says how many ranks there are: then they take turns.
fn check_rank() -> Result<(), Failure> {
    let count = num_devices()?;
    if count == 0 {
        return Err(Failure::runtime(
            "there is no spyre device: SPYRE_DEVICES names none of the cards that there are",
        ));
    }
    let rank = variables::local_rank()?.and_then(|rank| usize::try_from(rank).ok());
    let is_placed = cards::has_chosen_device() || variables::has_launcher();
    match rank.filter(|&rank| rank >= count && !is_placed) {
        None => Ok(()),
        Some(rank) => Err(Failure::runtime(format!(
            "Device index out of bounds: LOCAL_RANK is {rank}, and there are {count} devices"
        ))),
    }
}

/// Waits until all devices are done. They stay open: other threads may be using them.
#[pyfunction]
fn free_runtime(py: Python<'_>) -> PyResult<()> {
    if !cards::is_started() {
        return Ok(());
    }
    Ok(py
        .detach(|| cards::opened().try_for_each(|card| card.device.synchronize()))
        .map_err(Failure::from)?)
}

/// Returns True if this process has opened a device.
#[pyfunction]
fn is_initialized() -> bool {
    cards::is_started()
}

/// Returns True in a forked child of a process that had opened a device.
#[pyfunction]
fn _is_in_bad_fork() -> bool {
    cards::is_forked()
}

/// Number of devices that this process sees.
#[pyfunction]
fn device_count() -> PyResult<usize> {
    if cards::is_started() {
        return Ok(cards::count());
    }
    Ok(num_devices().map_err(Failure::from)?)
}

/// Warning of the parts of `SPYRE_DEVICES` that were not understood.
#[pyfunction]
fn devices_warning() -> PyResult<Option<String>> {
    Ok(cards::settings()?.devices.warning())
}

/// The calling thread's device.
#[pyfunction]
fn current_device() -> PyResult<i32> {
    variables::local_rank()?;
    Ok(cards::current_device())
}

/// Makes a device the calling thread's. It is not opened yet.
#[pyfunction]
fn set_device(device: i32) -> PyResult<()> {
    Ok(cards::set_current_device(device)?)
}

/// Properties of a device: the fields of `DeviceProperties`.
#[pyfunction]
fn device_properties(py: Python<'_>, device: i32) -> PyResult<Bound<'_, PyDict>> {
    let card = py.detach(|| cards::card(device))?;
    let settings = cards::settings()?;
    let description = card.device.context().hardware().description();
    let mode = match settings.devices.mode {
        MemoryMode::Pf => "PF",
        MemoryMode::Vf => "VF",
    };
    let profile = match card.device.profile() {
        Profile::Open => "open",
        Profile::Card => "card",
    };
    let properties = PyDict::new(py);
    properties.set_item("name", format!("IBM Spyre ({})", description.name))?;
    let (_, usable_bytes) = crate::abi::memory_info(card);
    properties.set_item("total_memory", usable_bytes)?;
    properties.set_item("nominal_memory", spyre::NOMINAL_CARD_BYTES)?;
    properties.set_item("regions", settings.devices.regions)?;
    properties.set_item("region_bytes", settings.devices.region_bytes)?;
    properties.set_item("memory_mode", mode)?;
    properties.set_item("profile", profile)?;
    properties.set_item("engines", description.engines)?;
    Ok(properties)
}

/// Returns True if a stream of a device has work, or failed.
#[pyfunction]
fn is_busy(device: i32) -> PyResult<bool> {
    Ok(cards::card(device)?.is_busy())
}

/// Starts a device anew: all that was on it is gone.
#[pyfunction]
fn reset_device(py: Python<'_>, device: i32) -> PyResult<()> {
    let reset = || Ok::<(), Failure>(cards::card(device)?.device.reset()?);
    Ok(py.detach(reset)?)
}

/// Waits until everything on every stream of a card has ended. Faults are left to other calls, which raise
/// them.
#[pyfunction]
fn _drain(py: Python<'_>, device: i32) -> PyResult<()> {
    let drain = || Ok::<(), Failure>(cards::card(device)?.device.drain()?);
    Ok(py.detach(drain)?)
}

/// Lets a stream that failed be used again.
#[pyfunction]
fn stream_reset(py: Python<'_>, device: i32, stream: i64) -> PyResult<()> {
    let reset = || Ok::<(), Failure>(cards::card(device)?.stream(stream)?.reset()?);
    Ok(py.detach(reset)?)
}

/// Returns True if int64 that is kept as int32 comes with a warning.
#[pyfunction]
fn get_downcast_warning() -> bool {
    warns_of_downcasts()
}

/// Sets whether it does.
#[pyfunction]
fn set_downcast_warning(enabled: bool) {
    set_warns_of_downcasts(enabled);
}

pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(start_runtime, names)?)?;
    names.add_function(wrap_pyfunction!(free_runtime, names)?)?;
    names.add_function(wrap_pyfunction!(is_initialized, names)?)?;
    names.add_function(wrap_pyfunction!(_is_in_bad_fork, names)?)?;
    names.add_function(wrap_pyfunction!(device_count, names)?)?;
    names.add_function(wrap_pyfunction!(devices_warning, names)?)?;
    names.add_function(wrap_pyfunction!(current_device, names)?)?;
    names.add_function(wrap_pyfunction!(set_device, names)?)?;
    names.add_function(wrap_pyfunction!(device_properties, names)?)?;
    names.add_function(wrap_pyfunction!(is_busy, names)?)?;
    names.add_function(wrap_pyfunction!(reset_device, names)?)?;
    names.add_function(wrap_pyfunction!(stream_reset, names)?)?;
    names.add_function(wrap_pyfunction!(_drain, names)?)?;
    names.add_function(wrap_pyfunction!(get_downcast_warning, names)?)?;
    names.add_function(wrap_pyfunction!(set_downcast_warning, names)?)
}
