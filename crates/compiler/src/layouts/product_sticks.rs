//! Sides of a matrix product: which one is left, and along which dims sticks must run.

use super::Stick;
use crate::matrix_product::MatrixProduct;
use crate::{DimSet, ValueId};

/// Layouts that both sides of a matrix product and its result must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductSticks {
    pub(super) sides: [(ValueId, Stick); 2],
    pub(super) result: Stick,
}

impl ProductSticks {
    /// The order of the sides that needs fewer restickifies; the one that is written, if both need as many.
    pub(super) fn new(product: MatrixProduct, stick: impl Fn(ValueId) -> Option<Stick>) -> Self {
        let restickifies = |wanted: &Self| {
            let is_restickified =
                |&&(side, to): &&(ValueId, Stick)| stick(side).is_some_and(|s| s != to);
            wanted.sides.iter().filter(is_restickified).count()
        };
        let [written, swapped] = [[0, 1], [1, 0]].map(|order| Self::of(product, order, &stick));
        if restickifies(&swapped) < restickifies(&written) { swapped } else { written }
    }

    fn of(
        product: MatrixProduct,
        [left, right]: [usize; 2],
        stick: impl Fn(ValueId) -> Option<Stick>,
    ) -> Self {
        let MatrixProduct { sides, spans, over } = product;
        let depth = along(over, stick(sides[left]));
        let own = along(spans[right].minus(spans[left]), stick(sides[right]));
        Self { sides: [(sides[left], depth), (sides[right], own)], result: own }
    }
}

/// The dim along which sticks run already if it is one of these; else the last of these.
fn along(dims: DimSet, stick: Option<Stick>) -> Stick {
    match stick {
        Some(Stick::Along(dim)) if dims.contains(dim) => Stick::Along(dim),
        _ => dims.iter().last().map_or(Stick::Sparse, Stick::Along),
    }
}
