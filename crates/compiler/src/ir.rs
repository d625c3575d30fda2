//! The types of the kernel IR.

mod builder;
mod dim_set;
mod expression;
mod interpret;
mod kernel;
mod refusal;
mod scalar_math;

pub use builder::KernelBuilder;
pub use dim_set::{DimId, DimSet};
pub use expression::{Expression, OperandId, ScalarId, ScanOp, Seek, ValueId};
pub use interpret::{Array, InterpretError};
pub use kernel::{Kernel, Operand, Role, Scalar, Store, StoreMode, Value};
pub use refusal::Refusal;
pub(crate) use scalar_math::neutral;
