//! Dtype that an op computes in, by PyTorch's rules.

pub(crate) mod unsigned;
pub(crate) mod unsigned_bits;

use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use crate::{Argument, Call, Decline, Number};

/// Kind of numbers that a dtype has, from the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// True or false.
    Bool,
    /// Integers.
    Int,
    /// Numbers with a fraction.
    Float,
    /// Numbers with an imaginary part.
    Complex,
}

impl Category {
    /// A dtype's.
    pub fn of(dtype: DType) -> Self {
        use DType as D;
        match dtype {
            D::Bool => Self::Bool,
            D::Complex32 | D::Complex64 | D::Complex128 => Self::Complex,
            D::UInt8
            | D::UInt16
            | D::UInt32
            | D::UInt64
            | D::Int8
            | D::Int16
            | D::Int32
            | D::Int64 => Self::Int,
            _ => Self::Float,
        }
    }
}

pub(crate) fn is_complex(dtype: DType) -> bool {
    Category::of(dtype) == Category::Complex
}

/// Dtype of the parts of complex numbers; that of others is their own.
///
/// ```
/// use spyre_aten::part_of;
/// use spyre_numerics::DType::*;
/// assert_eq!((part_of(Complex64), part_of(Float16)), (Float32, Float16));
/// ```
pub fn part_of(dtype: DType) -> DType {
    match dtype {
        DType::Complex32 => DType::Float16,
        DType::Complex64 => DType::Float32,
        DType::Complex128 => DType::Float64,
        real => real,
    }
}

/// The lane that elements are computed in, if kernels have one. That of uint64 has its bits, with a
/// sign: only ops to which that is the same take them (`unsigned.rs`).
pub(crate) fn lane(dtype: DType) -> Result<Lane, Decline> {
    Lane::of(dtype.host_format()).ok_or(Decline::DType { dtype })
}

/// The dtype that PyTorch has under a number, of those that kernels compute with.
pub(crate) fn numbered(number: i64) -> Option<DType> {
    use DType as D;
    Some(match number {
        0 => D::UInt8,
        1 => D::Int8,
        2 => D::Int16,
        3 => D::Int32,
        4 => D::Int64,
        5 => D::Float16,
        6 => D::Float32,
        7 => D::Float64,
        11 => D::Bool,
        15 => D::BFloat16,
        _ => return None,
    })
}

/// Returns true if many numbers can be added up in a dtype: narrow floats would be rounded at every step.
pub(crate) fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64) || Category::of(dtype) == Category::Int
}

/// The narrowest dtype that has the numbers of both, as PyTorch has it.
///
/// ```
/// use spyre_aten::promoted;
/// use spyre_numerics::DType::*;
/// assert_eq!(promoted(UInt8, Int8), Int16);
/// assert_eq!(promoted(Float16, BFloat16), Float32);
/// assert_eq!(promoted(Int64, Float16), Float16);
/// ```
pub fn promoted(one: DType, other: DType) -> DType {
    if one == other {
        return one;
    }
    let (narrow, wide) =
        if Category::of(one) <= Category::of(other) { (one, other) } else { (other, one) };
    match (Category::of(narrow), Category::of(wide)) {
        (from, to) if from < to && to != Category::Complex => wide,
        (Category::Int, Category::Int) => wider_int(one, other),
        (Category::Float, Category::Float) => wider_float(one, other),
        (from, _) => wider_complex(narrow, wide, from),
    }
}

fn bits(dtype: DType) -> usize {
    dtype.host_format().element_bytes().unwrap_or(1) * 8
}

fn wider_int(one: DType, other: DType) -> DType {
    use DType as D;
    let is_signed = |dtype| matches!(dtype, D::Int8 | D::Int16 | D::Int32 | D::Int64);
    let (signed, unsigned) = match (is_signed(one), is_signed(other)) {
        (true, false) => (one, other),
        (false, true) => (other, one),
        _ => return if bits(one) >= bits(other) { one } else { other },
    };
    if bits(signed) > bits(unsigned) {
        return signed;
    }
    match bits(unsigned) {
        8 => D::Int16,
        16 => D::Int32,
        _ => D::Int64,
    }
}

fn wider_float(one: DType, other: DType) -> DType {
    match bits(one).cmp(&bits(other)) {
        std::cmp::Ordering::Greater => one,
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Equal => DType::Float32,
    }
}

fn wider_complex(narrow: DType, wide: DType, from: Category) -> DType {
    let needed = match from {
        Category::Complex => bits(narrow),
        Category::Float if narrow == DType::BFloat16 => 64,
        Category::Float => 2 * bits(narrow),
        _ => 0,
    };
    match needed.max(bits(wide)) {
        0..=32 => DType::Complex32,
        33..=64 => DType::Complex64,
        _ => DType::Complex128,
    }
}

/// Returns true if results of one dtype may be stored as another. PyTorch forbids it where a fraction,
/// an imaginary part or a number would be lost.
pub(crate) fn can_cast(from: DType, to: DType) -> bool {
    let from = Category::of(from);
    let to = Category::of(to);
    match to {
        Category::Complex => true,
        Category::Float => from != Category::Complex,
        Category::Int => from <= Category::Int,
        Category::Bool => from == Category::Bool,
    }
}

/// Dtype that some arguments are computed in. Tensors with dimensions come first, then those without,
/// then numbers. Later ones count only if they are of a wider kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promotion {
    tensors: Option<DType>,
    single: Option<DType>,
    numbers: Option<DType>,
}

impl Promotion {
    /// Promotes these arguments of a call.
    pub(crate) fn of(call: &Call<'_>, arguments: impl Iterator<Item = usize>) -> Self {
        let mut promotion = Self::default();
        arguments.for_each(|at| promotion.see(call.argument(at), call.default));
        promotion
    }

    fn see(&mut self, argument: Argument<'_>, default: DType) {
        let (rank, dtype) = match argument {
            Argument::Tensor(tensor) if tensor.size.is_empty() => (&mut self.single, tensor.dtype),
            Argument::Tensor(tensor) => (&mut self.tensors, tensor.dtype),
            Argument::Number(Number { dtype: Some(dtype), .. }) => (&mut self.single, dtype),
            Argument::Number(number) => (&mut self.numbers, own_dtype(&number, default)),
            _ => return,
        };
        *rank = Some(rank.map_or(dtype, |known| promoted(known, dtype)));
    }

    pub(crate) fn dtype(self) -> Option<DType> {
        combined(combined(self.tensors, self.single), self.numbers)
    }
}

fn own_dtype(number: &Number, default: DType) -> DType {
    match number.value {
        Constant::Bool(_) => DType::Bool,
        Constant::Int(_) => DType::Int64,
        Constant::Float(_) if number.imaginary != 0.0 => promoted(default, DType::Complex32),
        Constant::Float(_) => default,
    }
}

fn combined(first: Option<DType>, second: Option<DType>) -> Option<DType> {
    match (first, second) {
        (Some(first), Some(second)) if Category::of(second) > Category::of(first) => {
            let is_wide_enough = Category::of(first) == Category::Float;
            Some(promoted(first, if is_wide_enough { DType::Complex32 } else { second }))
        }
        (Some(first), Some(_)) => Some(first),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorView;

    const ALL: [DType; 15] = {
        use DType::*;
        [
            Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64, Complex32,
            Complex64, Complex128, UInt16, UInt32,
        ]
    };

    #[test]
    fn promotion_has_no_order() {
        for (one, other) in ALL.into_iter().flat_map(|one| ALL.map(|other| (one, other))) {
            assert_eq!(promoted(one, other), promoted(other, one), "{one}, {other}");
        }
    }

    #[test]
    fn a_number_does_not_widen_a_tensor_of_its_kind() {
        let tensor = Argument::Tensor(TensorView {
            dtype: DType::Float16,
            size: &[2],
            stride: &[1],
            offset: 0,
        });
        let dtype = |arguments: &[Argument<'_>]| {
            let call = Call { arguments, written: &[], default: DType::Float32 };
            Promotion::of(&call, 0..arguments.len()).dtype()
        };
        assert_eq!(dtype(&[tensor, 2.5.into()]), Some(DType::Float16));
        let whole = Argument::Tensor(TensorView {
            dtype: DType::Int32,
            size: &[2],
            stride: &[1],
            offset: 0,
        });
        assert_eq!(dtype(&[whole, 2.5.into()]), Some(DType::Float32));
        assert_eq!(dtype(&[whole, 7.into()]), Some(DType::Int32));
        let single = Argument::Tensor(TensorView {
            dtype: DType::Float64,
            size: &[],
            stride: &[],
            offset: 0,
        });
        assert_eq!(dtype(&[tensor, single]), Some(DType::Float16));
        assert_eq!(dtype(&[whole, single]), Some(DType::Float64));
        let complex = Argument::Tensor(TensorView {
            dtype: DType::Complex128,
            size: &[],
            stride: &[],
            offset: 0,
        });
        assert_eq!(dtype(&[tensor, complex]), Some(DType::Complex32));
        assert_eq!(dtype(&[whole, complex]), Some(DType::Complex128));
    }
}
