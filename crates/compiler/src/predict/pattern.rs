//! How a kernel goes over memory.

use spyre_artifact::cost::{Batch, Pattern};
use spyre_artifact::{BinaryOp, ReduceOp};

use super::Sizes;
use crate::{DimId, DimSet, Expression, Kernel, ValueId};

/// Elements of a stick: of 16-bit numbers, which is what most are.
const STICK_ELEMENTS: u64 = 64;

pub(super) fn of(kernel: &Kernel, sizes: &Sizes<'_>) -> Pattern {
    if products(kernel).next().is_some() {
        return Pattern::Product(batch(kernel, sizes));
    }
    let (from, to) = (stick(kernel, false), stick(kernel, true));
    let written = written(kernel);
    let reduced = reduced(kernel);
    if !reduced.is_empty() {
        return match reduced.meets(written) {
            true => Pattern::Fused,
            false => reduction(sizes, reduced, written, from),
        };
    }
    let is_copy = kernel.stores().iter().all(|store| is_copy(kernel, store.value));
    match is_copy {
        false => Pattern::Pointwise,
        true if from != to && from.is_some_and(|from| written.contains(from)) => {
            Pattern::Restickify
        }
        true => {
            let columns = to.map_or(1, |dim| sizes.places(DimSet::NONE.with(dim)));
            Pattern::Copy { rows: sizes.places(written) / columns.max(1), columns }
        }
    }
}

/// The dims of both sides of every matrix product: a sum of products, of which each side has a dim of
/// its own.
pub(super) fn products(kernel: &Kernel) -> impl Iterator<Item = [DimSet; 2]> {
    kernel.values().iter().filter_map(|value| product(kernel, &value.expression))
}

fn product(kernel: &Kernel, expression: &Expression) -> Option<[DimSet; 2]> {
    let &Expression::Reduce(ReduceOp::Sum, over, source) = expression else { return None };
    let source = kernel.value(source);
    let &Expression::Binary(BinaryOp::Mul, left, right) = &source.expression else { return None };
    let [left, right] = [left, right].map(|side| kernel.value(side).span);
    let is_in_both = over.is_inside(left) && over.is_inside(right);
    let has_sides = !left.is_inside(right) && !right.is_inside(left);
    (is_in_both && has_sides && source.lane.is_float()).then_some([left, right])
}

fn batch(kernel: &Kernel, sizes: &Sizes<'_>) -> Batch {
    let over = kernel.values().iter().find_map(|value| match value.expression {
        Expression::Reduce(_, over, _) if product(kernel, &value.expression).is_some() => {
            Some(over)
        }
        _ => None,
    });
    let over = over.unwrap_or(DimSet::NONE);
    let Some([left, right]) = products(kernel).next() else { return Batch::One };
    let shared = left.minus(left.minus(right)).minus(over);
    let mut own = left.minus(right).iter();
    match (sizes.places(shared), own.next(), own.next()) {
        (2.., ..) => Batch::Both,
        (_, Some(first), Some(_)) => Batch::Left(sizes.places(DimSet::NONE.with(first))),
        _ => Batch::One,
    }
}

fn reduction(sizes: &Sizes<'_>, reduced: DimSet, written: DimSet, stick: Option<DimId>) -> Pattern {
    let elements = stick.map_or(1, |dim| sizes.places(DimSet::NONE.with(dim)));
    let sticks = elements.div_ceil(STICK_ELEMENTS);
    match stick.is_none_or(|dim| reduced.contains(dim)) {
        true => Pattern::RowReduction { rows: sizes.places(written), sticks },
        false => Pattern::ColumnReduction { rows: sizes.places(reduced), sticks },
    }
}

/// The dims of what is stored to.
fn written(kernel: &Kernel) -> DimSet {
    let stores = kernel.stores().iter().map(|store| kernel.operand(store.operand));
    stores.flat_map(|operand| operand.dims.iter().copied()).collect()
}

/// The dims that anything goes over.
fn reduced(kernel: &Kernel) -> DimSet {
    kernel.values().iter().fold(DimSet::NONE, |dims, value| match value.expression {
        Expression::Reduce(_, over, _) => dims | over,
        Expression::Scan(_, dim, _) | Expression::Seek(_, dim, _) => dims.with(dim),
        _ => dims,
    })
}

/// The dim along which the sticks of the tensor with the most dims run that is written, or only read.
fn stick(kernel: &Kernel, is_written: bool) -> Option<DimId> {
    let operands = kernel.operands().iter();
    let of = operands.filter(|operand| operand.role.is_written() == is_written);
    of.max_by_key(|operand| operand.dims.len())?.dims.last().copied()
}

/// Whether a value is what a tensor holds, or the same everywhere.
fn is_copy(kernel: &Kernel, value: ValueId) -> bool {
    match kernel.value(value).expression {
        Expression::Load { .. } | Expression::Constant(_) | Expression::Scalar(_) => true,
        Expression::Convert(_, source) | Expression::Round(_, source) => is_copy(kernel, source),
        _ => false,
    }
}
