use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::isa::{Dim, MAX_DIMS, MAX_OPERANDS, Operand, OperandField, ScalarWord, TableShape};

/// Words that the host writes into a correction's input area at each launch of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrectionMetadata {
    /// Bytes of the input area: 8 per word.
    pub input_bytes: u64,
    /// Meaning of each word.
    pub words: Vec<CorrectionWord>,
}

/// Meaning of one word of a correction's input. In the plan it is text: `o0.handle[1]`,
/// `d2.extent`, `s3`, `d2.is_first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum CorrectionWord {
    /// A word of an operand, as [`OperandWords`](crate::isa::OperandWords) lays it out.
    Operand(Operand, OperandField),
    /// The length of a dim, in elements.
    Extent(Dim),
    /// A number that the launch is given.
    Scalar(ScalarWord),
    /// Place of this tile along a dim: 1 if the flag holds for it, 0 if not.
    Flag(Dim, TileFlag),
}

/// Place of a tile in a tiled launch. A launch without tiles is first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileFlag {
    /// The first along the dim.
    First,
    /// Any but the first: skips have no "else".
    NotFirst,
    /// The last along the dim.
    Last,
    /// Any but the last.
    NotLast,
}

impl CorrectionMetadata {
    /// These words.
    pub fn new(words: Vec<CorrectionWord>) -> Self {
        Self { input_bytes: 8 * words.len() as u64, words }
    }

    /// Has a scalar say where the tile is, rather than be given by the launch.
    #[must_use]
    pub fn with_flag(mut self, scalar: ScalarWord, dim: Dim, flag: TileFlag) -> Self {
        for word in &mut self.words {
            if *word == CorrectionWord::Scalar(scalar) {
                *word = CorrectionWord::Flag(dim, flag);
            }
        }
        self
    }

    /// Every word of a table, in its order.
    pub fn full(shape: TableShape) -> Self {
        let operand = |at: usize| {
            OperandField::all().map(move |field| CorrectionWord::Operand(Operand(at as u8), field))
        };
        let extents = (0..MAX_DIMS).map(|dim| CorrectionWord::Extent(Dim(dim as u8)));
        let scalars = (0..shape.scalars).map(|at| CorrectionWord::Scalar(ScalarWord(at as u8)));
        Self::new((0..shape.operands).flat_map(operand).chain(extents).chain(scalars).collect())
    }
}

impl CorrectionWord {
    /// Index of the word in the table; `None` for flags, which go to any scalar.
    pub fn table_word(self, shape: TableShape) -> Option<usize> {
        match self {
            Self::Operand(operand, field) => Some(shape.operand_word(operand, field)),
            Self::Extent(dim) => Some(shape.extent_word(dim)),
            Self::Scalar(scalar) => Some(shape.scalar_word(scalar)),
            Self::Flag(..) => None,
        }
    }
}

impl TileFlag {
    /// All four.
    pub const ALL: [Self; 4] = [Self::First, Self::NotFirst, Self::Last, Self::NotLast];

    /// Its name in the plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "is_first",
            Self::NotFirst => "is_not_first",
            Self::Last => "is_last",
            Self::NotLast => "is_not_last",
        }
    }

    /// Its value for the tile at `index` of `tiles`.
    pub fn holds(self, index: u64, tiles: u64) -> bool {
        let is_first = index == 0;
        let is_last = index + 1 >= tiles;
        match self {
            Self::First => is_first,
            Self::NotFirst => !is_first,
            Self::Last => is_last,
            Self::NotLast => !is_last,
        }
    }
}

impl fmt::Display for CorrectionWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operand(operand, field) => write!(f, "{operand}.{field}"),
            Self::Extent(dim) => write!(f, "{dim}.extent"),
            Self::Scalar(scalar) => write!(f, "{scalar}"),
            Self::Flag(dim, flag) => write!(f, "{dim}.{}", flag.name()),
        }
    }
}

impl From<CorrectionWord> for String {
    fn from(word: CorrectionWord) -> Self {
        word.to_string()
    }
}

impl TryFrom<String> for CorrectionWord {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for CorrectionWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "correction word {text:?} is none of o0.handle[0], d0.extent, s0, d0.is_first .."
            )
        };
        parse(text).filter(|word| word.to_string() == text).ok_or_else(unknown)
    }
}

/// Reads generously; the caller compares with how the word is written.
fn parse(text: &str) -> Option<CorrectionWord> {
    let (name, field) = text.split_once('.').unwrap_or((text, ""));
    let (kind, number) = name.split_at_checked(1)?;
    let number: u8 = number.parse().ok()?;
    match (kind, field) {
        ("s", "") => Some(CorrectionWord::Scalar(ScalarWord(number))),
        ("d", _) if usize::from(number) >= MAX_DIMS => None,
        ("d", "extent") => Some(CorrectionWord::Extent(Dim(number))),
        ("d", _) => {
            let flag = TileFlag::ALL.into_iter().find(|flag| flag.name() == field)?;
            Some(CorrectionWord::Flag(Dim(number), flag))
        }
        ("o", _) if usize::from(number) < MAX_OPERANDS => {
            let field = OperandField::all().find(|known| known.to_string() == field)?;
            Some(CorrectionWord::Operand(Operand(number), field))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_what_it_writes() {
        let fields = OperandField::all().map(|field| CorrectionWord::Operand(Operand(31), field));
        let flags = TileFlag::ALL.map(|flag| CorrectionWord::Flag(Dim(15), flag));
        let others = [CorrectionWord::Extent(Dim(0)), CorrectionWord::Scalar(ScalarWord(255))];
        for word in fields.chain(flags).chain(others) {
            assert_eq!(word.to_string().parse(), Ok(word));
        }
    }

    #[test]
    fn a_word_has_one_spelling() {
        for text in ["", "s", "s256", "s01", "o32.offset", "d16.extent", "o0.handle[3]", "é0", "+1"]
        {
            assert!(text.parse::<CorrectionWord>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_single_tile_is_first_and_last() {
        assert!(TileFlag::First.holds(0, 1) && TileFlag::Last.holds(0, 1));
        assert!(TileFlag::NotFirst.holds(1, 4) && TileFlag::NotLast.holds(1, 4));
        assert!(!TileFlag::Last.holds(2, 4) && TileFlag::Last.holds(3, 4));
    }
}
