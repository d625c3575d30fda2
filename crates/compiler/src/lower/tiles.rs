//! How large the tiles of a program's loops are.

use spyre_artifact::Tile;

use crate::{DimId, DimSet};

/// Elements of a tile: a few of them stay in a core's first cache.
const TILE_ELEMENTS: u32 = 4096;

/// Rows of a tile, where there are columns, too.
const ROWS: u32 = 16;

/// Rows of a tile that are whole: they may be millions long.
const WHOLE_ROWS: u32 = 4;

/// The side of a square tile of a matrix product, and how much of what is summed over at a time.
const PRODUCT_SIDE: u32 = 64;
const PRODUCT_DEPTH: u32 = 256;

/// What loops are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Elementwise work and sums.
    Elements,
    /// The sides of a matrix product.
    ProductSides,
    /// What a matrix product is summed over.
    ProductDepth,
    /// Whole rows along these dims, however long they are.
    Rows(DimSet),
}

/// The tile of one of the dims that are opened together, when `open` are open already. The last dim
/// is the one whose neighbours lie beside each other.
pub(super) fn tile(
    purpose: Purpose,
    dim: DimId,
    opened: DimSet,
    open: DimSet,
    rest: DimSet,
) -> Tile {
    let elements = match purpose {
        Purpose::ProductSides => PRODUCT_SIDE,
        Purpose::ProductDepth => PRODUCT_DEPTH,
        Purpose::Rows(whole) if whole.contains(dim) => return Tile::All,
        Purpose::Rows(whole) => {
            let last = (opened | open | rest).minus(whole).iter().last();
            if last == Some(dim) { WHOLE_ROWS } else { 1 }
        }
        Purpose::Elements => {
            let all: Vec<DimId> = (opened | open | rest).iter().collect();
            let from_last = all.iter().rev().position(|&known| known == dim).unwrap_or(0);
            match (from_last, all.len()) {
                (0, 1) => TILE_ELEMENTS,
                (0, _) => TILE_ELEMENTS / ROWS,
                (1, _) => ROWS,
                _ => 1,
            }
        }
    };
    elements.into()
}
