use crate::{DimId, DimSet};

/// Order in which the tiles of some loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileOrder {
    /// One after the other.
    One,
    /// Any, but along these dims exactly as the dims are.
    Any { but: DimSet },
}

impl TileOrder {
    /// Returns true if the tiles along a dim may run at the same time.
    pub(super) fn is_parallel(self, dim: DimId) -> bool {
        matches!(self, Self::Any { but } if !but.contains(dim))
    }

    /// Returns true if a tile must be one step long, as the steps inside come before the next one.
    pub(super) fn is_single(self, dim: DimId) -> bool {
        let Self::Any { but } = self else { return false };
        but.contains(dim) && but.iter().last() != Some(dim)
    }
}
