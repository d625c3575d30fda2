use smallvec::SmallVec;
use spyre_artifact::{ExpectedSize, MAX_DIMS};

use crate::definition::Definition;
use crate::fit::Fit;
use crate::recipe::StepRecipe;

/// The tiles that a launch of one step goes over, and the one it is at.
///
/// Dims that results have come first, as the program names them; reductions run innermost, so that
/// one partial result is enough.
#[derive(Clone, Debug)]
pub(crate) struct Tiles {
    extents: [u64; MAX_DIMS],
    tile: [u64; MAX_DIMS],
    counts: [u64; MAX_DIMS],
    at: [u64; MAX_DIMS],
    /// Dims from the outermost to the innermost.
    order: SmallVec<[u8; MAX_DIMS]>,
}

impl Tiles {
    pub(crate) fn new(definition: &Definition, recipe: &StepRecipe, fit: &Fit) -> Self {
        let mut tiles = Self {
            extents: [0; MAX_DIMS],
            tile: [1; MAX_DIMS],
            counts: [1; MAX_DIMS],
            at: [0; MAX_DIMS],
            order: SmallVec::new(),
        };
        for (at, dim) in recipe.dims.iter().enumerate() {
            let extent = fit.extents[dim.plan_dim];
            let tile = match definition.dims()[dim.plan_dim].size {
                ExpectedSize::Fixed(tile) => tile.get(),
                ExpectedSize::Any => extent.max(1),
            };
            tiles.extents[at] = extent;
            tiles.tile[at] = tile;
            if extent > tile {
                tiles.counts[at] = extent.div_ceil(tile);
            }
        }
        for is_reduction in [false, true] {
            let dims = recipe.dims.iter().enumerate();
            let dims = dims.filter(|(_, dim)| dim.is_reduction == is_reduction);
            tiles.order.extend(dims.map(|(at, _)| at as u8));
        }
        tiles
    }

    /// Elements before the tile along a dim.
    pub(crate) fn start(&self, dim: usize) -> u64 {
        self.at[dim] * self.tile[dim]
    }

    /// Elements of the tile along a dim.
    pub(crate) fn extent(&self, dim: usize) -> u64 {
        self.tile[dim].min(self.extents[dim] - self.start(dim))
    }

    /// Where the tile is along a dim, and how many there are.
    pub(crate) fn place(&self, dim: usize) -> (u64, u64) {
        (self.at[dim], self.counts[dim])
    }

    /// The next tile; false when there is none.
    pub(crate) fn advance(&mut self) -> bool {
        for &dim in self.order.iter().rev() {
            let dim = usize::from(dim);
            self.at[dim] += 1;
            if self.at[dim] < self.counts[dim] {
                return true;
            }
            self.at[dim] = 0;
        }
        false
    }
}
