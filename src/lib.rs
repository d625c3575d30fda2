//! An open Spyre software stack, in Rust, that needs no card and no closed library.
//!
//! The facade: it joins the layers below and is what programs, the command line and the PyTorch
//! package are written against.
//!
//! ```
//! use spyre::layout::SpyreTensorLayout;
//! use spyre::numerics::{DType, Profile};
//! use spyre::picture::Picture;
//!
//! let layout = SpyreTensorLayout::for_dtype(Profile::Card, &[1024, 256], DType::Float16)?;
//! assert_eq!(layout.device_size(), [4, 1024, 64]);
//! assert!(Picture::new(&layout)?.terminal(false).contains("4 tiles of 1024 sticks"));
//! # Ok::<(), spyre::layout::Error>(())
//! ```

mod open;
pub mod plans;
pub mod trace;

pub use open::{NOMINAL_CARD_BYTES, OpenError, OpenSettings, device};
pub use spyre_artifact as artifact;
pub use spyre_aten as aten;
pub use spyre_card as card;
pub use spyre_collectives as collectives;
pub use spyre_compiler as compiler;
pub use spyre_flex as flex;
pub use spyre_hal as hal;
pub use spyre_layout as layout;
pub use spyre_numerics as numerics;
pub use spyre_picture as picture;
pub use spyre_runtime as runtime;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../docs/kernels.md")]
mod kernels {}

#[cfg(doctest)]
#[doc = include_str!("../docs/life-of-a-launch.md")]
mod life_of_a_launch {}

#[cfg(doctest)]
#[doc = include_str!("../docs/many-cards.md")]
mod many_cards {}

#[cfg(doctest)]
#[doc = include_str!("../docs/launch-sequence.md")]
mod launch_sequence {}

#[cfg(doctest)]
#[doc = include_str!("../docs/errors-and-reset.md")]
mod errors_and_reset {}
