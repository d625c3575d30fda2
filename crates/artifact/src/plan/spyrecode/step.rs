use std::fmt;

use serde_json::{Map, Value};

/// Start of a job's addresses: segment 7 of eight, 16 GiB each.
pub const JOB_BASE: u64 = 7 << 34;
/// End of a job's addresses.
pub const JOB_LIMIT: u64 = 8 << 34;

/// One step of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobStep {
    /// A program that lies in the job's memory.
    ComputeOnDevice {
        /// Start address of the program.
        address: u64,
        /// Human-readable name.
        name: Option<String>,
    },
    /// Something that the host works out, such as what a correction is given.
    ComputeOnHost(HostCompute),
    /// Bytes between a host buffer and the job's memory.
    DataTransfer {
        /// Direction of the transfer.
        direction: Direction,
        /// The host buffer.
        buffer: String,
        /// Address in the job's memory.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// Computation of the host at every launch.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCompute {
    /// The host buffer that it makes.
    pub output: String,
    /// Length of that buffer.
    pub bytes: u64,
    /// Shape of its input.
    pub input_shape: Vec<String>,
    /// The host buffer that it is given; empty for the tensors of the launch.
    pub input: String,
    /// Description of the computation.
    pub metadata: Map<String, Value>,
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host to device.
    ToDevice,
    /// Device to host.
    FromDevice,
}

/// Kind of [`JobStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the steps, by the documents' names")]
pub enum StepType {
    H2D,
    D2H,
    Compute,
    HostCompute,
}

impl JobStep {
    /// Kind of the step.
    pub fn kind(&self) -> StepType {
        match self {
            Self::ComputeOnDevice { .. } => StepType::Compute,
            Self::ComputeOnHost(_) => StepType::HostCompute,
            Self::DataTransfer { direction: Direction::ToDevice, .. } => StepType::H2D,
            Self::DataTransfer { direction: Direction::FromDevice, .. } => StepType::D2H,
        }
    }
}

impl fmt::Display for StepType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
