//! The types of the kernel IR.

mod builder;
mod dim_set;
mod expression;
mod functions;
mod interpret;
mod kernel;
mod merge;
mod refusal;
mod scalar_math;
mod short_constants;

pub use builder::KernelBuilder;
pub(crate) use builder::sort_name;
pub use dim_set::{DimId, DimSet};
pub use expression::{Expression, OperandId, ScalarId, Seek, ValueId};
pub use interpret::{Array, InterpretError};
pub use kernel::{Kernel, Operand, Role, Scalar, Store, StoreMode, Value};
pub use refusal::Refusal;
pub(crate) use scalar_math::neutral;
pub(crate) use short_constants::{INFINITE, LARGEST};
