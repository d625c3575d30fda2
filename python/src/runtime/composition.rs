use parking_lot::RwLock;
use pyo3::prelude::*;
use spyre::runtime;

use super::launch::{Site, Tensors, plain, words};
use super::operation::RawOperation;
use super::tensor::SpyreTensor;
use crate::cards;
use crate::failure::Failure;

/// Operations that are put together once and queued as often as one likes.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct Composition {
    composed: RwLock<(runtime::Composition, Tensors)>,
}

#[pymethods]
impl Composition {
    /// Nothing yet, for a stream.
    #[new]
    fn new(device: i32, stream: i64) -> Result<Self, Failure> {
        let composition = runtime::Composition::new(cards::card(device)?.stream(stream)?);
        Ok(Self { composed: RwLock::new((composition, Tensors::new())) })
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
        py.detach(|| {
            let composed = &mut *self.composed.write();
            composed.0.append(operation, &tensors, &scalars)?;
            composed.1.extend(tensors);
            Ok(())
        })
    }

    fn finalize(&self) -> Result<(), Failure> {
        Ok(self.composed.write().0.finalize()?)
    }

    /// Queues all blocks.
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
    fn replay(&self, py: Python<'_>, site: Site) -> Result<(), Failure> {
        py.detach(|| {
            // A signal's handler may replay it while a full queue is waited for.
            let (composition, tensors) = &*self.composed.read_recursive();
            site.queue(true, tensors, |_| composition.replay())
        })
    }

    #[getter]
    fn is_final(&self) -> bool {
        self.composed.read().0.is_final()
    }

    fn __len__(&self) -> usize {
        self.composed.read().0.len()
    }
}
