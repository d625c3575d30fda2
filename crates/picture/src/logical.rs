//! The logical view: the tensor's rows, or its columns, cut into sticks.

use super::naming::Naming;
use super::panel::{Panel, Row, Share, joined, shortened, tuple};
use super::sticks::{Run, Sticks};

/// Most strips that are drawn below each other without elision.
const STRIPS: usize = 8;

/// Indices longer than this lose their first part.
const LONGEST_LABEL: usize = 16;

/// The elements along the stick dimension at one index of all others.
struct Strip<'a> {
    sticks: &'a Sticks,
    /// The place of its first element.
    place: usize,
    /// Its index, without the stick dimension.
    index: Vec<usize>,
}

pub(super) fn panel(sticks: &Sticks, cells: usize) -> Panel {
    let is_vertical = sticks.lane_dim() + 1 < sticks.size().len();
    let strips = strips(sticks, is_vertical.then_some(cells));
    let most = if is_vertical { 4 } else { cells };
    Panel {
        title: "Logical view",
        caption: caption(sticks),
        gutter: "",
        header: if sticks.size().is_empty() { Vec::new() } else { header(&strips, most) },
        // Between columns there is no room to set slices apart.
        rows: rows(&strips, if is_vertical { usize::MAX } else { inner_size(sticks) }, most),
        is_vertical,
    }
}

fn caption(sticks: &Sticks) -> String {
    let size = tuple(sticks.size());
    match sticks.naming() {
        _ if sticks.host().last().is_none() => format!("size {size}: empty"),
        Naming::Tiled => format!("size {size}, sticks along dimension {}", sticks.lane_dim()),
        Naming::Element => format!("size {size}, one element per stick"),
        Naming::Numbered => format!("size {size}, numbered by stick"),
    }
}

/// Start of each piece; empty unless all strips are cut alike.
fn header(strips: &[Option<(usize, Strip<'_>)>], most: usize) -> Vec<String> {
    let starts = |strip: &Strip<'_>| -> Vec<Option<usize>> {
        strip.pieces(most).iter().map(|run| run.map(|run| run.start)).collect()
    };
    let mut all = strips.iter().flatten().map(|(_, strip)| starts(strip));
    let Some(first) = all.next() else { return Vec::new() };
    if all.any(|other| other != first) {
        return Vec::new();
    }
    first.iter().map(|start| start.map_or(String::new(), |start| start.to_string())).collect()
}

fn rows(strips: &[Option<(usize, Strip<'_>)>], inner: usize, most: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut last = None;
    for strip in strips {
        let Some((number, strip)) = strip else {
            rows.push(Row::Elided);
            last = None;
            continue;
        };
        if last.is_some_and(|last| last != number / inner) {
            rows.push(Row::Space);
        }
        last = Some(number / inner);
        let label = shortened(&joined(&strip.index, ","), LONGEST_LABEL);
        rows.push(Row::line(label, &strip.pieces(most), |run| strip.sticks.piece(run)));
    }
    rows
}

/// Sizes of all dimensions but that of the stick.
fn outer_sizes(sticks: &Sticks) -> Vec<usize> {
    let dims = sticks.size().iter().enumerate();
    dims.filter(|(dim, _)| *dim != sticks.lane_dim()).map(|(_, &size)| size).collect()
}

/// Strips in a slice: the innermost size that is not one.
fn inner_size(sticks: &Sticks) -> usize {
    outer_sizes(sticks).into_iter().rev().find(|&size| size > 1).unwrap_or(1)
}

/// The strips that are drawn, with their numbers: at most `most` side by side, or some of each of
/// the two innermost dimensions.
fn strips(sticks: &Sticks, most: Option<usize>) -> Vec<Option<(usize, Strip<'_>)>> {
    if sticks.host().last().is_none() {
        return Vec::new();
    }
    let sizes = outer_sizes(sticks);
    let count: usize = sizes.iter().product();
    let numbers = match most {
        Some(most) => Share::of_line(most).elide(count),
        None if count <= STRIPS => Share::of(STRIPS).elide(count),
        None => nested(count, &sizes),
    };
    let strip = |number| (number, Strip::new(sticks, number, &sizes));
    numbers.into_iter().map(|number| number.map(strip)).collect()
}

fn nested(count: usize, sizes: &[usize]) -> Vec<Option<usize>> {
    let mut moving = sizes.iter().rev().copied().filter(|&size| size > 1);
    let rows = moving.next().unwrap_or(1);
    let slices = moving.next().unwrap_or(1);
    let books = count / (rows * slices);
    let most = match (books, slices) {
        (1, 1) => [1, 1, 6],
        (1, _) => [1, 3, 3],
        _ => [2, 2, 3],
    };
    let books = Share::of(most[0]).elide(books).into_iter();
    let slices = books.flat_map(|book| within(book, slices, Share::of(most[1])));
    // A gap would be as high as one row.
    let share = Share { whole: most[2] + 1, ..Share::of(most[2]) };
    slices.flat_map(|slice| within(slice, rows, share)).collect()
}

/// The numbers of what is drawn in one thing of `size`, counted through all of them.
fn within(outer: Option<usize>, size: usize, share: Share) -> Vec<Option<usize>> {
    let Some(outer) = outer else { return vec![None] };
    let number = |at: Option<usize>| at.map(|at| outer * size + at);
    share.elide(size).into_iter().map(number).collect()
}

impl<'a> Strip<'a> {
    fn new(sticks: &'a Sticks, number: usize, sizes: &[usize]) -> Self {
        let mut index = vec![0; sizes.len()];
        let mut rest = number;
        for (at, size) in index.iter_mut().zip(sizes).rev() {
            *at = rest % size;
            rest /= size;
        }
        let outer = sticks.stride().iter().enumerate().filter(|(dim, _)| *dim != sticks.lane_dim());
        let place = index.iter().zip(outer).map(|(at, (_, stride))| at * stride).sum();
        Self { sticks, place, index }
    }

    /// Its pieces, `None` where they are elided.
    fn pieces(&self, most: usize) -> Vec<Option<Run>> {
        let forward = || {
            let next = |run: &Run| self.run_from(run.start + run.elements);
            std::iter::successors(self.run_from(0), next)
        };
        let backward = || {
            let previous = |run: &Run| self.run_to(run.start.checked_sub(1)?);
            std::iter::successors(self.run_to(self.size() - 1), previous)
        };
        Share::of_line(most).ends(forward, backward)
    }

    fn run_from(&self, start: usize) -> Option<Run> {
        let stick = (start < self.size()).then(|| self.stick(start))?;
        let end = match self.step() {
            0 => self.size(),
            _ => (start..self.size()).find(|&at| self.stick(at) != stick).unwrap_or(self.size()),
        };
        Some(Run { start, elements: end - start, stick })
    }

    fn run_to(&self, last: usize) -> Option<Run> {
        let stick = self.stick(last);
        let start = match self.step() {
            0 => 0,
            _ => (0..=last).rev().find(|&at| self.stick(at) != stick).map_or(0, |at| at + 1),
        };
        Some(Run { start, elements: last + 1 - start, stick })
    }

    fn size(&self) -> usize {
        self.sticks.size().get(self.sticks.lane_dim()).copied().unwrap_or(1)
    }

    fn step(&self) -> usize {
        self.sticks.stride().get(self.sticks.lane_dim()).copied().unwrap_or(0)
    }

    fn stick(&self, at: usize) -> Option<usize> {
        self.sticks.at(self.place + at * self.step())
    }
}
