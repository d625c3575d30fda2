//! How large the tiles of a program's loops are.

use spyre_artifact::Tile;

use super::product::Roles;
use crate::{DimId, DimSet};

/// Elements of a tile: a few of them stay in a core's first cache.
const TILE_ELEMENTS: u32 = 4096;

/// Rows of a tile, where there are columns, too.
const ROWS: u32 = 16;

/// Rows of a tile that are whole: they may be millions long.
const WHOLE_ROWS: u32 = 4;

/// Sides of a tile of a matrix product: of the only dim, or of the last and the one before. What is
/// loaded is used as often as the other side is long, and all of it fits into a core's second cache.
const PRODUCT_ROWS: [u32; 3] = [256, 64, 4];
const PRODUCT_COLUMNS: [u32; 3] = [256, 64, 4];

/// Rows where tiles of several products, and what is made of them, are there at a time.
const FEWER_ROWS: [u32; 3] = [64, 16, 4];

/// How much of what is summed over at a time: of the only dim, or of the first, and of others.
const PRODUCT_DEPTH: u32 = 256;
const FIRST_DEPTH: u32 = 64;
const OTHER_DEPTH: u32 = 8;

/// What loops are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Elementwise work and sums.
    Elements,
    /// Matrix products.
    Products(Roles),
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
        Purpose::Elements => elements(dim, opened | open | rest),
        Purpose::Products(roles) => product_tile(dim, roles),
        Purpose::Rows(whole) if whole.contains(dim) => return Tile::All,
        Purpose::Rows(whole) => {
            let last = (opened | open | rest).minus(whole).iter().last();
            if last == Some(dim) { WHOLE_ROWS } else { 1 }
        }
    };
    elements.into()
}

fn product_tile(dim: DimId, roles: Roles) -> u32 {
    match () {
        () if roles.over.contains(dim) => depth(dim, roles.over),
        () if roles.columns.contains(dim) => side(dim, roles.columns, PRODUCT_COLUMNS),
        () if roles.rows.contains(dim) && roles.are_many => side(dim, roles.rows, FEWER_ROWS),
        () if roles.rows.contains(dim) => side(dim, roles.rows, PRODUCT_ROWS),
        () => 1,
    }
}

fn elements(dim: DimId, all: DimSet) -> u32 {
    match (after(dim, all), all.iter().count()) {
        (0, 1) => TILE_ELEMENTS,
        (0, _) => TILE_ELEMENTS / ROWS,
        (1, _) => ROWS,
        _ => 1,
    }
}

fn side(dim: DimId, all: DimSet, [only, last, before]: [u32; 3]) -> u32 {
    match (after(dim, all), all.iter().count()) {
        (0, 1) => only,
        (0, _) => last,
        (1, _) => before,
        _ => 1,
    }
}

/// Channels come before the places of a window, which are few.
fn depth(dim: DimId, all: DimSet) -> u32 {
    let count = all.iter().count();
    match count - 1 - after(dim, all) {
        0 if count == 1 => PRODUCT_DEPTH,
        0 => FIRST_DEPTH,
        1 | 2 => OTHER_DEPTH,
        _ => 1,
    }
}

/// How many dims of a set come after one of them.
fn after(dim: DimId, all: DimSet) -> usize {
    all.iter().filter(|&known| known > dim).count()
}
