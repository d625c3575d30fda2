use spyre_hal::Fault;

/// Why a program does not run, or not to its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    /// It is no program that runs; the launch knows where it lies.
    Refused(Box<str>),
    /// What happened while it ran.
    Fault(Fault),
}

impl Stop {
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into().into())
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
