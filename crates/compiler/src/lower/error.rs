use thiserror::Error;

/// Why a kernel has no plan.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CompileError {
    #[error(
        "`{operand}` is read or written at other coordinates than its own dims: no program does that yet"
    )]
    Access { operand: String },
    #[error("no tensor has the dim `{dim}`, so a launch does not know how long it is")]
    Extent { dim: String },
    #[error("no nest of loops computes this kernel: cut it into several")]
    Nest,
    #[error("no program does `{name}` yet")]
    Operation { name: &'static str },
    #[error(
        "`{operand}` is stored where a condition holds: it must be `inout`, so that the rest stays"
    )]
    Condition { operand: String },
    #[error(
        "`{operand}` is read again after it was stored to: put the value into a tensor of its own"
    )]
    ReadAfterStore { operand: String },
    #[error(transparent)]
    Element(#[from] spyre_numerics::Error),
    #[error(transparent)]
    Program(#[from] spyre_artifact::Error),
}
