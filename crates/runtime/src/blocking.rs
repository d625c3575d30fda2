//! The earlier, blocking face: programs of instructions, and an engine that copies.
//!
//! It says the same as plans and streams, and does it through them; every call waits.

mod dma_engine;
mod instruction;
mod location;
mod program;

pub use dma_engine::DMAEngine;
pub use instruction::Instruction;
pub use location::LocationInSegment;
pub(crate) use location::{segment_id, vf_offset};
pub use program::Program;
