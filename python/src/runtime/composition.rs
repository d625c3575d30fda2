use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use spyre::runtime;

use super::launch::{Site, plain, words};
use super::operation::RawOperation;
use super::tensor::SpyreTensor;
use crate::cards;
use crate::failure::Failure;

/// Operations that are put together once and queued as often as one likes.
///
/// The lock is never held while a full queue is waited for: a signal's handler may replay it, too.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct Composition(Mutex<Arc<runtime::Composition>>);

#[pymethods]
impl Composition {
    /// Makes an empty composition for a stream.
    #[new]
    fn new(device: i32, stream: i64) -> Result<Self, Failure> {
        let composition = runtime::Composition::new(cards::card(device)?.stream(stream)?);
        Ok(Self(Mutex::new(Arc::new(composition))))
    }

    /// Adds the blocks of an Operation.
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn append(
        &self,
        py: Python<'_>,
        operation: &RawOperation,
        tensors: Vec<PyRef<'_, SpyreTensor>>,
        scalars: Vec<i64>,
    ) -> Result<(), Failure> {
        let tensors = plain(&tensors);
        let scalars = words(&scalars);
        let operation = &operation.0;
        py.detach(|| self.change(|composed| composed.append(operation, &tensors, &scalars)))
    }

    fn finalize(&self) -> Result<(), Failure> {
        self.change(runtime::Composition::finalize)
    }

    /// Queues all blocks.
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn replay(&self, py: Python<'_>, site: Site) -> Result<(), Failure> {
        let composed = self.composed();
        py.detach(|| site.queue(true, &[], |_| composed.replay()))
    }

    #[getter]
    fn is_final(&self) -> bool {
        self.composed().is_final()
    }

    fn __len__(&self) -> usize {
        self.composed().len()
    }
}

impl Composition {
    fn composed(&self) -> Arc<runtime::Composition> {
        Arc::clone(&self.0.lock())
    }

    fn change(
        &self,
        change: impl FnOnce(&mut runtime::Composition) -> Result<(), runtime::Error>,
    ) -> Result<(), Failure> {
        let mut composed = self.0.lock();
        let composed = Arc::get_mut(&mut composed)
            .ok_or_else(|| Failure::runtime("the composition is in use by another thread"))?;
        Ok(change(composed)?)
    }
}
