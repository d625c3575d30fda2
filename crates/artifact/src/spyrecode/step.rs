use std::fmt;

use serde_json::{Map, Value};

/// One step of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobStep {
    /// A program that lies in the job's memory.
    ComputeOnDevice {
        /// Where it begins.
        address: u64,
        /// What people call it.
        name: Option<String>,
    },
    /// Something that the host works out, such as what a correction is given.
    ComputeOnHost(HostCompute),
    /// Bytes between a host buffer and the job's memory.
    DataTransfer {
        /// Which way.
        direction: Direction,
        /// The host buffer.
        buffer: String,
        /// Where in the job's memory.
        address: u64,
        /// How many.
        bytes: u64,
    },
}

/// What the host works out at every launch.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCompute {
    /// The host buffer that it makes.
    pub output: String,
    /// How long that is.
    pub bytes: u64,
    /// What it is given measures.
    pub input_shape: Vec<String>,
    /// The host buffer that it is given; empty for the tensors of the launch.
    pub input: String,
    /// How it is to be worked out.
    pub metadata: Map<String, Value>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host to device.
    ToDevice,
    /// Device to host.
    FromDevice,
}

/// Which of the [`JobStep`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the steps, by the documents' names")]
pub enum StepType {
    H2D,
    D2H,
    Compute,
    HostCompute,
}

impl JobStep {
    /// Which one it is.
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
