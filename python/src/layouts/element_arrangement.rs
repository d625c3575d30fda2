use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use spyre::layout;

/// Order of elements inside sticks, as the card's own casts permute them.
#[pyclass(frozen, eq, hash, from_py_object, module = "torch_spyre._C")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ElementArrangement(pub(crate) layout::ElementArrangement);

const ALL: [layout::ElementArrangement; 4] = [
    layout::ElementArrangement::Standard,
    layout::ElementArrangement::Dl16ToFp32,
    layout::ElementArrangement::QFp8Ch,
    layout::ElementArrangement::Exx2,
];

impl ElementArrangement {
    /// Adds the class, with one attribute for every arrangement.
    pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let class = module.py().get_type::<Self>();
        let members = PyDict::new(module.py());
        for arrangement in ALL {
            let member = Py::new(module.py(), Self(arrangement))?;
            class.setattr(arrangement.name(), &member)?;
            members.set_item(arrangement.name(), member)?;
        }
        class.setattr("__members__", members)?;
        module.add("ElementArrangement", class)
    }

    /// The one object of this arrangement.
    pub(crate) fn member(
        py: Python<'_>,
        arrangement: layout::ElementArrangement,
    ) -> PyResult<Bound<'_, PyAny>> {
        py.get_type::<Self>().getattr(arrangement.name())
    }
}

#[pymethods]
impl ElementArrangement {
    #[new]
    pub(crate) fn of_value(value: u8) -> PyResult<Self> {
        let known = ALL.into_iter().find(|arrangement| *arrangement as u8 == value);
        let refused = || PyValueError::new_err(format!("{value} is no ElementArrangement"));
        known.map(Self).ok_or_else(refused)
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
        format!("ElementArrangement.{}", self.0.name())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (u8,)) {
        (py.get_type::<Self>(), (self.0 as u8,))
    }
}
