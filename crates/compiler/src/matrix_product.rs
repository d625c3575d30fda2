use spyre_artifact::{BinaryOp, ReduceOp};

use crate::{DimSet, Expression, Kernel, ValueId};

/// A matrix product: a sum of products, of which each side has a dim of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixProduct {
    pub(crate) sides: [ValueId; 2],
    /// The dims of each side.
    pub(crate) spans: [DimSet; 2],
    /// Dims that are summed over.
    pub(crate) over: DimSet,
}

impl MatrixProduct {
    pub(crate) fn find(kernel: &Kernel, expression: &Expression) -> Option<Self> {
        let &Expression::Reduce(ReduceOp::Sum, over, source) = expression else { return None };
        let source = kernel.value(source);
        let &Expression::Binary(BinaryOp::Mul, left, right) = &source.expression else {
            return None;
        };
        let [a, b] = [left, right].map(|side| kernel.value(side).span);
        let is_in_both = over.is_inside(a) && over.is_inside(b);
        let has_sides = !a.is_inside(b) && !b.is_inside(a);
        let is_product = is_in_both && has_sides && source.lane.is_float();
        is_product.then_some(Self { sides: [left, right], spans: [a, b], over })
    }
}
