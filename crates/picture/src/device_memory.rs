//! The device memory: whole sticks in the order of addresses, a line for each tile.

use spyre_numerics::STICK_BYTES;

use super::panel::{Panel, Row, Share, Slot, tuple};
use super::sticks::Sticks;

/// Lines that are drawn at most.
const LINES: usize = 6;

pub(super) fn panel(sticks: &Sticks, cells: usize) -> Panel {
    let count = sticks.count();
    let tile = sticks.tile_sticks();
    let per_line = match tile {
        _ if tile >= count => cells,
        _ if tile <= cells => cells / tile * tile,
        _ => tile,
    };
    let lines = Share { whole: LINES + 2, ..Share::of(LINES) }.elide(count.div_ceil(per_line));
    let row = |line: usize| {
        let start = line * per_line;
        row(sticks, start, per_line.min(count - start), cells)
    };
    Panel {
        title: "Device memory",
        caption: caption(sticks),
        gutter: "byte",
        header: Vec::new(),
        rows: lines.into_iter().map(|line| line.map_or(Row::Elided, row)).collect(),
        is_vertical: false,
    }
}

fn caption(sticks: &Sticks) -> String {
    let size = sticks.layout().device_size();
    let count = sticks.count();
    let mut stride = vec![1; size.len()];
    for dim in (1..size.len()).rev() {
        stride[dim - 1] = stride[dim] * size[dim];
    }
    let tile = sticks.tile_sticks();
    let tiles = match count.checked_div(tile) {
        Some(tiles) if tiles > 1 => format!("{tiles} tiles of {tile} sticks"),
        _ => format!("{count} stick{}", if count == 1 { "" } else { "s" }),
    };
    let copies = if sticks.has_copies() { "; = marks copies" } else { "" };
    format!("size {}, stride {}: {tiles}{copies}", tuple(size), tuple(&stride))
}

/// Some sticks of a line, with a break between tiles.
fn row(sticks: &Sticks, start: usize, count: usize, cells: usize) -> Row {
    let tile = sticks.tile_sticks();
    let mut slots = Vec::new();
    for at in Share::of_line(cells).elide(count) {
        let stick = at.map(|at| start + at);
        if stick.is_some_and(|stick| stick > start && stick.is_multiple_of(tile)) {
            slots.push(Slot::Break);
        }
        slots.push(stick.map_or(Slot::Elided, |stick| Slot::Cell(sticks.cell(stick))));
    }
    Row::Line { label: (start * STICK_BYTES).to_string(), slots }
}
