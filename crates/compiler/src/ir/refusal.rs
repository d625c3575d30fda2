use spyre_artifact::Lane;
use spyre_numerics::DType;
use thiserror::Error;

/// Reason why something cannot be part of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    #[error("`{name}` is the name of something else already")]
    NameTaken { name: String },
    #[error(
        "`{name}` cannot be a name: letters, digits and `_`, not first a digit, not a word of the language"
    )]
    BadName { name: String },
    #[error("a kernel has at most {most} dims")]
    TooManyDims { most: usize },
    #[error("elements of {dtype} cannot be computed with: cast them before")]
    NoLane { dtype: DType },
    #[error("`{operation}` does not take {lane}")]
    Lane { operation: String, lane: Lane },
    #[error(
        "`{operation}` takes two of one lane, not {left} and {right}: cast one, as in `{left}(..)`"
    )]
    Lanes { operation: String, left: Lane, right: Lane },
    #[error("a condition is bool, not {lane}")]
    Condition { lane: Lane },
    #[error("a coordinate is i64, not {lane}")]
    Axis { lane: Lane },
    #[error("`{operand}` has {expected} dims and is given {given} coordinates")]
    AxisCount { operand: String, expected: usize, given: usize },
    #[error("`{operand}` is an output, which is not read: make it `inout`")]
    NotRead { operand: String },
    #[error("`{operand}` is an input, which is not written: make it `out` or `inout`")]
    NotWritten { operand: String },
    #[error("{dtype} has no place for {lane}: cast it, as in `f32(..)`")]
    Stored { dtype: DType, lane: Lane },
    #[error("what `{operation}` goes over is the same everywhere along `{dim}`")]
    NotAlong { operation: String, dim: String },
    #[error("`{operation}` goes over one dim or more")]
    NoDims { operation: String },
    #[error(
        "what is stored differs along `{dim}`, and its place in `{operand}` does not: reduce it, or store it with `+=`"
    )]
    ManyValues { operand: String, dim: String },
    #[error("a counter has the random words 0 to 3, and no word {word}")]
    RandomWord { word: i64 },
    #[error("nothing is stored to `{operand}`")]
    NeverStored { operand: String },
    #[error("{name} {number} is not of this kernel")]
    Foreign { name: &'static str, number: u32 },
}
