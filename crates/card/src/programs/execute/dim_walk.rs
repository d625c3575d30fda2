use spyre_artifact::{Dim, Span};

use crate::programs::schedule::tiles::{Tiles, dims};

/// A tile as something that goes along one dim sees it: blocks of so many steps, each of which is a
/// row of elements that lie beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct DimWalk {
    pub(in crate::programs) blocks: usize,
    pub(in crate::programs) steps: usize,
    pub(in crate::programs) row: usize,
}

impl DimWalk {
    /// The elements of a register that spans `span`, along `dim`.
    pub(in crate::programs) fn of(tiles: &Tiles, span: Span, dim: Dim) -> Self {
        let elements = |is_wanted: &dyn Fn(Dim) -> bool| {
            let wanted = dims(span).filter(|&other| is_wanted(other));
            wanted.map(|other| tiles.elements[other.index()]).product()
        };
        Self {
            blocks: elements(&|other| other < dim),
            steps: tiles.elements[dim.index()],
            row: elements(&|other| other > dim),
        }
    }

    /// Elements of one block.
    pub(in crate::programs) fn block(&self) -> usize {
        self.steps * self.row
    }

    /// Elements of all rows that there is one of per block: what spans all but the dim.
    pub(in crate::programs) fn rows(&self) -> usize {
        self.blocks * self.row
    }
}
