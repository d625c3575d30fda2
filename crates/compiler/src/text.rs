//! The text form of kernels.
//!
//! ```text
//! kernel name(dim, ..) {
//!     in x: float16[dim, ..]          # or `out`, `inout`
//!     scalar alpha: f32
//!     t = exp(x) + x[dim - 1, ..] else 0
//!     y = t * sum<dim>(t)             # to an output: a store
//!     y[index, ..] += t if t > 0      # to some places, where a condition holds
//! }
//! ```
//! A statement is a line. Signs bind as in Rust; `//` divides downwards and `%` goes with it. A number
//! takes the lane of what it is used with; `1f64` says which.

mod composed;
mod parser;
mod position;
mod printer;
mod token;
mod words;

pub use parser::{MOST_TEXT_BYTES, ParseError};
pub use position::Position;
pub use words::is_function;
pub(crate) use words::is_name;
