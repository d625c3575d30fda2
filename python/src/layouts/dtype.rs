use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use spyre::numerics::{DType, DataFormat, Profile};

use super::{DataFormats, refused};
use crate::cards;

/// A `torch.dtype`: one that the stack knows, or its name.
#[derive(Clone, Debug)]
pub(crate) enum TorchDType {
    Known(DType),
    Other(String),
}

impl TorchDType {
    /// Returns true if an object is a `torch.dtype`.
    pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        object.is_instance(&object.py().import("torch")?.getattr("dtype")?)
    }

    /// Format in which the device keeps it; `INVALID` if it does not.
    pub(crate) fn format(&self, profile: Profile) -> DataFormat {
        match self {
            Self::Known(dtype) => profile.device_format(*dtype),
            Self::Other(_) => DataFormat::Invalid,
        }
    }

    /// Format in which the device keeps it; an error if it does not.
    pub(crate) fn supported(&self, profile: Profile) -> PyResult<DataFormat> {
        profile.supported_format(self.known()?).map_err(refused)
    }

    /// The dtype, if the stack knows it.
    pub(crate) fn known(&self) -> PyResult<DType> {
        match self {
            Self::Known(dtype) => Ok(*dtype),
            Self::Other(name) => Err(refused(format!("Spyre does not support dtype {name}"))),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for TorchDType {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !Self::is_one(&object)? {
            let given = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a torch.dtype, not {given}")));
        }
        let text = object.str()?;
        let name = text.to_str()?.trim_start_matches("torch.");
        let name = if name == "quint8" { "uint8" } else { name }; // the same bytes
        Ok(DType::from_name(name).map_or_else(|| Self::Other(name.to_owned()), Self::Known))
    }
}

/// The format in which the device keeps a dtype; `DataFormats.INVALID` if it does not.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(crate) fn get_device_dtype(py: Python<'_>, dtype: TorchDType) -> PyResult<Bound<'_, PyAny>> {
    DataFormats::member(py, dtype.format(cards::profile()?))
}

/// Number of elements of a dtype that fill a stick of 128 bytes on the device.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(crate) fn get_elem_in_stick(dtype: TorchDType) -> PyResult<usize> {
    Ok(dtype.format(cards::profile()?).elements_per_stick())
}

/// Returns True if the profile is `card`: the device keeps the formats of a real card, and no others.
#[pyfunction]
pub(crate) fn _is_card_profile() -> PyResult<bool> {
    Ok(cards::profile()? == Profile::Card)
}
