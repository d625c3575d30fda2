//! Pickled layouts: tuples that begin with a version.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use spyre::layout;

use super::{DataFormats, ElementArrangement, SpyreTensorLayout, refused};

/// Version that is written. Older ones are read:
///
/// | version | behind it |
/// |---|---|
/// | 1 | device size, stride map, device dtype |
/// | 2 | the same, element arrangement |
/// | 3 | the same, host sizes, host strides |
const VERSION: u8 = 3;

type State<'py> =
    (u8, Vec<usize>, Vec<i64>, Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<usize>, Vec<usize>);

/// A layout as a tuple.
pub(super) fn of<'py>(py: Python<'py>, layout: &layout::SpyreTensorLayout) -> PyResult<State<'py>> {
    Ok((
        VERSION,
        layout.device_size().to_vec(),
        layout.stride_map().to_vec(),
        DataFormats::member(py, layout.device_dtype())?,
        ElementArrangement::member(py, layout.element_arrangement())?,
        layout.dma_sizes().to_vec(),
        layout.dma_strides().to_vec(),
    ))
}

/// The layout that a tuple describes.
#[pyfunction]
pub(super) fn _layout_from_state(state: &Bound<'_, PyTuple>) -> PyResult<SpyreTensorLayout> {
    let version: u8 = state.get_item(0)?.extract()?;
    let expected = match version {
        1 => 4,
        2 => 5,
        3 => 7,
        _ => {
            let text = format!("a layout was pickled as version {version}, newer than {VERSION}");
            return Err(PyValueError::new_err(text));
        }
    };
    if state.len() != expected {
        let text = format!("a pickled layout of version {version} has {expected} parts");
        return Err(PyValueError::new_err(text));
    }
    let size: Vec<usize> = state.get_item(1)?.extract()?;
    let map: Vec<i64> = state.get_item(2)?.extract()?;
    let DataFormats(format) = state.get_item(3)?.extract()?;
    let mut layout = layout::SpyreTensorLayout::explicit(&size, &map, format).map_err(refused)?;
    if version >= 2 {
        let ElementArrangement(arrangement) = state.get_item(4)?.extract()?;
        layout = layout.with_element_arrangement(arrangement);
    }
    if version >= 3 {
        let sizes: Vec<usize> = state.get_item(5)?.extract()?;
        let strides: Vec<usize> = state.get_item(6)?.extract()?;
        layout = with_host(layout, &sizes, &strides)?;
    }
    Ok(layout.into())
}

/// The layout with its host shape; without one, both lists are empty.
fn with_host(
    layout: layout::SpyreTensorLayout,
    sizes: &[usize],
    strides: &[usize],
) -> PyResult<layout::SpyreTensorLayout> {
    if sizes.is_empty() && strides.is_empty() && !is_scalar(&layout) {
        Ok(layout)
    } else {
        layout.for_host(sizes, strides).map_err(refused)
    }
}

/// A scalar's host shape is empty, too.
fn is_scalar(layout: &layout::SpyreTensorLayout) -> bool {
    layout.device_size().len() == 2 && layout.stride_map() == [-1, -1]
}
