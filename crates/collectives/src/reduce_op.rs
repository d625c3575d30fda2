use std::fmt;

/// Reduction of the elements that the ranks contribute.
///
/// Elements are combined in the order of ranks, 0 first, whatever carries them: every rank gets the same bits, in
/// every run. Floats of 16 and 8 bits are combined as `f32` and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReduceOp {
    /// Sum. Integers wrap; of booleans it is "any".
    Sum,
    /// Sum, divided by the number of ranks. Integers are divided towards zero.
    Avg,
    /// Product. Of booleans it is "all".
    Product,
    /// Smallest element; NaN if there is one.
    Min,
    /// Largest element; NaN if there is one.
    Max,
    /// Bitwise "and" of integers and booleans.
    BitAnd,
    /// Bitwise "or" of integers and booleans.
    BitOr,
    /// Bitwise "exclusive or" of integers and booleans.
    BitXor,
    /// Sum of each element times a factor; floats only.
    PremulSum(f64),
}

impl ReduceOp {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "SUM",
            Self::Avg => "AVG",
            Self::Product => "PRODUCT",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::BitAnd => "BAND",
            Self::BitOr => "BOR",
            Self::BitXor => "BXOR",
            Self::PremulSum(_) => "PREMUL_SUM",
        }
    }

    /// Words by which ranks compare their reductions: a number and the bits of a factor.
    pub(crate) fn words(self) -> [u64; 2] {
        match self {
            Self::Sum => [1, 0],
            Self::Avg => [2, 0],
            Self::Product => [3, 0],
            Self::Min => [4, 0],
            Self::Max => [5, 0],
            Self::BitAnd => [6, 0],
            Self::BitOr => [7, 0],
            Self::BitXor => [8, 0],
            Self::PremulSum(factor) => [9, factor.to_bits()],
        }
    }

    /// The reduction of these words, as another rank wrote them.
    pub(crate) fn from_words(words: [u64; 2]) -> Option<Self> {
        Some(match words[0] {
            1 => Self::Sum,
            2 => Self::Avg,
            3 => Self::Product,
            4 => Self::Min,
            5 => Self::Max,
            6 => Self::BitAnd,
            7 => Self::BitOr,
            8 => Self::BitXor,
            9 => Self::PremulSum(f64::from_bits(words[1])),
            _ => return None,
        })
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::PremulSum(factor) = self {
            return write!(f, "PREMUL_SUM({factor})");
        }
        f.write_str(self.name())
    }
}
