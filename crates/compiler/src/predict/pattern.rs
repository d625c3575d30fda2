//! Pattern by which a kernel goes over memory.

use spyre_artifact::cost::{Batch, Pattern};

use super::Sizes;
use crate::matrix_product::MatrixProduct;
use crate::{DimId, DimSet, Expression, Kernel, ValueId};

/// Elements of a stick: of 16-bit numbers, which is what most are.
const STICK_ELEMENTS: u64 = 64;

pub(super) fn of(kernel: &Kernel, sizes: &Sizes<'_>) -> Pattern {
    if let Some(product) = products(kernel).next() {
        return Pattern::Product(batch(product, sizes));
    }
    let from = stick(kernel, false);
    let to = stick(kernel, true);
    let written = written(kernel);
    let reduced = reduced(kernel);
    if !reduced.is_empty() {
        return if reduced.meets(written) {
            Pattern::Fused
        } else {
            reduction(sizes, reduced, written, from)
        };
    }
    let is_copy = kernel.stores().iter().all(|store| is_copy(kernel, store.value));
    if !is_copy {
        Pattern::Pointwise
    } else if from != to && from.is_some_and(|from| written.contains(from)) {
        Pattern::Restickify
    } else {
        let columns = to.map_or(1, |dim| sizes.places(DimSet::NONE.with(dim)));
        Pattern::Copy { rows: sizes.places(written) / columns.max(1), columns }
    }
}

/// Every matrix product of a kernel.
pub(super) fn products(kernel: &Kernel) -> impl Iterator<Item = MatrixProduct> {
    kernel.values().iter().filter_map(|value| MatrixProduct::find(kernel, &value.expression))
}

fn batch(
    MatrixProduct { spans: [left, right], over, .. }: MatrixProduct,
    sizes: &Sizes<'_>,
) -> Batch {
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
    if stick.is_none_or(|dim| reduced.contains(dim)) {
        Pattern::RowReduction { rows: sizes.places(written), sticks }
    } else {
        Pattern::ColumnReduction { rows: sizes.places(reduced), sticks }
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
        Expression::Scan(_, dim, _) | Expression::Seek(_, dim, _) | Expression::Sort(_, dim, _) => {
            dims.with(dim)
        }
        _ => dims,
    })
}

/// The dim along which the sticks of the tensor with the most dims run that is written, or only read.
fn stick(kernel: &Kernel, is_written: bool) -> Option<DimId> {
    let operands = kernel.operands().iter();
    let of = operands.filter(|operand| operand.role.is_written() == is_written);
    of.max_by_key(|operand| operand.dims.len())?.dims.last().copied()
}

/// Returns true if a value is what a tensor holds, or the same everywhere.
fn is_copy(kernel: &Kernel, value: ValueId) -> bool {
    match kernel.value(value).expression {
        Expression::Load { .. } | Expression::Constant(_) | Expression::Scalar(_) => true,
        Expression::Convert(_, source) | Expression::Round(_, source) => is_copy(kernel, source),
        _ => false,
    }
}
