//! A whole plan: what a compiler hands to the runtime, and its form as files.

mod check;
mod compiler_output;
mod correction_metadata;
mod files;
mod folder;
mod init_packet;
mod intermediate;
mod manifest;
mod options;
mod spyrecode;
mod step;
mod tensor_metadata;
mod text;

pub use compiler_output::{CompilerOutput, FORMAT_VERSION};
pub use correction_metadata::{CorrectionMetadata, CorrectionWord, TileFlag};
pub use init_packet::{InitPacket, InitTarget};
pub use intermediate::{Intermediate, IntermediateDim};
pub use manifest::MAX_PLAN_BYTES;
pub use options::CompilerOptions;
pub use spyrecode::{
    Direction, HostCompute, InitTransfer, JOB_BASE, JOB_LIMIT, JobStep, SpyreCode, SpyreCodeFlaw,
    StepType,
};
pub use step::{Binding, ImageId, Step};
pub use tensor_metadata::{ExpectedDim, ExpectedSize, Role, TensorMetadata};
