//! Recipes: what a call of an op does, and how its kernels are written.

pub(crate) mod generated;
pub(crate) mod nest;
pub(crate) mod outputs;
pub(crate) mod template;
pub(crate) mod views;

use std::sync::Arc;

use smallvec::SmallVec;
use spyre_numerics::DType;

use crate::generated::Generated;
use crate::pointwise::Pointwise;
use crate::template::Written;
use crate::{Call, Decline};

/// Function that makes the recipe of an op which no row of expressions describes.
pub(crate) type Function = fn(&Call<'_>) -> Result<Recipe, Decline>;

/// Tensors to make and kernels to launch for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Tensors that are made for the caller, in the order of the op's results.
    pub results: SmallVec<[ResultShape; 1]>,
    /// Launches, in order. There are none where there are no elements.
    pub launches: SmallVec<[Launch; 1]>,
}

/// A kernel, and what it is launched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Kernel that is launched: calls with equal ones share a plan.
    pub kernel: KernelSource,
    /// A view for each of the kernel's operands.
    pub operands: SmallVec<[OperandView; 4]>,
    /// A word for each of its scalars.
    pub scalars: SmallVec<[u64; 4]>,
}

impl Launch {
    /// Returns the launch with one dim of an operand as two, with `inner` elements in the inner one.
    /// `None` if `inner` does not divide the dim, or if the kernel says which dims it has.
    ///
    /// It computes the same; it says more of how tensors lie that have those dims apart.
    pub fn split(&self, operand: usize, dim: usize, inner: usize) -> Option<Self> {
        let size = *self.operands.get(operand)?.size.get(dim)?;
        if inner == 0 || !size.is_multiple_of(inner) {
            return None;
        }
        let (kernel, axis) = self.kernel.split(operand, dim)?;
        let mut operands = self.operands.clone();
        for (at, view) in operands.iter_mut().enumerate() {
            if let Some(dim) = self.kernel.dim_of(at, axis) {
                view.size[dim] = inner;
                view.size.insert(dim, size / inner);
                let outer = view.stride[dim] * inner;
                view.stride.insert(dim, outer);
            }
        }
        Some(Self { kernel, operands, scalars: self.scalars.clone() })
    }
}

/// A kernel before it is written down: cheap to make and to compare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelSource {
    /// One expression for every element.
    Pointwise(Pointwise),
    /// A template.
    Written(Written),
    /// Text that a function writes.
    Generated(Generated),
    /// Text that is given.
    Text(Arc<str>),
}

impl KernelSource {
    /// Returns true if it copies its first operand to its second, and that is all.
    pub fn is_copy(&self) -> bool {
        matches!(self, Self::Generated(kernel) if kernel.name == "copy")
    }

    /// The kernel with one more axis, beside that of an operand's dim; and which axis that is.
    fn split(&self, operand: usize, dim: usize) -> Option<(Self, usize)> {
        match self {
            Self::Pointwise(kernel) => Some((Self::Pointwise(kernel.with_one_more_dim()?), dim)),
            Self::Written(kernel) => {
                let axis = kernel.axis_of(operand, dim)?;
                Some((Self::Written(kernel.with_axis_again(axis)), axis))
            }
            Self::Generated(_) | Self::Text(_) => None,
        }
    }

    /// An operand's dim along an axis that [`split`](Self::split) gave.
    fn dim_of(&self, operand: usize, axis: usize) -> Option<usize> {
        match self {
            Self::Written(kernel) => kernel.dim_of(operand, axis),
            _ => Some(axis),
        }
    }

    /// The text of the kernel.
    pub fn text(&self) -> String {
        match self {
            Self::Pointwise(kernel) => kernel.text(),
            Self::Written(kernel) => kernel.text(),
            Self::Generated(kernel) => kernel.text(),
            Self::Text(text) => text.to_string(),
        }
    }
}

/// A tensor of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorRef {
    /// An argument.
    Argument(usize),
    /// A tensor of an argument that is a list.
    Item(usize, usize),
    /// A tensor that is made.
    Result(usize),
}

/// A part of a tensor, as a kernel sees it.
///
/// Kernels see complex numbers as their parts, which lie side by side: strides and offsets of such a
/// tensor's views count these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandView {
    /// The tensor that it is a part of.
    pub place: TensorRef,
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
    /// Dtype of its elements.
    pub dtype: DType,
    /// Elements along each dimension.
    pub size: SmallVec<[usize; 6]>,
    /// Elements of the storage from one to the next.
    pub stride: SmallVec<[usize; 6]>,
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::{Argument, Call, Op, TensorView};

    fn launch(op: &str, arguments: &[Argument<'_>]) -> Launch {
        let op = Op::named(op).expect("a known op");
        let recipe = op
            .recipe(&Call { arguments, default: DType::Float32, written: &[1] })
            .expect("a call that is carried out");
        recipe.launches[0].clone()
    }

    #[test]
    fn a_dim_of_a_launch_can_be_two() {
        let size = [6, 4];
        let stride = [4, 1];
        let tensor = TensorView { dtype: DType::Float32, size: &size, stride: &stride, offset: 0 };
        let add = launch("neg.out", &[Argument::Tensor(tensor), Argument::Tensor(tensor)]);
        assert_eq!(add.operands[0].size[..], [24]);
        let apart = add.split(0, 0, 4).expect("a pointwise kernel has any dims");
        for operand in &apart.operands {
            assert_eq!((&operand.size[..], &operand.stride[..]), (&[6, 4][..], &[4, 1][..]));
        }
        assert_ne!(apart.kernel, add.kernel);
        let back: SmallVec<[usize; 6]> = smallvec![24];
        assert_eq!((&add.operands[0].size, add.split(0, 0, 5)), (&back, None));
        assert_eq!(
            (add.split(0, 0, 0), add.split(0, 1, 2), add.split(7, 0, 2)),
            (None, None, None)
        );
    }
}
