//! An open Spyre software stack: open a card, run programs on it.

pub use spyre_layout as layout;
pub use spyre_numerics as numerics;
