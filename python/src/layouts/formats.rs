use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use spyre::numerics::{Converter, DataFormat};

/// Format of one element in memory: the card's formats, and ours where it has none.
///
/// Values 0 to 18 are the card's own; from 32 on they are ours.
#[pyclass(frozen, eq, hash, from_py_object, module = "torch_spyre._C")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DataFormats(pub(crate) DataFormat);

impl DataFormats {
    /// Adds the class, with one attribute for every format.
    pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let class = module.py().get_type::<Self>();
        let members = PyDict::new(module.py());
        for format in DataFormat::ALL {
            let member = Py::new(module.py(), Self(format))?;
            class.setattr(format.name(), &member)?;
            members.set_item(format.name(), member)?;
        }
        class.setattr("__members__", members)?;
        module.add("DataFormats", class)
    }

    /// The one object of this format.
    pub(crate) fn member(py: Python<'_>, format: DataFormat) -> PyResult<Bound<'_, PyAny>> {
        py.get_type::<Self>().getattr(format.name())
    }
}

#[pymethods]
impl DataFormats {
    #[new]
    fn of_value(value: u8) -> PyResult<Self> {
        let format = DataFormat::ALL.into_iter().find(|format| *format as u8 == value);
        format.map(Self).ok_or_else(|| PyValueError::new_err(format!("{value} is no DataFormats")))
    }

    /// Number of elements that fill a stick of 128 bytes; 0 where elements have no published packing.
    fn elems_per_stick(&self) -> usize {
        self.0.elements_per_stick()
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    #[getter]
    fn value(&self) -> u8 {
        self.0 as u8
    }

    fn __int__(&self) -> u8 {
        self.0 as u8
    }

    fn __index__(&self) -> u8 {
        self.0 as u8
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (u8,)) {
        (py.get_type::<Self>(), (self.0 as u8,))
    }
}

/// The bits of a number in a format, as a program's constants have them: rounded once.
#[pyfunction]
pub(super) fn encode_constant(value: f64, format: DataFormats) -> PyResult<u64> {
    let DataFormats(format) = format;
    let refused =
        || PyValueError::new_err(format!("{format} is no format of numbers in whole bytes"));
    let bytes = format.element_bytes().filter(|&bytes| bytes <= 8).ok_or_else(refused)?;
    let mut code = [0; 8];
    Converter::new(DataFormat::IeeeFp64, format)
        .and_then(|converter| converter.convert(&value.to_le_bytes(), &mut code[..bytes]))
        .map_err(super::refused)?;
    Ok(u64::from_le_bytes(code))
}
