//! The tile instruction set.
//!
//! A [`Program`] walks over up to 16 *dims*, whose extents are only known at launch. Structured
//! loops cut dims into tiles. A *register* is a tile buffer in LX: it has a [`Lane`] and a [`Span`],
//! the dims along which it holds more than one value. Each instruction works on whole tiles and
//! broadcasts along dims that an input does not span. Operands are tensors in device memory; where
//! they lie is not in the code but in the word table of the instance
//! ([`EntryImage`](crate::EntryImage)), which correction fills at launch.

mod blocks;
mod builder;
mod constant;
mod coordinates;
mod correction;
mod disassembly;
mod encoding;
mod ids;
mod instruction;
mod lane;
mod ops;
mod program;
mod refusal;
mod span;
mod touch;
mod verify;

pub use builder::ProgramBuilder;
pub(crate) use encoding::format_from_code;

pub use constant::Constant;
pub use coordinates::{Coordinate, Coordinates, MAX_COORDINATES};
pub use correction::{CorrectionProgram, Patch};
pub use ids::{Dim, Operand, Register, ScalarWord};
pub use instruction::{INSTRUCTION_BYTES, Instruction, Tile};
pub use lane::Lane;
pub use ops::{BinaryOp, CompareOp, OrderOp, ReduceOp, ScanOp, ScatterOp, SeekOp, UnaryOp};
pub use program::{Access, Draft, OperandType, Program, RegisterType};
pub use refusal::Refusal;
pub use span::Span;
pub use touch::Touch;

/// The most dims a program walks over, and so the deepest nest of loops.
pub const MAX_DIMS: usize = 16;
/// The most dims that move one tensor.
pub const MAX_OPERAND_DIMS: usize = 8;
/// The most tile buffers of a program.
pub const MAX_REGISTERS: usize = 64;
/// The most tensors of a program.
pub const MAX_OPERANDS: usize = 32;
/// The most patched words, besides addresses and extents, of a program.
pub const MAX_SCALARS: usize = 256;
/// The most instructions of a program.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// The deepest nest of skips.
pub const MAX_SKIP_DEPTH: usize = 8;
