use super::step::{JOB_BASE, JOB_LIMIT, StepType};

/// Defect of a SpyreCode directory. Callers match on some of these texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SpyreCodeFlaw {
    /// No folder.
    #[error("SpyreCode directory does not exist: {folder}")]
    NoFolder { folder: String },

    /// No job in it.
    #[error("spyrecode.json not found in {folder}")]
    NoJob { folder: String },

    /// No JSON, or not of this shape.
    #[error("spyrecode.json: {reason}")]
    Json { reason: String },

    /// A list that is missing, or too short.
    #[error("spyrecode.json: '{list}' must be an array of at least {least} commands")]
    List { list: &'static str, least: usize },

    /// A command where it does not belong.
    #[error("{list}[{index}] is {found:?}, expected {expected}")]
    Command { list: &'static str, index: usize, found: String, expected: &'static str },

    /// A property that is missing.
    #[error("{command} command missing '{property}' property")]
    Missing { command: &'static str, property: &'static str },

    /// A property of another kind.
    #[error("{command} '{property}' must be {expected}")]
    Kind { command: &'static str, property: &'static str, expected: &'static str },

    /// An element of another kind.
    #[error("{command} '{property}' elements must be strings")]
    Elements { command: &'static str, property: &'static str },

    /// A host buffer that no step before has made.
    #[error("{property} '{handle}' not found in pinned buffer map")]
    NoBuffer { property: &'static str, handle: String },

    /// A host buffer that a step before has made.
    #[error("{property} '{handle}' is in the pinned buffer map already")]
    BufferTwice { property: &'static str, handle: String },

    /// An address that is no job's.
    #[error("{command} '{property}' is {address}, outside of [{JOB_BASE}, {JOB_LIMIT})")]
    Address { command: &'static str, property: &'static str, address: u64 },

    /// Bytes that end past the job's memory.
    #[error("{command}: {bytes} bytes at {address} end past the {job_bytes} that are allocated")]
    Reach { command: &'static str, address: u64, bytes: u64, job_bytes: u64 },

    /// A file outside of the folder.
    #[error("init_bin_file {file:?} must be a name inside of the SpyreCode directory")]
    FileName { file: String },

    /// A file of another length.
    #[error("{file} holds {found} bytes, and InitTransfer 'size' is {expected}")]
    FileBytes { file: String, found: u64, expected: u64 },

    /// Steps that do not follow on each other.
    #[error(
        "JobExecPlan[{index}] is {found}: a leading HostCompute is followed by H2D, then by Compute"
    )]
    Order { index: usize, found: StepType },

    /// A plan of ours whose steps are not the job's.
    #[error("JobExecPlan does not run the plan beside it: {why}")]
    OtherPlan { why: &'static str },
}
