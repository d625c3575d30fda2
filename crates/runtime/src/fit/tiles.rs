use spyre_artifact::{ExpectedSize, MAX_DIMS, TileFlag};

use crate::fit::Fit;
use crate::plan::definition::Definition;
use crate::plan::recipe::StepRecipe;

/// More than can be worked on in a few milliseconds, whatever is done with each.
const LONG_ELEMENTS: u64 = 1 << 20;

/// The tiles that a launch of one step goes over, and the one it is at.
#[derive(Clone, Debug)]
pub(crate) struct Tiles<'a> {
    recipe: &'a StepRecipe,
    extents: [u64; MAX_DIMS],
    tile: [u64; MAX_DIMS],
    counts: [u64; MAX_DIMS],
    at: [u64; MAX_DIMS],
    are_many: bool,
}

impl<'a> Tiles<'a> {
    #[inline]
    pub(crate) fn new(definition: &Definition, recipe: &'a StepRecipe, fit: &Fit) -> Self {
        let extents = [0; MAX_DIMS];
        let at = [0; MAX_DIMS];
        let tile = [1; MAX_DIMS];
        let counts = [1; MAX_DIMS];
        let mut tiles = Self { recipe, extents, tile, counts, at, are_many: false };
        for (at, dim) in recipe.dims.iter().enumerate() {
            let extent = fit.extents[dim.plan_dim];
            tiles.extents[at] = extent;
            tiles.tile[at] = extent.max(1);
            if let ExpectedSize::Fixed(tile) = definition.dims()[dim.plan_dim].size
                && extent > tile.get()
            {
                tiles.tile[at] = tile.get();
                tiles.counts[at] = extent.div_ceil(tile.get());
                tiles.are_many = true;
            }
        }
        tiles
    }

    /// Returns true if there is more than one tile.
    pub(crate) fn are_many(&self) -> bool {
        self.are_many
    }

    /// Returns true if a launch of a tile may take many milliseconds: its program goes over so many elements.
    pub(crate) fn lasts(&self) -> bool {
        let elements = (0..self.recipe.dims.len()).map(|dim| self.tile[dim]);
        elements.fold(1, u64::saturating_mul) > LONG_ELEMENTS
    }

    /// Elements before the tile along a dim.
    pub(crate) fn start(&self, dim: usize) -> u64 {
        self.at[dim] * self.tile[dim]
    }

    /// Elements of the tile along a dim.
    pub(crate) fn extent(&self, dim: usize) -> u64 {
        self.tile[dim].min(self.extents[dim] - self.start(dim))
    }

    /// Returns true if the tile is where a flag says.
    pub(crate) fn holds(&self, dim: usize, flag: TileFlag) -> bool {
        flag.holds(self.at[dim], self.counts[dim])
    }

    /// The next tile; false when there is none.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        self.are_many && self.advance_one()
    }

    fn advance_one(&mut self) -> bool {
        for &dim in self.recipe.order.iter().rev() {
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
