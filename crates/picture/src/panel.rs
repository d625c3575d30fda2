//! Rows of cells that both renderers draw, elided in the middle.

use std::collections::BTreeSet;
use std::ops::Range;

/// Colours that a renderer must have.
pub(super) const COLOURS: usize = 8;

/// One of the three pictures.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) caption: String,
    /// Meaning of the row labels.
    pub(super) gutter: &'static str,
    /// Labels over the slots of the first row.
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Rows run downwards, side by side.
    pub(super) is_vertical: bool,
}

/// One line of cells, or what stands between lines.
#[derive(Clone, Debug)]
pub(super) enum Row {
    Line { label: String, slots: Vec<Slot> },
    Elided,
    Space,
}

/// One place in a line.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Cell(Cell),
    Elided,
    /// The next cell belongs to another tile.
    Break,
}

/// A stick, a piece of one, or memory that holds nothing of the tensor.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) label: String,
    /// The tile that it belongs to; none if nothing of the tensor is in it.
    pub(super) tile: Option<usize>,
    /// Number of the tile's colour: set by [`paint`].
    pub(super) colour: usize,
    /// Width of the cell.
    pub(super) elements: usize,
    /// Ranges of these elements that are padding.
    pub(super) padding: Vec<Range<usize>>,
    pub(super) is_copy: bool,
}

impl Panel {
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let lines = self.rows.iter().flat_map(Row::slots);
        lines.filter_map(|slot| if let Slot::Cell(cell) = slot { Some(cell) } else { None })
    }

    /// Elements of the widest cell, against which the others are scaled.
    pub(super) fn unit(&self) -> usize {
        let drawn = self.cells().filter(|cell| !cell.is_hole());
        drawn.map(|cell| cell.elements).max().unwrap_or(1)
    }
}

impl Row {
    pub(super) fn slots(&self) -> &[Slot] {
        match self {
            Self::Line { slots, .. } => slots,
            Self::Elided | Self::Space => &[],
        }
    }

    /// The row of something that `of` makes, elided where there is none.
    pub(super) fn line<T>(label: String, items: &[Option<T>], of: impl Fn(&T) -> Cell) -> Self {
        let slot = |item: &Option<T>| match item {
            Some(item) => Slot::Cell(of(item)),
            None => Slot::Elided,
        };
        Self::Line { label, slots: items.iter().map(slot).collect() }
    }
}

impl Cell {
    /// Host memory between the tensor's elements.
    pub(super) fn hole(elements: usize) -> Self {
        let label = String::new();
        let padding = Vec::new();
        Self { label, tile: None, colour: 0, elements, padding, is_copy: false }
    }

    pub(super) fn is_hole(&self) -> bool {
        self.tile.is_none() && self.padding.is_empty()
    }
}

/// Limit of what is drawn: everything up to `whole`, else a head and a tail with a gap between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) whole: usize,
    pub(super) head: usize,
    pub(super) tail: usize,
}

impl Share {
    /// Limits to `most` things; the gap comes on top.
    pub(super) fn of(most: usize) -> Self {
        let tail = (most / 3).max(1);
        Self { whole: most, head: most.saturating_sub(tail).max(1), tail }
    }

    /// Limits to `cells` in a line; the gap takes the room of one of them.
    pub(super) fn of_line(cells: usize) -> Self {
        Self { whole: cells, ..Self::of(cells.saturating_sub(1)) }
    }

    /// The numbers below `count` that are drawn.
    pub(super) fn elide(self, count: usize) -> Vec<Option<usize>> {
        self.ends(|| 0..count, || (0..count).rev())
    }

    /// Like [`elide`](Self::elide), for things that are found by walking from either end.
    pub(super) fn ends<T, F, B>(
        self,
        forward: impl Fn() -> F,
        backward: impl Fn() -> B,
    ) -> Vec<Option<T>>
    where
        F: Iterator<Item = T>,
        B: Iterator<Item = T>,
    {
        let all: Vec<T> = forward().take(self.whole + 1).collect();
        if all.len() <= self.whole {
            return all.into_iter().map(Some).collect();
        }
        let mut last: Vec<Option<T>> = backward().take(self.tail).map(Some).collect();
        last.reverse();
        all.into_iter().take(self.head).map(Some).chain([None]).chain(last).collect()
    }
}

/// Gives every tile that is drawn a colour, in the order of the device.
pub(super) fn paint(panels: &mut [Panel]) {
    let tiles: BTreeSet<usize> =
        panels.iter().flat_map(Panel::cells).filter_map(|cell| cell.tile).collect();
    let tiles: Vec<usize> = tiles.into_iter().collect();
    let rows = panels.iter_mut().flat_map(|panel| &mut panel.rows);
    let slots = rows.filter_map(|row| match row {
        Row::Line { slots, .. } => Some(slots),
        Row::Elided | Row::Space => None,
    });
    for slot in slots.flatten() {
        if let Slot::Cell(Cell { tile: Some(tile), colour, .. }) = slot {
            *colour = tiles.partition_point(|drawn| drawn < tile) % COLOURS;
        }
    }
}

/// Numbers as a tuple.
pub(super) fn tuple(numbers: &[usize]) -> String {
    format!("({})", joined(numbers, ", "))
}

pub(super) fn joined(numbers: &[usize], separator: &str) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    texts.join(separator)
}

/// Text cut at spaces into lines of at most `width` characters; lists stay whole if they fit.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts(text, width) {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&part) <= width => {
                line.push(' ');
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

/// The words of a text; a list, and the name in front of its `=`, is one word up to `width`.
fn parts(text: &str, width: usize) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_in_list = false;
    for word in text.split(' ') {
        match parts.last_mut() {
            Some(part)
                if (is_in_list || word.starts_with('='))
                    && length(part) + 1 + length(word) <= width =>
            {
                part.push(' ');
                part.push_str(word);
            }
            _ => parts.push(word.to_string()),
        }
        let opens = word.starts_with('(') || word.contains('[');
        is_in_list = (opens || is_in_list) && !word.contains([')', ']']);
    }
    parts
}

/// The end of a text that may be too long: the last indices tell neighbours apart.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let surplus = length(text).saturating_sub(width);
    let rest = text.chars().skip(if surplus > 0 { surplus + 1 } else { 0 });
    (surplus > 0).then_some('…').into_iter().chain(rest).collect()
}

pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stands_between_the_first_and_the_last() {
        assert_eq!(Share::of(3).elide(3), [Some(0), Some(1), Some(2)]);
        assert_eq!(Share::of(3).elide(9), [Some(0), Some(1), None, Some(8)]);
        assert_eq!(Share::of(2).elide(9), [Some(0), None, Some(8)]);
        assert_eq!(Share::of(2).elide(0), []);
        assert_eq!(Share::of_line(4).elide(4).len(), 4);
        assert_eq!(Share::of_line(4).elide(5), [Some(0), Some(1), None, Some(4)]);
    }

    #[test]
    fn text_is_cut_at_spaces() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("size (1, 2), map =[3, 4]", 12), ["size (1, 2),", "map =[3, 4]"]);
        assert_eq!(shortened("0,1,2", 3), "…,2");
        assert_eq!(shortened("0,1", 3), "0,1");
        assert_eq!(wrap("longer than", 3), ["longer", "than"]);
        assert_eq!(
            wrap("size (1, 2), map =[3, 4]", 5),
            ["size", "(1,", "2),", "map", "=[3,", "4]"]
        );
    }
}
