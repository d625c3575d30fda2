use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{CompilerOutput, SpyreCode};

use crate::cards;
use crate::failure::Failure;
use crate::layouts::TorchDType;

/// Writes a plan that was assembled by hand to a new folder: something to launch without a compiler.
///
/// "add" and "div" take matrices a, b, c; "matmul" a, b, c; "two_additions" a, b, c, d; "row_sums" x and
/// y; "scale" x, y and two scalars. With a tile, programs are made for it; `form` is "plan" or
/// "spyrecode".
#[pyfunction]
#[pyo3(signature = (name, folder, dtype, tile=None, form="plan"))]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(super) fn _save_sample_plan(
    name: &str,
    folder: PathBuf,
    dtype: TorchDType,
    tile: Option<Vec<u64>>,
    form: &str,
) -> PyResult<()> {
    let TorchDType::Known(dtype) = dtype else {
        return Err(PyTypeError::new_err("the stack does not know this dtype"));
    };
    let profile = cards::profile()?;
    let format = profile.supported_format(dtype).map_err(Failure::from)?;
    let mut plan = sample(name, Elements { dtype, format }, tile.as_deref())?;
    plan.options.profile = profile;
    let saved = match form {
        "plan" => plan.save(folder),
        "spyrecode" => SpyreCode::of_plan(&plan).and_then(|code| code.save(folder)),
        other => return Err(PyValueError::new_err(format!("no form {other:?}"))),
    };
    saved.map_err(|error| Failure::from(spyre::runtime::Error::from(error)).into())
}

fn sample(name: &str, elements: Elements, tile: Option<&[u64]>) -> PyResult<CompilerOutput> {
    let plan = match name {
        "add" => samples::addition(elements, sizes(tile)?),
        "div" => samples::division(elements, sizes(tile)?),
        "matmul" => samples::matmul(elements, sizes(tile)?),
        "two_additions" => samples::two_additions(elements, sizes(tile)?),
        "row_sums" => samples::row_sums(elements, sizes(tile)?),
        "scale" if tile.is_none() => samples::scaling(elements),
        _ => return Err(PyValueError::new_err(format!("no sample plan {name:?} of this kind"))),
    };
    plan.map_err(|error| Failure::from(spyre::runtime::Error::from(error)).into())
}

fn sizes<const N: usize>(tile: Option<&[u64]>) -> PyResult<Option<[u64; N]>> {
    let array = |tile: &[u64]| {
        tile.try_into().map_err(|_| PyValueError::new_err(format!("a tile here has {N} sizes")))
    };
    tile.map(array).transpose()
}
