//! Dims that a launch may cut into tiles: each tile computes what it stores, and needs nothing of the
//! others.

use crate::{DimId, DimSet, Expression, Kernel, OperandId, ValueId};

/// All such dims. Every tensor that is stored to has them, and nothing is computed along them, from a
/// coordinate along them or from their extents: a launch of a tile counts from its first element.
pub(super) fn dims(kernel: &Kernel) -> DimSet {
    let stored = kernel.stores().iter().map(|store| of_operand(kernel, store.operand));
    let all = DimSet::from_iter((0..kernel.dims().len() as u8).map(DimId));
    let stored = stored.fold(all, |all, own| all.minus(all.minus(own)));
    let values = kernel.values().iter().map(|value| held(kernel, &value.expression));
    let stores = kernel.stores().iter().map(|store| accessed(kernel, store.operand, &store.axes));
    values.chain(stores).fold(stored, DimSet::minus)
}

/// The dims that something other than a reduction needs whole.
pub(super) fn held_beside_reductions(kernel: &Kernel) -> DimSet {
    let values = kernel.values().iter().map(|value| match &value.expression {
        Expression::Reduce(_, _, source) => places(kernel, [source]),
        expression => held(kernel, expression),
    });
    let stores = kernel.stores().iter().map(|store| accessed(kernel, store.operand, &store.axes));
    values.chain(stores).fold(DimSet::NONE, |all, held| all | held)
}

/// The dims that an expression needs whole.
fn held(kernel: &Kernel, expression: &Expression) -> DimSet {
    match expression {
        Expression::Size(dim) => DimSet::NONE.with(*dim),
        Expression::Reduce(_, over, source) => *over | places(kernel, [source]),
        Expression::Scan(_, dim, source)
        | Expression::Seek(_, dim, source)
        | Expression::Sort(_, dim, source) => places(kernel, [source]).with(*dim),
        Expression::Load { operand, axes, otherwise } => {
            accessed(kernel, *operand, axes) | places(kernel, otherwise)
        }
        _ => places(kernel, &expression.sources()),
    }
}

/// Dims whose coordinates are among these values.
fn places<'a>(kernel: &Kernel, values: impl IntoIterator<Item = &'a ValueId>) -> DimSet {
    let index = |value: &ValueId| match kernel.value(*value).expression {
        Expression::Index(dim) => Some(dim),
        _ => None,
    };
    values.into_iter().filter_map(index).collect()
}

/// A tensor at other coordinates than its own is needed whole, and so is what they are made from.
fn accessed(kernel: &Kernel, operand: OperandId, axes: &[ValueId]) -> DimSet {
    let own = &kernel.operand(operand).dims;
    let is_own =
        |(&axis, &dim): (&ValueId, &DimId)| kernel.value(axis).expression == Expression::Index(dim);
    if axes.iter().zip(own).all(is_own) && of_operand(kernel, operand).iter().count() == own.len() {
        DimSet::NONE
    } else {
        axes.iter().fold(of_operand(kernel, operand), |dims, &axis| dims | kernel.value(axis).span)
    }
}

fn of_operand(kernel: &Kernel, operand: OperandId) -> DimSet {
    kernel.operand(operand).dims.iter().copied().collect()
}
