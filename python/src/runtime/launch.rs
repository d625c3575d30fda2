use std::ffi::CString;

use pyo3::prelude::*;
use smallvec::SmallVec;
use spyre::hal::StreamPoint;
use spyre::runtime::{self, Mode, SpyreStream, launch_kernel_with};

use super::operation::RawOperation;
use super::plan::RawPlan;
use super::tensor::SpyreTensor;
use crate::cards;
use crate::failure::Failure;
use crate::kernels::{self, Launch, Origin};
use crate::native::shapes;
use crate::recording;

pub(super) type Tensors = SmallVec<[runtime::SpyreTensor; 8]>;

/// The stream and the line of Python that a launch is for.
#[derive(Debug, FromPyObject)]
pub(super) struct Site(i32, i64, String, u32);

/// Queues an Operation on a stream.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(super) fn _launch_operation(
    py: Python<'_>,
    operation: &RawOperation,
    tensors: Vec<PyRef<'_, SpyreTensor>>,
    scalars: Vec<i64>,
    is_tiled: bool,
    site: Site,
) -> Result<(), Failure> {
    let tensors = plain(&tensors);
    let scalars = words(&scalars);
    let mode = if is_tiled { Mode::Tiled } else { Mode::Strict };
    let is_launch = operation.0.compute().is_some();
    let operation = &operation.0;
    py.detach(|| {
        site.queue(is_launch, &tensors, |stream| {
            stream.launch_with(operation, &tensors, &scalars, mode)
        })
    })
}

/// Queues all Operations of a plan on a stream; loads it before, if it is not.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
pub(super) fn _launch_plan(
    py: Python<'_>,
    plan: &RawPlan,
    tensors: Vec<PyRef<'_, SpyreTensor>>,
    scalars: Vec<i64>,
    site: Site,
) -> Result<(), Failure> {
    let tensors = plain(&tensors);
    let scalars = words(&scalars);
    let plan = plan.snapshot();
    py.detach(|| {
        site.queue(true, &tensors, |stream| {
            if !plan.is_loaded() {
                plan.load(stream)?;
            }
            launch_kernel_with(stream, &plan, &tensors, &scalars)
        })
    })
}

impl Site {
    /// Queues something, and remembers which line asked for it.
    pub(super) fn queue(
        &self,
        is_launch: bool,
        tensors: &[runtime::SpyreTensor],
        queue: impl FnOnce(&SpyreStream) -> Result<StreamPoint, runtime::Error>,
    ) -> Result<(), Failure> {
        let Self(device, stream, file, line) = self;
        let stream = cards::card(*device)?.stream(*stream)?;
        let before = stream.flex().last_point();
        let queue = || Ok(queue(stream)?);
        let last = recording::noted(stream, is_launch, || shapes(tensors), queue)?;
        let file = CString::new(file.replace('\0', "?")).unwrap_or_default();
        let origin = Origin::Line(kernels::kept(&file), *line);
        kernels::note_launch(Launch { before, last, origin });
        Ok(())
    }
}

/// The tensors themselves.
pub(super) fn plain(tensors: &[PyRef<'_, SpyreTensor>]) -> Tensors {
    tensors.iter().map(|tensor| (*tensor.0).clone()).collect()
}

/// Scalars as programs are given them.
pub(super) fn words(scalars: &[i64]) -> SmallVec<[u64; 8]> {
    scalars.iter().map(|&word| word as u64).collect()
}
