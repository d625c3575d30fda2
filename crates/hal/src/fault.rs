use crate::{DeviceHandle, DeviceRange};

/// Failure of a device to carry a block out, which a caller could not foresee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Fault {
    /// A function of the host returned an error, or panicked.
    #[error("the host callback failed: {message}")]
    CallbackFailed { message: Box<str> },

    /// Work that another than the card did.
    #[error("work outside the card failed: {message}")]
    ExternalWorkFailed { message: Box<str> },

    /// An index that came with the data.
    #[error(
        "index {index} is out of range for dimension {dimension} with size {size} (of operand o{operand})"
    )]
    IndexOutOfRange { operand: u8, dimension: u8, index: i64, size: u64 },

    /// A divisor that came with the data.
    #[error("an integer was divided by zero")]
    DivisionByZero,

    /// A copy that could not be carried out, or not to its end.
    #[error("the copy failed: {why}")]
    CopyFailed { why: Box<str> },

    /// The host stopped waiting for a copy of its own memory, or interrupted its work twice.
    #[error("cancelled, as the host was interrupted")]
    Interrupted,

    /// Content at the handle that is no program of this device.
    #[error("{program} holds no program that runs: {why}")]
    BadProgram { program: DeviceHandle, why: Box<str> },

    /// A tensor that a program was given, and cannot have.
    #[error("operand o{operand} of the program at {program}: {why}")]
    BadOperand { program: DeviceHandle, operand: u8, why: Box<str> },

    /// Something else than a copy to the device, or a correction, would have written there.
    #[error("{range} holds programs, which only copies to the device and corrections write")]
    Protected { range: DeviceRange },

    /// An access to memory that is not there, or not the program's own.
    #[error("illegal access to {range}")]
    IllegalAccess { range: DeviceRange },

    /// The block did not end by itself.
    #[error("ended by the watchdog after {milliseconds} ms")]
    Hung { milliseconds: u64 },

    /// The device was started anew before the block could be carried out.
    #[error("cancelled, as the device was reset")]
    DeviceReset,

    /// The device is gone, until it is reset.
    #[error("the device is lost: {why}. Reset it; its memory is gone")]
    DeviceLost { why: Box<str> },
}

/// Reach of a fault, and what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The data was bad. The stream goes on once the fault was reported.
    Data,
    /// The program was bad. The stream stays failed until it is reset.
    Structural,
    /// The device is bad. Every stream stays failed until the device is reset.
    Lost,
}

/// Result of a block.
pub type Outcome = Result<(), Fault>;

impl Fault {
    /// Reach of the fault.
    pub fn severity(&self) -> Severity {
        match self {
            Self::CallbackFailed { .. }
            | Self::ExternalWorkFailed { .. }
            | Self::IndexOutOfRange { .. }
            | Self::DivisionByZero
            | Self::CopyFailed { .. }
            | Self::Interrupted => Severity::Data,
            Self::BadProgram { .. }
            | Self::BadOperand { .. }
            | Self::Protected { .. }
            | Self::IllegalAccess { .. }
            | Self::Hung { .. } => Severity::Structural,
            Self::DeviceLost { .. } | Self::DeviceReset => Severity::Lost,
        }
    }
}
