//! PyTorch's operators as kernels: what a call asks for, as a kernel of the compiler's IR, the views
//! that it is launched on, and the numbers that it is given.
//!
//! It knows no device and launches nothing: a [`Call`] goes in, a [`Recipe`] comes out. A call that no
//! kernel is known for is [declined](Decline), and the caller takes another way.
//!
//! ```
//! use spyre_aten::{Argument, Call, Op, TensorView};
//! use spyre_numerics::DType::{Float32, Int32};
//!
//! let add = Op::named("add.out").expect("it is known");
//! let a = Argument::Tensor(TensorView { dtype: Float32, size: &[3, 4], stride: &[4, 1], offset: 0 });
//! let b = Argument::Tensor(TensorView { dtype: Int32, size: &[4], stride: &[1], offset: 0 });
//! let arguments = [a, b, Argument::from(1), a];
//! let recipe = add.recipe(&Call { arguments: &arguments, written: &[3], default: Float32 })?;
//! assert_eq!(
//!     recipe.launches[0].kernel.text(),
//!     "\
//! kernel aten_add(i0, i1) {
//!     in a: float32[i0, i1]
//!     in b_: int32[i0, i1]
//!     out y0: float32[i0, i1]
//!     scalar alpha: f32
//!     b = f32(b_)
//!     y0 = f32(a + alpha * b)
//! }
//! "
//! );
//! # Ok::<(), spyre_aten::Decline>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod call;
mod common_kernels;
mod complex_parts;
mod decline;
mod dtypes;
mod movement;
mod optimisers;
mod pointwise;
mod products;
mod random;
mod recipe;
mod recurrent;
mod reductions;
mod registry;
mod spatial;

pub use attention::takes_attention;
pub use call::{Argument, Call, Number};
pub use common_kernels::common_kernels;
pub use decline::Decline;
pub use dtypes::{Category, part_of, promoted};
pub use generated::Generated;
pub use pointwise::Pointwise;
pub use recipe::{KernelSource, Launch, OperandView, Recipe, ResultShape, TensorRef};
pub use registry::{Alias, Flag, Op, OperatorRow, Way};
pub use spyre_layout::TensorView;
pub use template::Written;

// The registry and the families name each other's modules without their folders.
pub(crate) use dtypes::{unsigned, unsigned_bits};
pub(crate) use movement::{
    casts, data_dependent, indexing, making, permuting, rolling, scattering,
};
pub(crate) use products::{attention, quantised};
pub(crate) use recipe::{generated, nest, outputs, template, views};
pub(crate) use reductions::{losses, membership, rows, scans, sorting};
