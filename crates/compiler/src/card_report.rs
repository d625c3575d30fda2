//! Report of what a real card would refuse of a kernel, and why.

mod limits;
mod operations;

use std::fmt;

use spyre_artifact::Lane;
use spyre_numerics::{DType, DataFormat, Profile};

use crate::{DimId, Kernel, Restickify, Stick};

/// Something about a kernel that a real card would not do as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the words say what the fields are")]
pub enum CardNote {
    /// The card has no form for the elements.
    DType { operand: String, dtype: DType },
    /// The card keeps fewer bits.
    Narrowed { operand: String, dtype: DType, format: DataFormat },
    /// More dims than the card's layouts have.
    Rank { operand: String, rank: usize },
    /// An operation that a front end makes from others.
    Decomposed { operation: String, into: &'static str },
    /// An operation that a front end leaves to the host.
    OnHost { operation: String },
    /// An operation that the card does with 16-bit numbers only: others are left to the host.
    SinglePrecision { operation: String },
    /// Arithmetic with integers, or with doubles, which is left to the host.
    Arithmetic { operation: String, lane: Lane },
    /// A reduction along the sticks that goes over other dims, too.
    ReducedTogether { operation: String, dims: Vec<String> },
    /// Elements at coordinates that are neither dims nor read from a tensor of indices.
    Access { operand: String },
    /// Elements that lie otherwise than the operation needs them.
    Restickified { what: String, from: String, to: String },
    /// More tensors than a job has segments.
    Segments { tensors: usize },
    /// More bytes for each core than it can address.
    Span { operand: String, bytes_per_core: u64 },
    /// More bytes at once than a core's scratchpad holds.
    Scratchpad { dims: Vec<String>, bytes: u64 },
}

/// Verdict on a [`CardNote`]. Where the software card has the profile `card`, it refuses what is
/// refused here and computes all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It is an error: the card has no form for such tensors.
    Refused,
    /// It is done by the host, between kernels.
    OnHost,
    /// It is done as other operations, or as several.
    Decomposed,
    /// It is done, and numbers may change.
    Narrowed,
}

impl CardNote {
    /// Returns the verdict on it.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::DType { .. } | Self::Rank { .. } => Verdict::Refused,
            Self::OnHost { .. }
            | Self::SinglePrecision { .. }
            | Self::Arithmetic { .. }
            | Self::Access { .. } => Verdict::OnHost,
            Self::Decomposed { .. }
            | Self::ReducedTogether { .. }
            | Self::Restickified { .. }
            | Self::Segments { .. }
            | Self::Span { .. }
            | Self::Scratchpad { .. } => Verdict::Decomposed,
            Self::Narrowed { .. } => Verdict::Narrowed,
        }
    }
}

impl Verdict {
    /// Returns its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::OnHost => "host",
            Self::Decomposed => "decomposed",
            Self::Narrowed => "narrowed",
        }
    }
}

impl Kernel {
    /// Lists what a real card would refuse of the kernel, or do in another way. With extents, also
    /// lists what would be too large for it.
    ///
    /// ```
    /// use spyre_compiler::Kernel;
    ///
    /// let kernel: Kernel = "kernel waves(i) {
    ///     in x: float16[i]
    ///     out y: float16[i]
    ///     y = sin(x)
    /// }".parse()?;
    /// let notes: Vec<String> = kernel.card_report(&[]).iter().map(ToString::to_string).collect();
    /// assert_eq!(notes, ["host: `sin` is none of the card's operations"]);
    /// # Ok::<(), spyre_compiler::ParseError>(())
    /// ```
    pub fn card_report(&self, extents: &[(&str, u64)]) -> Vec<CardNote> {
        let mut notes = limits::of_operands(self);
        notes.extend(operations::of(self));
        let needed = self.layouts(Profile::Card, &[]).restickify;
        notes.extend(needed.iter().map(|restickify| self.note_of(*restickify)));
        notes.extend(limits::of_extents(self, extents));
        let mut seen = Vec::new();
        notes.retain(|note| {
            let is_new = !seen.contains(note);
            seen.push(note.clone());
            is_new
        });
        notes
    }

    /// The note of one restickify.
    pub fn note_of(&self, Restickify { what, from, to }: Restickify) -> CardNote {
        let name = |stick: Stick| stick.name(self).to_owned();
        CardNote::Restickified { what: what.name(self), from: name(from), to: name(to) }
    }

    fn dim_names(&self, dims: impl IntoIterator<Item = DimId>) -> Vec<String> {
        dims.into_iter().map(|dim| self.dim_name(dim).to_owned()).collect()
    }
}

impl fmt::Display for CardNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.verdict().name())?;
        match self {
            Self::DType { operand, dtype } => {
                write!(f, "`{operand}` is {dtype}, for which the card has no form")
            }
            Self::Narrowed { operand, dtype, format } => {
                write!(f, "`{operand}` is {dtype}, which the card keeps as {}", format.name())
            }
            Self::Rank { operand, rank } => {
                write!(
                    f,
                    "`{operand}` has {rank} dims, and the card's layouts at most {}",
                    limits::RANK
                )
            }
            Self::Decomposed { operation, into } => write!(f, "`{operation}` becomes {into}"),
            Self::OnHost { operation } => {
                write!(f, "`{operation}` is none of the card's operations")
            }
            Self::SinglePrecision { operation } => {
                write!(f, "the card has `{operation}` for 16-bit floats only")
            }
            Self::Arithmetic { operation, lane } => {
                write!(
                    f,
                    "the card has no `{operation}` of {lane}: it computes with 16-bit and 32-bit floats"
                )
            }
            Self::ReducedTogether { operation, dims } => {
                let dims = dims.join(", ");
                write!(
                    f,
                    "`{operation}` over {dims} goes along the sticks alone, and then over the rest"
                )
            }
            Self::Access { operand } => {
                write!(
                    f,
                    "`{operand}` at computed coordinates: the card takes dims, or indices from a tensor"
                )
            }
            Self::Restickified { what, from, to } => {
                write!(f, "`{what}` is restickified, from {from} to {to}")
            }
            Self::Segments { tensors } => {
                write!(
                    f,
                    "{tensors} tensors in one kernel take several, as a job has {} segments for them",
                    limits::SEGMENTS
                )
            }
            Self::Span { operand, bytes_per_core } => {
                let most = limits::SPAN_BYTES;
                write!(
                    f,
                    "`{operand}` is cut into parts: it is {bytes_per_core} bytes for each core, which \
                     reaches over {most}"
                )
            }
            Self::Scratchpad { dims, bytes } => {
                let dims = dims.join(", ");
                let most = limits::SCRATCHPAD_BYTES;
                write!(
                    f,
                    "all of {dims} at once takes several kernels: it is {bytes} bytes, and a core's \
                     scratchpad holds {most}"
                )
            }
        }
    }
}
