use smallvec::SmallVec;
use spyre_numerics::DType;

use crate::generated::Generated;
use crate::pointwise::Pointwise;
use crate::template::Written;

/// How a call is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Tensors that are made for the caller, in the order of the op's results.
    pub results: SmallVec<[ResultShape; 1]>,
    /// What is launched, in order. Nothing, where there are no elements.
    pub launches: SmallVec<[Launch; 1]>,
}

/// A kernel, and what it is launched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What is computed: calls with equal ones share a plan.
    pub kernel: KernelSource,
    /// A view for each of the kernel's operands.
    pub operands: SmallVec<[OperandView; 4]>,
    /// A word for each of its scalars.
    pub scalars: SmallVec<[u64; 4]>,
}

/// A kernel before it is written down: cheap to make and to compare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelSource {
    /// The same expression for every element.
    Pointwise(Pointwise),
    /// A template.
    Written(Written),
    /// What a function writes.
    Generated(Generated),
}

impl KernelSource {
    /// Whether it copies its first operand to its second, and that is all.
    pub fn is_copy(&self) -> bool {
        matches!(self, Self::Generated(kernel) if kernel.name == "copy")
    }

    /// The text of the kernel.
    pub fn text(&self) -> String {
        match self {
            Self::Pointwise(kernel) => kernel.text(),
            Self::Written(kernel) => kernel.text(),
            Self::Generated(kernel) => kernel.text(),
        }
    }
}

/// A tensor of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An argument.
    Argument(usize),
    /// A tensor of an argument that is a list.
    Item(usize, usize),
    /// A tensor that is made.
    Result(usize),
}

/// A part of a tensor, as a kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandView {
    /// Of which tensor.
    pub place: Place,
    /// Elements along each dim of the operand.
    pub size: SmallVec<[usize; 6]>,
    /// Elements of the storage from one to the next.
    pub stride: SmallVec<[usize; 6]>,
    /// Elements of the storage between the tensor's first and the view's.
    pub offset: usize,
}

/// A tensor to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultShape {
    /// What its elements are.
    pub dtype: DType,
    /// Elements along each dimension.
    pub size: SmallVec<[usize; 6]>,
    /// Elements of the storage from one to the next.
    pub stride: SmallVec<[usize; 6]>,
}
