//! An instruction, and the names, lanes and spans that it is made of.

mod blocks;
mod constant;
mod coordinates;
mod encoding;
mod ids;
mod lane;
mod ops;
mod span;
mod touch;

use std::fmt;
use std::num::NonZeroU32;

use spyre_numerics::DataFormat;

pub use constant::Constant;
pub use coordinates::{Coordinate, Coordinates, MAX_COORDINATES};
pub(in crate::isa) use encoding::format_from_code;
pub use ids::{Dim, Operand, Register, ScalarWord};
pub use lane::Lane;
pub use ops::{BinaryOp, CompareOp, OrderOp, ReduceOp, ScanOp, ScatterOp, SeekOp, UnaryOp};
pub use span::Span;
pub use touch::Touch;

/// Bytes of one encoded instruction.
pub const INSTRUCTION_BYTES: usize = 16;

/// Tiling of a loop's dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tile {
    /// One tile, as long as the dim.
    All,
    /// Tiles of so many elements; the last one may be shorter.
    Of(NonZeroU32),
}

impl From<u32> for Tile {
    /// Zero means all.
    fn from(elements: u32) -> Self {
        NonZeroU32::new(elements).map_or(Self::All, Self::Of)
    }
}

impl Tile {
    /// Elements of a whole tile; zero means all.
    pub fn elements(self) -> u32 {
        match self {
            Self::All => 0,
            Self::Of(elements) => elements.get(),
        }
    }
}

/// Instruction of a device, on whole tiles. [`Program`](super::Program) has the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields' types say what they are")]
pub enum Instruction {
    /// The body up to its `End` runs once per tile of `dim`; tiles of a parallel loop in any order.
    Begin { dim: Dim, tile: Tile, is_parallel: bool },
    /// The end of the innermost loop.
    End,
    /// The operand's current tile, converted to the register's lane.
    Load { target: Register, source: Operand },
    /// The register's tile, rounded once to the operand's format.
    Store { target: Operand, source: Register },
    /// The operand's elements at coordinates that registers hold, converted to the target's lane.
    /// Past either end of an axis is a data fault; with `keeps_outside`, the target keeps what it
    /// holds there.
    Gather { target: Register, source: Operand, at: Coordinates, keeps_outside: bool },
    /// The register's elements to coordinates that registers hold, where the mask is true, one after
    /// the other in the order of the source's dims: each is combined with what is there, and rounded
    /// to the operand's format. Past either end of an axis is a data fault.
    Scatter {
        op: ScatterOp,
        target: Operand,
        source: Register,
        at: Coordinates,
        mask: Option<Register>,
    },
    /// One value everywhere.
    Constant { target: Register, value: Constant },
    /// A patched word everywhere, read as a [`Constant`] of the register's lane.
    Scalar { target: Register, scalar: ScalarWord },
    /// Each element's coordinate along `dim`, counted from the launch's first.
    Index { target: Register, dim: Dim },
    /// The whole extent of `dim`.
    Extent { target: Register, dim: Dim },
    /// 32 random bits: word `word` of Philox 4x32-10 with key `seed` and counter `index`:`offset`.
    Random { word: u8, target: Register, seed: Register, offset: Register, index: Register },
    /// One value in, one out.
    Unary { op: UnaryOp, target: Register, source: Register },
    /// Two values in, one out.
    Binary { op: BinaryOp, target: Register, left: Register, right: Register },
    /// Two values in, a truth value out.
    Compare { op: CompareOp, target: Register, left: Register, right: Register },
    /// `yes` where the condition is true, `no` elsewhere.
    Select { target: Register, condition: Register, yes: Register, no: Register },
    /// Converts from lane to lane, as CPU PyTorch casts; within one lane it is a copy.
    Convert { target: Register, source: Register },
    /// Rounds to a storage format and back, as a store and a load would.
    Round { target: Register, source: Register, format: DataFormat },
    /// Reduces the dims that `source` spans and `target` does not, combined with what it holds.
    Reduce { op: ReduceOp, target: Register, source: Register },
    /// Adds the matrix product of two operands' current tiles to what `target` holds: over `k`, the longest dim
    /// if a compiler has the choice, and over all other dims of both that the target does not span.
    Dot { target: Register, left: Operand, right: Operand, k: Dim },
    /// Prefix scan along `dim`: for each element, the result of all up to it and of what `carry` held
    /// before them. `carry` then holds the last results.
    Scan { op: ScanOp, target: Register, source: Register, carry: Register, dim: Dim },
    /// Finds the sought element along `dim`: `value` and `place` hold the one that was found before
    /// (none if the place is negative), and then the better of the two.
    Seek { op: SeekOp, value: Register, place: Register, source: Register, dim: Dim },
    /// All elements along `dim` sorted, and the places that they had.
    Order { op: OrderOp, places: Register, values: Register, source: Register, dim: Dim },
    /// Adds the matrix product of two registers to what `target` holds: the sum over the dims that
    /// both span and `target` does not.
    Multiply { target: Register, left: Register, right: Register },
    /// Passes over the next `instructions` if the word is zero.
    SkipUnless { scalar: ScalarWord, instructions: u32 },
    /// Passes over the next `instructions` if no element of the register is true.
    SkipUnlessAny { condition: Register, instructions: u32 },
    /// Correction only: copies words of the input area into the word table.
    Patch { source_word: u32, target_word: u32, words: u32 },
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { dim, tile, is_parallel } => {
                let parallel = if is_parallel { " parallel" } else { "" };
                match tile {
                    Tile::All => write!(f, "begin {dim} all{parallel}"),
                    Tile::Of(elements) => write!(f, "begin {dim} tile {elements}{parallel}"),
                }
            }
            Self::End => f.write_str("end"),
            Self::Load { target, source } => write!(f, "{target} = load {source}"),
            Self::Store { target, source } => write!(f, "store {target} {source}"),
            Self::Gather { target, source, at, keeps_outside } => {
                let rest = if keeps_outside { " else keep" } else { "" };
                write!(f, "{target} = gather {source} {at}{rest}")
            }
            Self::Scatter { op, target, source, at, mask } => {
                write!(f, "scatter {op} {target} {at} {source}")?;
                mask.map_or(Ok(()), |mask| write!(f, " where {mask}"))
            }
            Self::Constant { target, value } => write!(f, "{target} = constant {value}"),
            Self::Scalar { target, scalar } => write!(f, "{target} = scalar {scalar}"),
            Self::Index { target, dim } => write!(f, "{target} = index {dim}"),
            Self::Extent { target, dim } => write!(f, "{target} = extent {dim}"),
            Self::Random { word, target, seed, offset, index } => {
                write!(f, "{target} = random word {word} {seed} {offset} {index}")
            }
            Self::Unary { op, target, source } => write!(f, "{target} = {op} {source}"),
            Self::Binary { op, target, left, right } => write!(f, "{target} = {op} {left} {right}"),
            Self::Compare { op, target, left, right } => {
                write!(f, "{target} = {op} {left} {right}")
            }
            Self::Select { target, condition, yes, no } => {
                write!(f, "{target} = select {condition} {yes} {no}")
            }
            Self::Convert { target, source } => write!(f, "{target} = convert {source}"),
            Self::Round { target, source, format } => {
                write!(f, "{target} = round_to {} {source}", format.name())
            }
            Self::Reduce { op, target, source } => write!(f, "reduce {op} {target} {source}"),
            Self::Dot { target, left, right, k } => {
                write!(f, "dot {target} {left} {right} over {k}")
            }
            Self::Scan { op, target, source, carry, dim } => {
                write!(f, "{target} = {op} {source} over {dim} carrying {carry}")
            }
            Self::Seek { op, value, place, source, dim } => {
                write!(f, "{op} {value} {place} {source} over {dim}")
            }
            Self::Order { op, places, values, source, dim } => {
                write!(f, "{places} {values} = {op} {source} over {dim}")
            }
            Self::Multiply { target, left, right } => {
                write!(f, "multiply {target} {left} {right}")
            }
            Self::SkipUnless { scalar, instructions } => {
                write!(f, "skip {instructions} unless {scalar}")
            }
            Self::SkipUnlessAny { condition, instructions } => {
                write!(f, "skip {instructions} unless any {condition}")
            }
            Self::Patch { source_word, target_word, words } => {
                write!(f, "patch {words} words from input {source_word} to table {target_word}")
            }
        }
    }
}
