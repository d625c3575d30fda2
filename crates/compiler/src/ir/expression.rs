use spyre_artifact::{
    BinaryOp, CompareOp, Constant, Lane, OrderOp, ReduceOp, ScanOp, SeekOp, UnaryOp,
};
use spyre_numerics::DType;

use super::{DimId, DimSet};

/// A tensor of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandId(pub u32);

/// A number that a launch is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub u32);

/// Result of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Computation of a value from others. All values that it names come before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expression {
    /// One number everywhere.
    Constant(Constant),
    /// Given at launch.
    Scalar(ScalarId),
    /// The coordinate along a dim.
    Index(DimId),
    /// The extent of a dim.
    Size(DimId),
    /// The element at these coordinates. Past either end it is a data fault, or the other value.
    Load {
        /// Tensor that is loaded from.
        operand: OperandId,
        /// An `i64` for each of its dims.
        axes: Vec<ValueId>,
        /// Value outside of the tensor.
        otherwise: Option<ValueId>,
    },
    /// One value in, one out.
    Unary(UnaryOp, ValueId),
    /// Two values in, one out.
    Binary(BinaryOp, ValueId, ValueId),
    /// Two values in, a truth value out.
    Compare(CompareOp, ValueId, ValueId),
    /// The second where the first is true, the third elsewhere.
    Select(ValueId, ValueId, ValueId),
    /// Conversion from lane to lane, as PyTorch casts.
    Convert(Lane, ValueId),
    /// Rounding to what a store as `dtype` and a load would give.
    Round(DType, ValueId),
    /// Reduction over all coordinates along these dims.
    Reduce(ReduceOp, DimSet, ValueId),
    /// Scan over the coordinates up to this one along a dim.
    Scan(ScanOp, DimId, ValueId),
    /// A coordinate along a dim.
    Seek(Seek, DimId, ValueId),
    /// The n-th of all elements along a dim: those at the coordinates that an order gives.
    Sort(OrderOp, DimId, ValueId),
    /// 32 random bits: one of the four words of Philox 4x32-10 with the seed as its key and the
    /// index and the offset as its counter.
    Random {
        /// Number of the word among the four.
        word: u8,
        /// All 64 bits of the key.
        seed: ValueId,
        /// The low half of the counter.
        offset: ValueId,
        /// The high half of the counter.
        index: ValueId,
    },
}

/// Coordinate that is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Seek {
    /// The first of the smallest; NaN is smaller than everything.
    ArgMin,
    /// The first of the largest; NaN is larger than everything.
    ArgMax,
    /// The coordinate of the n-th smallest; equal ones in their order, NaN last.
    Order,
    /// The coordinate of the n-th largest; equal ones in their order, NaN first.
    OrderDescending,
}

impl Seek {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::ArgMin, Self::ArgMax, Self::Order, Self::OrderDescending];

    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArgMin => "argmin",
            Self::ArgMax => "argmax",
            Self::Order => "order",
            Self::OrderDescending => "order_descending",
        }
    }

    /// Returns the operation, if it seeks one place for all coordinates along the dim.
    pub fn place(self) -> Option<SeekOp> {
        match self {
            Self::ArgMin => Some(SeekOp::ArgMin),
            Self::ArgMax => Some(SeekOp::ArgMax),
            Self::Order | Self::OrderDescending => None,
        }
    }

    /// Returns the order, if there is a place for each coordinate along the dim.
    pub fn order(self) -> Option<OrderOp> {
        match self {
            Self::Order => Some(OrderOp::Ascending),
            Self::OrderDescending => Some(OrderOp::Descending),
            Self::ArgMin | Self::ArgMax => None,
        }
    }

    /// Returns true if there is one place for all coordinates along the dim, not one for each.
    pub fn is_reduction(self) -> bool {
        self.place().is_some()
    }
}

impl Expression {
    /// The values that it reads, to be replaced.
    pub(super) fn sources_mut(&mut self) -> Vec<&mut ValueId> {
        match self {
            Self::Constant(_) | Self::Scalar(_) | Self::Index(_) | Self::Size(_) => Vec::new(),
            Self::Load { axes, otherwise, .. } => axes.iter_mut().chain(otherwise).collect(),
            Self::Binary(_, left, right) | Self::Compare(_, left, right) => vec![left, right],
            Self::Select(condition, yes, no) => vec![condition, yes, no],
            Self::Unary(_, source)
            | Self::Convert(_, source)
            | Self::Round(_, source)
            | Self::Reduce(_, _, source)
            | Self::Scan(_, _, source)
            | Self::Seek(_, _, source)
            | Self::Sort(_, _, source) => vec![source],
            Self::Random { seed, offset, index, .. } => vec![seed, offset, index],
        }
    }

    /// The values that it reads.
    pub fn sources(&self) -> Vec<ValueId> {
        match self {
            Self::Constant(_) | Self::Scalar(_) | Self::Index(_) | Self::Size(_) => Vec::new(),
            Self::Load { axes, otherwise, .. } => axes.iter().chain(otherwise).copied().collect(),
            Self::Binary(_, left, right) | Self::Compare(_, left, right) => vec![*left, *right],
            Self::Select(condition, yes, no) => vec![*condition, *yes, *no],
            Self::Unary(_, source)
            | Self::Convert(_, source)
            | Self::Round(_, source)
            | Self::Reduce(_, _, source)
            | Self::Scan(_, _, source)
            | Self::Seek(_, _, source)
            | Self::Sort(_, _, source) => vec![*source],
            Self::Random { seed, offset, index, .. } => vec![*seed, *offset, *index],
        }
    }
}
