//! Output of a compiler for the runtime, and images of programs in device memory.
//!
//! Above [`spyre_layout`] and [`spyre_numerics`]; it knows no device. Three modules: [`isa`] has the
//! tile instruction set, its [`Program`]s, and the images in which code and its patched words lie in
//! device memory; [`plan`] has a whole plan, the [`CompilerOutput`], and its form as files; [`cost`]
//! has the time that work takes on a real card.
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
pub mod isa;
pub mod plan;
pub mod samples;

pub use error::{Error, Expected, OperandFlaw};
pub use isa::{
    Access, BinaryOp, Code, CodeImage, CompareOp, Constant, Coordinate, Coordinates,
    CorrectionImage, CorrectionProgram, Dim, Draft, EntryHeader, EntryImage, HEADER_BYTES,
    HandleWords, IMAGE_VERSION, INSTRUCTION_BYTES, Image, Instruction, Lane, MAX_COORDINATES,
    MAX_DIMS, MAX_IMAGE_BYTES, MAX_INSTRUCTIONS, MAX_OPERAND_DIMS, MAX_OPERANDS, MAX_REGISTERS,
    MAX_SCALARS, MAX_SKIP_DEPTH, MAX_TABLE_WORDS, OPERAND_WORDS, Operand, OperandField,
    OperandType, OperandWords, OrderOp, Patch, Program, ProgramBuilder, ReduceOp, Refusal,
    Register, RegisterType, ScalarWord, ScanOp, ScatterOp, SeekOp, Span, TableShape, Tile, Touch,
    UnaryOp,
};
pub use plan::{
    Binding, CompilerOptions, CompilerOutput, CorrectionMetadata, CorrectionWord, Direction,
    ExpectedDim, ExpectedSize, FORMAT_VERSION, HostCompute, ImageId, InitPacket, InitTarget,
    InitTransfer, Intermediate, IntermediateDim, JOB_BASE, JOB_LIMIT, JobStep, MAX_PLAN_BYTES,
    Role, SpyreCode, SpyreCodeFlaw, Step, StepType, TensorMetadata, TileFlag,
};
