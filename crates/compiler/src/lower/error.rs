use thiserror::Error;

/// Reason why a kernel has no plan.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CompileError {
    #[error(
        "`{operand}` has eight axes with coordinates other than its own dims: at most seven do"
    )]
    Access { operand: String },
    #[error("no tensor has the dim `{dim}`, so a launch does not know how long it is")]
    Extent { dim: String },
    #[error("no nest of loops computes this kernel: cut it into several")]
    Nest,
    #[error("no program does `{name}` yet")]
    Operation { name: &'static str },
    #[error(transparent)]
    Element(#[from] spyre_numerics::Error),
    #[error(transparent)]
    Program(#[from] spyre_artifact::Error),
}
