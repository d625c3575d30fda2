//! Sizes of the tiles of a program's loops.

use spyre_artifact::Tile;

use super::product::Roles;
use crate::{DimId, DimSet};

/// Elements of a tile: one of 32 bits stays in a core's first cache, and what is done around a tile is
/// little beside what is done in it.
const TILE_ELEMENTS: u32 = 8192;

/// Rows of a tile, where there are columns, too.
const ROWS: u32 = 16;

/// Rows of a tile that are whole: they may be millions long.
const WHOLE_ROWS: u32 = 4;

/// Sides of a tile of a matrix product: of the only dim, or of the last and the one before. What is
/// loaded is used as often as the other side is long, and all of it fits into a core's second cache.
const PRODUCT_ROWS: [u32; 3] = [256, 64, 4];
const PRODUCT_COLUMNS: [u32; 3] = [256, 64, 4];

/// Rows where tiles of several products, and what is made of them, are there at a time.
const FEWER_ROWS: [u32; 3] = [128, 32, 4];

/// Elements that are summed over at a time: along the only dim, or along the first, and along others.
const PRODUCT_DEPTH: u32 = 256;
const FIRST_DEPTH: u32 = 64;
const OTHER_DEPTH: u32 = 8;

/// Sides of a tile of windows: of the last dim and the one before, and of the only dim of a window or
/// of several.
const WINDOW_PLACES: [u32; 2] = [64, 4];
const WINDOW_TERMS: [u32; 2] = [32, 8];

/// Work that loops are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Elementwise work and sums.
    Elements,
    /// Matrix products.
    Products(Roles),
    /// Whole rows along these dims, however long they are.
    Rows(DimSet),
    /// Reductions of what is gathered over these dims, which are few: windows of an image, terms of a
    /// bag.
    Windows(DimSet),
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
        Purpose::Products(roles) => product_tile(dim, opened, roles),
        Purpose::Rows(whole) if whole.contains(dim) => return Tile::All,
        Purpose::Rows(whole) => {
            let last = (opened | open | rest).minus(whole).iter().last();
            if last == Some(dim) { WHOLE_ROWS } else { 1 }
        }
        Purpose::Windows(over) => window_tile(dim, opened | open | rest, over),
    };
    elements.into()
}

fn product_tile(dim: DimId, opened: DimSet, roles: Roles) -> u32 {
    if roles.stepped.contains(dim) {
        1
    } else if roles.over.contains(dim) {
        depth(dim, roles.over.minus(roles.stepped))
    } else if roles.columns.contains(dim) {
        side(dim, roles.columns & opened, PRODUCT_COLUMNS)
    } else if roles.rows.contains(dim) && roles.are_many {
        side(dim, roles.rows & opened, FEWER_ROWS)
    } else if roles.rows.contains(dim) {
        side(dim, roles.rows & opened, PRODUCT_ROWS)
    } else {
        1
    }
}

fn window_tile(dim: DimId, all: DimSet, over: DimSet) -> u32 {
    let [only, each] = WINDOW_TERMS;
    let [last, before] = WINDOW_PLACES;
    match (over.contains(dim), after(dim, over), after(dim, all.minus(over))) {
        (true, 0, _) if over.iter().count() == 1 => only,
        (true, 0 | 1, _) => each,
        (false, _, 0) => last,
        (false, _, 1) => before,
        _ => 1,
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

/// Returns the number of dims of a set that come after one of them.
fn after(dim: DimId, all: DimSet) -> usize {
    all.iter().filter(|&known| known > dim).count()
}
