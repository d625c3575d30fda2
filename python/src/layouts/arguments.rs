//! The three ways to call `SpyreTensorLayout(...)`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use spyre::layout::SpyreTensorLayout;
use spyre::runtime::shared_layout;

use super::{DataFormats, ElementArrangement, TorchDType, own_dim, refused};
use crate::cards;

const BY_SIZE: Form = Form { names: &["host_size", "dtype"], required: 2, dtype: 1 };
const BY_ORDER: Form = Form {
    names: &["host_size", "host_strides", "dtype", "dim_order", "element_arrangement"],
    required: 4,
    dtype: 2,
};
const EXPLICIT: Form = Form {
    names: &["device_size", "stride_map", "device_dtype", "element_arrangement"],
    required: 3,
    dtype: 2,
};

/// A layout from what the constructor was called with.
pub(super) fn layout(
    positional: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<SpyreTensorLayout> {
    if let Some([size, dtype, ..]) = BY_SIZE.bind(positional, named)? {
        return by_size(&some(size)?, &some(dtype)?);
    }
    if let Some([size, strides, dtype, order, arrangement]) = BY_ORDER.bind(positional, named)? {
        let layout = by_order(&some(size)?, &some(strides)?, &some(dtype)?, &some(order)?)?;
        return arranged(layout, arrangement);
    }
    if let Some([size, map, format, arrangement, _]) = EXPLICIT.bind(positional, named)? {
        return arranged(explicit(&some(size)?, &some(map)?, &some(format)?)?, arrangement);
    }
    Err(PyTypeError::new_err(
        "SpyreTensorLayout() takes (host_size, dtype), or (host_size, host_strides, dtype, \
         dim_order, element_arrangement=STANDARD), or (device_size, stride_map, device_dtype, \
         element_arrangement=STANDARD); dtype is a torch.dtype, device_dtype a DataFormats",
    ))
}

fn by_size(size: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<SpyreTensorLayout> {
    let size = counts("host_size", size)?;
    let profile = cards::profile()?;
    let format = dtype.extract::<TorchDType>()?.supported(profile)?;
    SpyreTensorLayout::check_rank(profile, size.len()).map_err(refused)?;
    SpyreTensorLayout::contiguous(&size, format).map_err(refused)
}

fn by_order(
    size: &Bound<'_, PyAny>,
    strides: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    order: &Bound<'_, PyAny>,
) -> PyResult<SpyreTensorLayout> {
    let size = counts("host_size", size)?;
    let strides = counts("host_strides", strides)?;
    let order = order.extract::<Vec<i64>>()?;
    let profile = cards::profile()?;
    let format = dtype.extract::<TorchDType>()?.supported(profile)?;
    SpyreTensorLayout::check_rank(profile, size.len()).map_err(refused)?;
    SpyreTensorLayout::with_dim_order(&size, &strides, format, &order).map_err(refused)
}

/// The layout with these dimensions in sticks.
pub(super) fn by_stick_dims(
    size: &Bound<'_, PyAny>,
    strides: &Bound<'_, PyAny>,
    dtype: &TorchDType,
    dims: &[i64],
) -> PyResult<SpyreTensorLayout> {
    let size = counts("host_size", size)?;
    let strides = counts("host_strides", strides)?;
    let place = |&dim: &i64| own_dim(dim, size.len());
    let dims: Vec<usize> = dims.iter().map(place).collect::<Result<_, _>>()?;
    let profile = cards::profile()?;
    let format = dtype.supported(profile)?;
    SpyreTensorLayout::check_rank(profile, size.len()).map_err(refused)?;
    SpyreTensorLayout::with_stick_dims(&size, &strides, format, &dims).map_err(refused)
}

/// The default layout of a shape.
pub(super) fn of_shape(
    size: &Bound<'_, PyAny>,
    strides: &Bound<'_, PyAny>,
    dtype: &TorchDType,
) -> PyResult<SpyreTensorLayout> {
    let size = counts("host_size", size)?;
    let strides = counts("host_strides", strides)?;
    let profile = cards::profile()?;
    let dtype = dtype.known()?;
    let layout = shared_layout(profile, &size, &strides, dtype).map_err(refused)?;
    Ok(layout.layout().clone())
}

fn explicit(
    size: &Bound<'_, PyAny>,
    map: &Bound<'_, PyAny>,
    format: &Bound<'_, PyAny>,
) -> PyResult<SpyreTensorLayout> {
    let size = counts("device_size", size)?;
    let map = map.extract::<Vec<i64>>()?;
    let DataFormats(format) = format.extract()?;
    SpyreTensorLayout::explicit(&size, &map, format).map_err(refused)
}

fn arranged(
    layout: SpyreTensorLayout,
    arrangement: Option<Bound<'_, PyAny>>,
) -> PyResult<SpyreTensorLayout> {
    let Some(arrangement) = arrangement else { return Ok(layout) };
    let ElementArrangement(arrangement) = arrangement.extract()?;
    Ok(layout.with_element_arrangement(arrangement))
}

/// Sizes or strides: numbers that are not negative.
pub(super) fn counts(name: &str, list: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let numbers: Vec<i64> = list.extract()?;
    let count = |(at, &number): (usize, &i64)| {
        let text = || refused(format!("{name}[{at}] is {number}: it must not be negative"));
        usize::try_from(number).map_err(|_| text())
    };
    numbers.iter().enumerate().map(count).collect()
}

fn some<'py>(argument: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    argument.ok_or_else(|| PyTypeError::new_err("SpyreTensorLayout(): an argument is missing"))
}

/// One way to call it.
struct Form {
    names: &'static [&'static str],
    /// Number of arguments that must be given.
    required: usize,
    /// Index of the dtype, which distinguishes the forms.
    dtype: usize,
}

type Bindings<'py> = [Option<Bound<'py, PyAny>>; 5];

impl Form {
    /// The arguments in order, if they are this form's.
    fn bind<'py>(
        &self,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bindings<'py>>> {
        let mut bound = Bindings::default();
        if positional.len() > self.names.len() {
            return Ok(None);
        }
        for (place, value) in bound.iter_mut().zip(positional) {
            *place = Some(value);
        }
        for (name, value) in named.into_iter().flatten() {
            let name: String = name.extract()?;
            match self.names.iter().position(|known| *known == name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                _ => return Ok(None),
            }
        }
        let is_complete = bound[..self.required].iter().all(Option::is_some);
        let Some(dtype) = &bound[self.dtype] else { return Ok(None) };
        let is_torch = TorchDType::is_one(dtype)?;
        let fits = match self.names[self.dtype] {
            "dtype" => is_torch,
            _ => dtype.is_instance_of::<DataFormats>(),
        };
        Ok((is_complete && fits).then_some(bound))
    }
}
