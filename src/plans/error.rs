use spyre_compiler::{CompileError, ParseError};

/// Reason why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The text is no kernel.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The kernel has no plan.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// Reason why a variable about the cache is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SettingsError {
    #[error("SPYRE_CACHE is {value:?}: give 0 to keep plans in memory only, or 1, or unset it")]
    Switch { value: String },
    #[error("SPYRE_CACHE_BYTES is {value:?}: give a number of bytes, such as 268435456 or 256M")]
    Bytes { value: String },
}
