//! The host memory: sticks, or pieces of sticks, in the order of addresses.

use super::panel::{Panel, Row, Share, tuple};
use super::sticks::{Run, Sticks};
use spyre_layout::View;

/// Lines before and behind the gap.
const LINES: (usize, usize) = (3, 2);

pub(super) fn panel(sticks: &Sticks, cells: usize, element_bytes: usize) -> Panel {
    let memory = Memory { sticks, element_bytes };
    Panel {
        title: "Host memory",
        caption: caption(sticks, element_bytes),
        gutter: "byte",
        header: Vec::new(),
        rows: memory.long_rows(cells).unwrap_or_else(|| memory.lines(cells)),
        is_vertical: false,
    }
}

fn caption(sticks: &Sticks, element_bytes: usize) -> String {
    let Some(last) = sticks.host().last() else { return "no bytes".into() };
    let stride = sticks.stride();
    let is_row_major = View::contiguous(sticks.size()).is_ok_and(|rows| rows.stride() == stride);
    let order = if is_row_major { ", row-major" } else { "" };
    let pieces = match sticks.pieces() {
        0 | 1 => String::new(),
        pieces => format!("; a cell is one of {pieces} pieces of a stick"),
    };
    let bytes = (last + 1) * element_bytes;
    format!("stride {}{order}, {bytes} bytes{pieces}", tuple(stride))
}

/// The memory from which the tensor is read.
struct Memory<'a> {
    sticks: &'a Sticks,
    element_bytes: usize,
}

impl Memory<'_> {
    /// A line for each row of the tensor, if rows are longer than a line.
    fn long_rows(&self, cells: usize) -> Option<Vec<Row>> {
        let (count, extent) = self.sticks.host().rows()?;
        let is_long = self.forward(0, extent).nth(cells).is_some();
        if !is_long || count == 1 || !self.sticks.is_regular() {
            return None;
        }
        let row = |number: usize| {
            let start = self.sticks.host().row(number);
            let end = start + extent;
            let share = Share::of_line(cells);
            self.row(&share.ends(|| self.forward(start, end), || self.backward(start, end)))
        };
        let share = Share { whole: LINES.0 + LINES.1, head: LINES.0, tail: LINES.1 };
        let rows = share.elide(count).into_iter();
        Some(rows.map(|number| number.map_or(Row::Elided, row)).collect())
    }

    /// Lines that are filled, with whole rows of the tensor where they fit.
    fn lines(&self, cells: usize) -> Vec<Row> {
        let end = self.sticks.host().last().map_or(0, |last| last + 1);
        let per_line = self.per_line(cells, end);
        let head = LINES.0 * per_line;
        let tail = LINES.1 * per_line;
        let share = Share { whole: head + tail, head, tail };
        let runs = share.ends(|| self.forward(0, end), || self.backward(0, end));
        let mut rows = Vec::new();
        for (at, part) in runs.split(Option::is_none).enumerate() {
            rows.extend((at > 0).then_some(Row::Elided));
            rows.extend(part.chunks(per_line).map(|line| self.row(line)));
        }
        rows
    }

    /// Cells in a line: as many rows of the tensor as fit.
    fn per_line(&self, cells: usize, end: usize) -> usize {
        let next_row = self.sticks.host().rows().map_or(end, |_| self.sticks.host().row(1));
        let row = self.forward(0, end).take(cells + 1).position(|run| run.start >= next_row);
        let row = row.unwrap_or(cells).max(1);
        cells / row * row
    }

    fn row(&self, runs: &[Option<Run>]) -> Row {
        let start = runs.iter().flatten().next().map_or(0, |run| run.start);
        Row::line((start * self.element_bytes).to_string(), runs, |run| self.sticks.piece(run))
    }

    /// The runs from `start` to `end`.
    fn forward(&self, start: usize, end: usize) -> impl Iterator<Item = Run> {
        let next = move |run: &Run| self.run_from(run.start + run.elements, end);
        std::iter::successors(self.run_from(start, end), next)
    }

    /// The runs from `end` back to `start`.
    fn backward(&self, start: usize, end: usize) -> impl Iterator<Item = Run> {
        let previous = move |run: &Run| self.run_to(run.start, start);
        std::iter::successors(self.run_to(end, start), previous)
    }

    fn run_from(&self, start: usize, end: usize) -> Option<Run> {
        if start >= end {
            return None;
        }
        let host = self.sticks.host();
        let found = host.at_or_after(start).filter(|&found| found < end).unwrap_or(end);
        if found > start {
            return Some(Run { start, elements: found - start, stick: None });
        }
        let stick = self.sticks.at(start);
        let belongs = |place: &usize| self.holds(*place, stick);
        let elements = 1 + (start + 1..end).take_while(belongs).count();
        Some(Run { start, elements, stick })
    }

    fn run_to(&self, end: usize, start: usize) -> Option<Run> {
        let last = end.checked_sub(1).filter(|&last| last >= start)?;
        let found = self.sticks.host().at_or_before(last)?;
        if found < last {
            let hole = (found + 1).max(start);
            return Some(Run { start: hole, elements: end - hole, stick: None });
        }
        let stick = self.sticks.at(last);
        let belongs = |place: &usize| self.holds(*place, stick);
        let elements = 1 + (start..last).rev().take_while(belongs).count();
        Some(Run { start: end - elements, elements, stick })
    }

    /// Returns true if a place holds an element of `stick`.
    fn holds(&self, place: usize, stick: Option<usize>) -> bool {
        self.sticks.host().at_or_after(place) == Some(place) && self.sticks.at(place) == stick
    }
}
