use spyre_artifact::HandleWords;
use spyre_hal::{DeviceHandle, Fault};

use crate::handle_words::handle_from_words;

/// Reason why a program does not run, or not to its end.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::programs) enum Stop {
    /// It is no program that runs; the launch knows where it lies.
    Refused(Box<str>),
    /// One of its operands is not what it should be.
    Operand(u8, Box<str>),
    /// Fault while it ran.
    Fault(Fault),
}

impl Stop {
    pub(in crate::programs) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into().into())
    }

    pub(in crate::programs) fn operand(operand: usize, why: impl Into<String>) -> Self {
        Self::Operand(operand as u8, why.into().into())
    }

    /// Fault that the launch of `program` ends with.
    pub(in crate::programs) fn fault(self, program: DeviceHandle) -> Fault {
        match self {
            Self::Refused(why) => Fault::BadProgram { program, why },
            Self::Operand(operand, why) => Fault::BadOperand { program, operand, why },
            Self::Fault(fault) => fault,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<spyre_artifact::Error> for Stop {
    fn from(error: spyre_artifact::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<spyre_numerics::Error> for Stop {
    fn from(error: spyre_numerics::Error) -> Self {
        Self::refused(error.to_string())
    }
}

/// The handle that an image names; a refusal if there is none.
pub(in crate::programs) fn handle_of(words: HandleWords, what: &str) -> Result<DeviceHandle, Stop> {
    handle_from_words(words).ok_or_else(|| Stop::refused(format!("its {what} has no handle")))
}
