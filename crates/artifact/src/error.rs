use std::fmt;

use crate::isa::Refusal;
use crate::plan::SpyreCodeFlaw;

/// Reason why bytes, a program or a plan is refused. An `Err` means that nothing was kept.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Bytes end before what they announce.
    #[error("{part}, byte {offset}: {field} needs {expected} bytes, found {found}")]
    Truncated {
        part: &'static str,
        offset: usize,
        field: &'static str,
        found: usize,
        expected: usize,
    },

    /// Bytes that mean nothing, or contradict others.
    #[error("{part}, byte {offset}: {field} is {found:#x}, expected {expected}")]
    Unexpected {
        part: &'static str,
        offset: usize,
        field: &'static str,
        found: u64,
        expected: Expected,
    },

    /// A program that decodes, but breaks a rule.
    #[error("instruction {at}, `{instruction}`: {refusal}")]
    Instruction { at: usize, instruction: String, refusal: Refusal },

    /// A program whose declarations or whole shape break a rule.
    #[error("program: {0}")]
    Program(Refusal),

    /// A layout was refused.
    #[error(transparent)]
    Layout(#[from] spyre_layout::Error),

    /// Operand words that describe no tensor.
    #[error("operand words: {0}")]
    OperandWords(OperandFlaw),

    /// Two images that do not belong together.
    #[error("{what}: {found}, but the program needs {expected}")]
    Mismatch { what: &'static str, found: u64, expected: u64 },

    /// An intermediate with a dim of unknown length.
    #[error("intermediate {name:?}: dim {dim} has no usable extent here")]
    UnknownExtent { name: String, dim: String },

    /// A file of a plan holds an image that is refused.
    #[error("{file}: {error}")]
    Image { file: String, error: Box<Self> },

    /// A part of a plan breaks a rule; `path` says which, as in `steps[0].bindings[2]`.
    #[error("{file}, {path}: {reason}")]
    Plan { file: String, path: String, reason: String },

    /// A SpyreCode directory that is no job.
    #[error(transparent)]
    SpyreCode(#[from] SpyreCodeFlaw),

    /// A file or a folder could not be used as it is.
    #[error("{file}: {reason}")]
    File { file: String, reason: String },
}

/// Value that a field should have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// This number.
    Exactly(u64),
    /// This number or less.
    AtMost(u64),
    /// One of a kind that words describe.
    Kind(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value:#x}"),
            Self::AtMost(value) => write!(f, "at most {value:#x}"),
            Self::Kind(words) => f.write_str(words),
        }
    }
}

/// Reason why operand words describe no tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OperandFlaw {
    /// The words are as they were made.
    #[error("no correction has filled them; launch the correction program first")]
    Unfilled,
    /// Too many dimensions.
    #[error("device rank {rank}, expected 1 to 8")]
    Rank { rank: u8 },
    /// No format of ours.
    #[error("format code {code} is none that can be addressed")]
    Format { code: u8 },
    /// No arrangement of ours.
    #[error("element arrangement code {code}, expected 0 to 3")]
    Arrangement { code: u8 },
    /// Bits that have no meaning yet.
    #[error("layout word {word:#x} has reserved bits set")]
    Reserved { word: u64 },
    /// A device dimension that does not fit its 32 bits.
    #[error("device dimension {dim} is {elements} elements, expected at most 4294967295")]
    DeviceSize { dim: usize, elements: usize },
    /// The storage has another format than the program was made for.
    #[error("the storage holds {found}, but the program declares {expected}")]
    FormatMismatch { found: spyre_numerics::DataFormat, expected: spyre_numerics::DataFormat },
}
