//! Output of a compiler for the runtime, and images of programs in device memory.
//!
//! Above [`spyre_layout`] and [`spyre_numerics`]; it knows no device. Three floors:
//! a [`Program`] is code of the tile instruction set, an image is how code and its patched words lie
//! in device memory ([`CodeImage`], [`EntryImage`], [`CorrectionImage`]), and a [`CompilerOutput`] is
//! a whole plan as files.
//!
//! Every `decode` takes hostile bytes: it never panics, and takes memory only for what is there.
//!
//! ```
//! use spyre_artifact::{Access, Code, CodeImage, EntryImage, HandleWords, ProgramBuilder, UnaryOp};
//! use spyre_numerics::DataFormat::IeeeFp16;
//!
//! let mut code = ProgramBuilder::new();
//! let n = code.dim();
//! let (x, y) = (
//!     code.operand(IeeeFp16, Access::Read, [n]),
//!     code.operand(IeeeFp16, Access::Write, [n]),
//! );
//! code.each_parallel(n, 4096, |code| {
//!     let tile = code.load(x);
//!     let root = code.unary(UnaryOp::Sqrt, tile);
//!     code.store(y, root);
//! });
//! let program = code.build()?;
//!
//! let entry = EntryImage::new(HandleWords([1, 2, 3]), program.table_shape(), 0)?;
//! let image = CodeImage::new(Code::Compute(program), Vec::new())?;
//! assert_eq!((image.encode().len(), entry.encode().len()), (256, 768));
//! # Ok::<(), spyre_artifact::Error>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

pub mod cost;
mod error;
mod image;
mod isa;
mod output;
pub mod samples;
mod spyrecode;
mod wire;

pub use error::{Error, Expected, OperandFlaw};
pub use image::{
    Code, CodeImage, CorrectionImage, EntryHeader, EntryImage, HEADER_BYTES, HandleWords,
    IMAGE_VERSION, Image, MAX_IMAGE_BYTES, MAX_TABLE_WORDS, OPERAND_WORDS, OperandField,
    OperandWords, TableShape,
};
pub use isa::{
    Access, BinaryOp, CompareOp, Constant, Coordinate, Coordinates, CorrectionProgram, Dim, Draft,
    INSTRUCTION_BYTES, Instruction, Lane, MAX_COORDINATES, MAX_DIMS, MAX_INSTRUCTIONS,
    MAX_OPERAND_DIMS, MAX_OPERANDS, MAX_REGISTERS, MAX_SCALARS, MAX_SKIP_DEPTH, Operand,
    OperandType, OrderOp, Patch, Program, ProgramBuilder, ReduceOp, Refusal, Register,
    RegisterType, ScalarWord, ScanOp, ScatterOp, SeekOp, Span, Tile, Touch, UnaryOp,
};
pub use output::{
    Binding, CompilerOptions, CompilerOutput, CorrectionMetadata, CorrectionWord, ExpectedDim,
    ExpectedSize, FORMAT_VERSION, ImageId, InitPacket, InitTarget, Intermediate, IntermediateDim,
    MAX_PLAN_BYTES, Role, Step, TensorMetadata, TileFlag,
};
pub use spyrecode::{
    Direction, HostCompute, InitTransfer, JOB_BASE, JOB_LIMIT, JobStep, SpyreCode, SpyreCodeFlaw,
    StepType,
};
