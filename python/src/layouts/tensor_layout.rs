use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};
use spyre::layout;

use super::{DataFormats, ElementArrangement, TorchDType, arguments, refused, state};
use crate::failure::Failure;
use crate::handover;

/// Layout of a storage in device memory, in sticks of 128 bytes.
///
/// - `SpyreTensorLayout(host_size, dtype)`: a row-major tensor, its last dimension along the sticks
/// - `SpyreTensorLayout(host_size, host_strides, dtype, dim_order, element_arrangement=STANDARD)`:
///   dimensions tiled in this order, the last along the sticks; a -1 behind them makes it sparse
/// - `SpyreTensorLayout(device_size, stride_map, device_dtype, element_arrangement=STANDARD)`: in full
#[pyclass(frozen, eq, skip_from_py_object, module = "torch_spyre._C")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpyreTensorLayout(Arc<layout::SpyreTensorLayout>);

impl From<layout::SpyreTensorLayout> for SpyreTensorLayout {
    fn from(layout: layout::SpyreTensorLayout) -> Self {
        Self(Arc::new(layout))
    }
}

impl From<Arc<layout::SpyreTensorLayout>> for SpyreTensorLayout {
    fn from(layout: Arc<layout::SpyreTensorLayout>) -> Self {
        Self(layout)
    }
}

impl SpyreTensorLayout {
    pub(crate) fn shared(&self) -> Arc<layout::SpyreTensorLayout> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl SpyreTensorLayout {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        arguments::layout(args, kwargs).map(Self::from)
    }

    /// The layout of a tensor whose `stick_dims` are each padded to whole sticks; the last of them
    /// runs along the stick. With none, each stick holds one element.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn with_stick_dims(
        host_size: &Bound<'_, PyAny>,
        host_strides: &Bound<'_, PyAny>,
        dtype: TorchDType,
        stick_dims: Vec<i64>,
    ) -> PyResult<Self> {
        arguments::by_stick_dims(host_size, host_strides, &dtype, &stick_dims).map(Self::from)
    }

    /// The default layout of a tensor of this shape.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn of_shape(
        host_size: &Bound<'_, PyAny>,
        host_strides: &Bound<'_, PyAny>,
        dtype: TorchDType,
    ) -> PyResult<Self> {
        arguments::of_shape(host_size, host_strides, &dtype).map(Self::from)
    }

    /// Elements along each device dimension; the last is one stick.
    #[getter]
    fn device_size(&self) -> Vec<usize> {
        self.0.device_size().to_vec()
    }

    /// Host elements that a step along each device dimension spans; -1 for synthetic ones.
    #[getter]
    fn stride_map(&self) -> Vec<i64> {
        self.0.stride_map().to_vec()
    }

    /// The format of an element on the device.
    #[getter]
    fn device_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        DataFormats::member(py, self.0.device_dtype())
    }

    /// The order of elements inside sticks.
    #[getter]
    fn element_arrangement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ElementArrangement::member(py, self.0.element_arrangement())
    }

    /// The host size that the storage was made with; empty if unknown.
    #[getter]
    fn dma_sizes(&self) -> Vec<usize> {
        self.0.dma_sizes().to_vec()
    }

    /// The host strides that the storage was made with; empty if unknown.
    #[getter]
    fn dma_strides(&self) -> Vec<usize> {
        self.0.dma_strides().to_vec()
    }

    /// Device elements between neighbours along each device dimension: row-major.
    #[getter]
    fn device_strides(&self) -> Vec<usize> {
        let sizes = self.0.device_size();
        (1..=sizes.len()).map(|from| sizes[from..].iter().product()).collect()
    }

    /// The host dimension that each device dimension belongs to; -1 for synthetic ones.
    #[getter]
    fn dim_map(&self) -> PyResult<Vec<i64>> {
        let dims = self.0.dim_map().map_err(refused)?;
        Ok(dims.into_iter().map(|dim| dim.map_or(-1, |dim| dim as i64)).collect())
    }

    /// Elements that each host dimension is padded with, to fill whole sticks.
    #[getter]
    fn padding(&self) -> PyResult<Vec<usize>> {
        self.0.padding().map_err(refused)
    }

    /// Number of elements that fill a stick.
    fn elems_per_stick(&self) -> usize {
        self.0.elements_per_stick()
    }

    /// Bytes in device memory: whole sticks.
    fn device_bytes(&self) -> usize {
        self.0.device_bytes()
    }

    /// The host dimensions that are padded to whole sticks, the one along the stick last.
    fn stick_dims(&self) -> PyResult<Vec<usize>> {
        self.0.stick_dims().map_err(refused)
    }

    /// A copy of this layout for a storage of this host shape.
    fn for_host(
        &self,
        host_size: &Bound<'_, PyAny>,
        host_strides: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let size = arguments::counts("host_size", host_size)?;
        let strides = arguments::counts("host_strides", host_strides)?;
        let layout = (*self.0).clone().for_host(&size, &strides);
        layout.map(Self::from).map_err(refused)
    }

    /// A copy of this layout with another order of elements inside sticks.
    fn with_element_arrangement(&self, element_arrangement: ElementArrangement) -> Self {
        (*self.0).clone().with_element_arrangement(element_arrangement.0).into()
    }

    /// A number under which the next operation of this layout's finds it.
    fn _hand(&self) -> i64 {
        handover::hand(Arc::clone(&self.0))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let read = py.import("torch_spyre._C")?.getattr("_layout_from_state")?;
        let state = (state::of(py, &self.0)?,);
        PyTuple::new(py, [read, state.into_pyobject(py)?.into_any()])
    }
}

/// The layout that an operation handed over under a number.
#[pyfunction]
pub(super) fn _take_layout(number: i64) -> Result<SpyreTensorLayout, Failure> {
    handover::take::<layout::SpyreTensorLayout>(number).map(SpyreTensorLayout::from)
}
