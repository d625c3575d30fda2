use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use spyre::hal::{self, Location, PFDeviceHandle, VFDeviceHandle};

/// An opaque reference to a location in device memory; sizes are kept beside it.
///
/// A card in PF mode has a `physical_address`, one in VF mode a `region_id` and a `vf_offset`.
#[pyclass(frozen, eq, from_py_object, module = "torch_spyre.runtime")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceHandle(pub(super) hal::DeviceHandle);

#[pymethods]
impl DeviceHandle {
    /// "PF" or "VF".
    #[getter]
    fn mode(&self) -> &'static str {
        match self.0.location() {
            Location::Pf(_) => "PF",
            Location::Vf(_) => "VF",
        }
    }

    /// The address on the device, in PF mode.
    #[getter]
    fn physical_address(&self) -> PyResult<u64> {
        match self.0.location() {
            Location::Pf(PFDeviceHandle { physical_address }) => Ok(physical_address),
            Location::Vf(_) => Err(absent("physical_address", "VF", "region_id and vf_offset")),
        }
    }

    /// The region, in VF mode.
    #[getter]
    fn region_id(&self) -> PyResult<u16> {
        self.region().map(|place| place.region_id)
    }

    /// Bytes from the region's start, in VF mode.
    #[getter]
    fn vf_offset(&self) -> PyResult<u64> {
        self.region().map(|place| place.vf_offset)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("<DeviceHandle {}>", self.0)
    }
}

impl DeviceHandle {
    fn region(&self) -> PyResult<VFDeviceHandle> {
        match self.0.location() {
            Location::Vf(place) => Ok(place),
            Location::Pf(_) => Err(absent("region_id or vf_offset", "PF", "physical_address")),
        }
    }
}

fn absent(name: &str, mode: &str, other: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "a handle of a card in {mode} mode has no {name}, but {other}"
    ))
}
