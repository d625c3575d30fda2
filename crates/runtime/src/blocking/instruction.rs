use std::sync::Arc;

use crate::{Operation, PreProcessCompute, SpyreCompute};

/// One unit of work of a [`Program`](super::Program): a compute, with the steps that it needs before
/// it.
///
/// Clones are the same instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    operation: Arc<Operation>,
}

impl Instruction {
    /// A compute that needs nothing before it.
    pub fn new(compute: SpyreCompute) -> Self {
        Self { operation: Arc::new(Operation::new(compute)) }
    }

    /// Steps, and then a compute.
    pub fn with_preprocessing(
        compute: SpyreCompute,
        preprocessing: Vec<PreProcessCompute>,
    ) -> Self {
        Self { operation: Arc::new(Operation::with_preprocessing(compute, preprocessing)) }
    }

    /// The instruction as an Operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    pub(super) fn of(operation: &Operation) -> Self {
        Self { operation: Arc::new(operation.clone()) }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.operation, &other.operation)
    }
}
