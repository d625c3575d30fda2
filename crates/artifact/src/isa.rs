//! The tile instruction set.
//!
//! A [`Program`] walks over up to 16 *dims*, whose extents are only known at launch. Structured
//! loops cut dims into tiles. A *register* is a tile buffer in LX: it has a [`Lane`] and a [`Span`],
//! the dims along which it holds more than one value. Each instruction works on whole tiles and
//! broadcasts along dims that an input does not span. Operands are tensors in device memory; where
//! they lie is not in the code but in the word table of the instance
//! ([`EntryImage`]), which correction fills at launch.
//!
//! Four parts, each above the one before it: [`Instruction`]s with their names, lanes and spans; the
//! words of a table ([`OperandWords`], [`TableShape`]); the [`Program`], its builder, verifier and
//! text; and the images of all of them in device memory ([`CodeImage`], [`EntryImage`],
//! [`CorrectionImage`]).

mod image;
mod instruction;
mod limits;
mod program;
mod wire;
mod word_table;

pub use image::{
    Code, CodeImage, CorrectionImage, EntryHeader, EntryImage, HEADER_BYTES, IMAGE_VERSION, Image,
    MAX_IMAGE_BYTES,
};
pub use instruction::{
    BinaryOp, CompareOp, Constant, Coordinate, Coordinates, Dim, INSTRUCTION_BYTES, Instruction,
    Lane, MAX_COORDINATES, Operand, OrderOp, ReduceOp, Register, ScalarWord, ScanOp, ScatterOp,
    SeekOp, Span, Tile, Touch, UnaryOp,
};
pub use limits::{
    MAX_DIMS, MAX_INSTRUCTIONS, MAX_OPERAND_DIMS, MAX_OPERANDS, MAX_REGISTERS, MAX_SCALARS,
    MAX_SKIP_DEPTH,
};
pub use program::{
    Access, CorrectionProgram, Draft, OperandType, Patch, Program, ProgramBuilder, Refusal,
    RegisterType,
};
pub use word_table::{
    HandleWords, MAX_TABLE_WORDS, OPERAND_WORDS, OperandField, OperandWords, TableShape,
};
