//! Kernel IR: what a kernel computes, as a type and as text; and plans made from it.
//!
//! A [`Kernel`] says for every place of its outputs which value goes there, in named dims whose
//! extents are known at launch. It says nothing of tiles, loops or layouts: one IR for a single op, a
//! fused group and a kernel written by hand. [`Kernel::interpret`] carries it out element by element:
//! slow, and what everything faster is compared with.
//!
//! ```
//! use spyre_compiler::Kernel;
//!
//! let softmax: Kernel = "
//! kernel softmax(rows, columns) {
//!     in x: float16[rows, columns]
//!     out y: float16[rows, columns]
//!     e = exp(x - max<columns>(x))
//!     y = e / sum<columns>(e)
//! }"
//! .parse()?;
//! assert_eq!(softmax.operands().len(), 2);
//! # Ok::<(), spyre_compiler::ParseError>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod card_report;
mod ir;
mod layouts;
mod lower;
mod matrix_product;
mod predict;
mod text;

pub use card_report::{CardNote, Verdict};
pub use ir::{
    Array, DimId, DimSet, Expression, InterpretError, Kernel, KernelBuilder, Operand, OperandId,
    Refusal, Role, Scalar, ScalarId, Seek, Store, StoreMode, Value, ValueId,
};
pub use layouts::{Layouts, Restickified, Restickify, Stick};
pub use lower::{CompileError, CompileOptions};
pub use predict::{PredictError, Prediction};
pub use text::{MOST_TEXT_BYTES, ParseError, Position, is_function};

/// The version of the compiler, and a digest of what it was built from. Plans of another one may differ.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("SPYRE_COMPILER_SOURCES"));
