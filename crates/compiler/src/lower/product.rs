//! Sums of products of two values: matrix products.
//!
//! The sides are tensors as they are, which the card loads while it multiplies, or values that were
//! computed from anything: converted weights, probabilities, patches of an image.

use spyre_artifact::{BinaryOp, Lane, Operand, ProgramBuilder, ReduceOp, Register};

use super::access::is_walked;
use super::nest::{Blocked, Nest};
use crate::{DimId, DimSet, Expression, Kernel, ValueId};

/// A sum of products, each side of which differs along a dim that the other does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) left: ValueId,
    pub(super) right: ValueId,
    pub(super) over: DimSet,
}

/// Roles of dims in the products of some loops. Dims of both sides have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub(super) rows: DimSet,
    pub(super) columns: DimSet,
    /// Those that are summed over in these loops.
    pub(super) over: DimSet,
    /// Those of them that are taken step by step, since tensors are multiplied along one dim at a time.
    pub(super) stepped: DimSet,
    /// Several products have their tiles in LX at a time.
    pub(super) are_many: bool,
}

impl Product {
    /// The product that a value is, if it is one. Its columns lie beside each other in the result.
    pub(super) fn of(kernel: &Kernel, value: ValueId) -> Option<Self> {
        let known = kernel.value(value);
        let Expression::Reduce(ReduceOp::Sum, over, source) = known.expression else { return None };
        let source = &kernel.value(source).expression;
        let &Expression::Binary(BinaryOp::Mul, left, right) = source else { return None };
        let [first, second] = [left, right].map(|side| kernel.value(side).span);
        let own = [first.minus(second), second.minus(first)];
        let is_product = over.is_inside(first)
            && over.is_inside(second)
            && own.iter().all(|dims| !dims.is_empty())
            && known.lane != Lane::Bool;
        let is_swapped = own[0].iter().last() > own[1].iter().last();
        let (left, right) = if is_swapped { (right, left) } else { (left, right) };
        is_product.then_some(Self { left, right, over })
    }
}

impl Roles {
    /// Those of products that are computed inside of the loops.
    pub(super) fn within(kernel: &Kernel, products: impl Iterator<Item = Product>) -> Self {
        products.fold(Self::default(), |roles, Product { left, right, .. }| {
            let [left, right] = [left, right].map(|side| kernel.value(side).span);
            Self {
                rows: roles.rows | left.minus(right),
                columns: roles.columns | right.minus(left),
                over: DimSet::NONE,
                stepped: DimSet::NONE,
                are_many: !roles.is_none(),
            }
        })
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl Nest<'_> {
    /// Adds the product of the tiles that the loops are at.
    pub(super) fn add_product(
        &mut self,
        code: &mut ProgramBuilder,
        into: Register,
        product: Product,
        lane: Lane,
    ) -> Result<(), Blocked> {
        if let Some((sides, k)) = self.tensors(product, lane) {
            let [left, right] = sides;
            code.dot(into, left, right, self.dim(k));
            return Ok(());
        }
        let left = self.value(code, product.left)?;
        let right = self.value(code, product.right)?;
        code.multiply(into, left, right);
        Ok(())
    }

    /// The dims of a product of tensors that are summed over step by step: all but the last.
    pub(super) fn stepped(&self, product: Product, lane: Lane) -> DimSet {
        let along = self.tensors(product, lane).map(|(_, along)| DimSet::NONE.with(along));
        along.map_or(DimSet::NONE, |along| product.over.minus(along))
    }

    /// The tensors that both sides of a product are, and the dim that they are multiplied along: the last one.
    fn tensors(&self, product: Product, lane: Lane) -> Option<([Operand; 2], DimId)> {
        let Product { left, right, over } = product;
        Some(([self.tensor(left, lane)?, self.tensor(right, lane)?], over.iter().last()?))
    }

    /// The tensor that one side of a product of floats is, as it is, in a wider lane, or of whole
    /// numbers that the lane holds: the card converts them while it multiplies.
    fn tensor(&self, side: ValueId, lane: Lane) -> Option<Operand> {
        let kernel = self.kernel;
        let source = match kernel.value(side).expression {
            Expression::Convert(_, source) => source,
            _ => side,
        };
        let load = kernel.value(source);
        let Expression::Load { operand, ref axes, otherwise: None } = load.expression else {
            return None;
        };
        let (tensor, format) = self.operand(operand);
        let is_changed = self.stored.contains(&operand) || self.kept.contains_key(&source);
        let is_plain = load.lane != Lane::Bool
            && lane.multiplies(format)
            && is_walked(kernel, operand, axes)
            && !is_changed;
        is_plain.then_some(tensor)
    }
}
