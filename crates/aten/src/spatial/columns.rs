//! Columns of a matrix that hold what windows see (im2col): a convolution is then a product.
//!
//! A column for every place that is computed, a row for every channel and every place of a window.
//! The places of a window along its first dim need no rows of their own: their columns are the same
//! ones, some lines further on. So the matrix is written once for all of them, and there is a product
//! for each.

use smallvec::{SmallVec, smallvec};

use super::steps::{Block, Steps, rows_of};
use super::windows::{Window, Windows};
use crate::Decline;
use crate::views::Numbers;

/// Direction of columns: for the places that windows go to, or for those that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A column for each window.
    Gather,
    /// A column for each place that windows look at.
    Spread,
}

/// Arrangement of an image as the columns of a matrix.
#[derive(Debug)]
pub(super) struct Columns {
    way: Way,
    windows: Windows,
    /// Places of the source, and how many are computed, along each dim.
    source: Numbers,
    pub(super) target: Numbers,
    channels: usize,
    /// True if places of a window along its first dim have rows of their own.
    is_whole: bool,
}

/// Some lines of a source, and where they go among those of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    count: usize,
    source: usize,
    source_step: usize,
    target: usize,
    target_step: usize,
}

/// Start of the columns of one product: its turn, and its shift by lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tap {
    /// Index of a place of the window, along its first dim.
    pub(super) tap: usize,
    turn: usize,
    shift: usize,
}

impl Columns {
    pub(super) fn new(
        way: Way,
        windows: &Windows,
        [source, target]: [&[usize]; 2],
        channels: usize,
        is_whole: bool,
    ) -> Self {
        let windows = windows.clone();
        Self { way, windows, source: source.into(), target: target.into(), channels, is_whole }
    }

    /// Rows for each channel.
    pub(super) fn taps(&self) -> usize {
        let first = if self.is_whole { 0 } else { 1 };
        self.windows[first..].iter().map(|window| window.size).product()
    }

    /// The products that there are to compute.
    pub(super) fn products(&self) -> SmallVec<[Tap; 8]> {
        let first = self.windows[0];
        if self.is_whole {
            return smallvec![Tap { tap: 0, turn: 0, shift: 0 }];
        }
        let turns = self.turns();
        let product = |tap: usize| {
            let at = tap * first.dilation;
            match self.way {
                Way::Gather => {
                    let turn = turns.iter().position(|&turn| turn == at % first.step);
                    Tap { tap, turn: turn.unwrap_or(0), shift: at / first.step }
                }
                Way::Spread => Tap { tap, turn: 0, shift: (first.size - 1) * first.dilation - at },
            }
        };
        (0..first.size).map(product).collect()
    }

    /// Returns the offsets within a step at which places of windows lie, sorted. Lines that are a step
    /// apart follow each other.
    fn turns(&self) -> SmallVec<[usize; 4]> {
        let first = self.windows[0];
        if self.is_whole || self.way == Way::Spread {
            return smallvec![0];
        }
        let mut turns: SmallVec<[usize; 4]> =
            (0..first.size).map(|tap| tap * first.dilation % first.step).collect();
        turns.sort_unstable();
        turns.dedup();
        turns
    }

    /// Lines along the first dim.
    fn lines(&self) -> usize {
        let first = self.windows[0];
        match (self.is_whole, self.way) {
            (true, _) => self.target[0],
            (false, Way::Gather) => self.target[0] + (first.reach() - 1) / first.step,
            (false, Way::Spread) => self.target[0] + first.reach() - 1,
        }
    }

    /// Places in each line.
    pub(super) fn in_line(&self) -> usize {
        self.target[1..].iter().product()
    }

    /// Columns for each image.
    pub(super) fn per_image(&self) -> usize {
        self.lines() * self.in_line()
    }

    /// The matrix for so many images: rows are channels and taps, columns turns, images and places.
    pub(super) fn size(&self, images: usize) -> [usize; 2] {
        let columns = self.turns().len() * images * self.per_image();
        [self.channels * self.taps(), columns]
    }

    /// Returns the first column of a product, in each row of a matrix for so many images.
    pub(super) fn start(&self, tap: Tap, images: usize) -> usize {
        tap.turn * images * self.per_image() + tap.shift * self.in_line()
    }

    /// Makes columns of nothing where there is a place that no copy writes to.
    pub(super) fn clear(&self, steps: &mut Steps, matrix: &Block) -> Result<(), Decline> {
        let taps = self.all_taps();
        let turns = self.turns();
        let mut all = turns.iter().flat_map(|&turn| taps.iter().map(move |taps| (turn, taps)));
        let is_covered = |(turn, taps): (usize, &SmallVec<[usize; 3]>)| {
            let lines = self.copied(turn, taps);
            lines.iter().zip(self.sizes()).all(|(lines, size)| lines.count == size)
        };
        if all.all(is_covered) { Ok(()) } else { steps.clear(matrix) }
    }

    /// Writes the columns of `images` images, of which `source` is the first, into `matrix`, which
    /// has room for `room`.
    pub(super) fn write(
        &self,
        steps: &mut Steps,
        source: &Block,
        matrix: &Block,
        [images, room]: [usize; 2],
    ) -> Result<(), Decline> {
        for (nth, &turn) in self.turns().iter().enumerate() {
            for (row, taps) in self.all_taps().iter().enumerate() {
                let lines = self.copied(turn, taps);
                let [from, to] = self.views(source, matrix, &lines, [images, room], [row, nth]);
                steps.copy(&from, &to)?;
            }
        }
        Ok(())
    }

    /// The sizes of the columns of one image along each dim.
    fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.lines()).chain(self.target[1..].iter().copied())
    }

    /// Every place of a window that has rows, along all dims; the first is 0 where it has none.
    fn all_taps(&self) -> Vec<SmallVec<[usize; 3]>> {
        let mut all: Vec<SmallVec<[usize; 3]>> = vec![smallvec![]];
        for (dim, window) in self.windows.iter().enumerate() {
            let size = if dim == 0 && !self.is_whole { 1 } else { window.size };
            let longer = all.iter().flat_map(|taps| {
                (0..size).map(move |tap| taps.iter().copied().chain([tap]).collect())
            });
            all = longer.collect();
        }
        all
    }

    /// Returns the lines that are copied for one place of a window, along each dim.
    fn copied(&self, turn: usize, taps: &[usize]) -> SmallVec<[Lines; 3]> {
        let lines = |dim: usize| {
            let window = self.windows[dim];
            let tap = (taps[dim] * window.dilation) as i64 - window.padding as i64;
            let step = window.step;
            let sizes = [self.source[dim], self.target[dim]];
            match (self.way, dim == 0 && !self.is_whole) {
                (Way::Gather, false) => Lines::gathered(step, tap, sizes),
                (Way::Spread, false) => Lines::spread(step, tap, sizes),
                (Way::Gather, true) => {
                    Lines::gathered(step, tap + turn as i64, [self.source[0], self.lines()])
                }
                (Way::Spread, true) => {
                    let offset = tap + window.reach() as i64 - 1;
                    Lines::spread(step, offset, [self.source[0], self.lines()])
                }
            }
        };
        (0..self.windows.len()).map(lines).collect()
    }

    /// The parts of a source and of a matrix that belong to each other.
    fn views(
        &self,
        source: &Block,
        matrix: &Block,
        lines: &[Lines],
        [images, room]: [usize; 2],
        [row, turn]: [usize; 2],
    ) -> [Block; 2] {
        let stride = &source.view.stride;
        let mut from: SmallVec<[(usize, usize); 6]> =
            smallvec![(self.channels, stride[1]), (images, stride[0])];
        let columns = matrix.view.stride[0];
        let mut to: SmallVec<[(usize, usize); 6]> =
            smallvec![(self.channels, self.taps() * columns), (images, self.per_image())];
        let sizes: SmallVec<[usize; 3]> = self.sizes().collect();
        let [mut first, mut place] = [0, row * columns + turn * room * self.per_image()];
        for (dim, (lines, (_, width))) in lines.iter().zip(rows_of(&sizes)).enumerate() {
            from.push((lines.count, lines.source_step * stride[2 + dim]));
            to.push((lines.count, lines.target_step * width));
            first += lines.source * stride[2 + dim];
            place += lines.target * width;
        }
        [source.seen_as(from).from(first), matrix.seen_as(to).from(place)]
    }
}

impl Lines {
    /// Target `i` is source `i * step + offset`.
    fn gathered(step: usize, offset: i64, [source, target]: [usize; 2]) -> Self {
        let (first, count) = inside(step, offset, target, source);
        let at = (first * step) as i64 + offset;
        let source = if count == 0 { 0 } else { at as usize };
        Self { count, source, source_step: step, target: first, target_step: 1 }
    }

    /// Source `i` is target `i * step + offset`.
    fn spread(step: usize, offset: i64, [source, target]: [usize; 2]) -> Self {
        let (first, count) = inside(step, offset, source, target);
        let at = (first * step) as i64 + offset;
        let target = if count == 0 { 0 } else { at as usize };
        Self { count, source: first, source_step: 1, target, target_step: step }
    }
}

/// The first of `count` numbers `i`, and how many there are, with `i * step + offset` inside of `size`.
pub(super) fn inside(step: usize, offset: i64, count: usize, size: usize) -> (usize, usize) {
    let first = usize::try_from(-offset).unwrap_or(0).div_ceil(step);
    let end = usize::try_from(size as i64 - offset).unwrap_or(0).div_ceil(step).min(count);
    (first.min(count), end.saturating_sub(first))
}

/// Returns what one place of a window sees along one dim: the first place of the image, the first
/// window, and the number of windows.
pub(super) fn met(
    window: &Window,
    tap: usize,
    places: usize,
    count: usize,
) -> (usize, usize, usize) {
    let offset = (tap * window.dilation) as i64 - window.padding as i64;
    let (first, count) = inside(window.step, offset, count, places);
    let at = if count == 0 { 0 } else { (first * window.step) as i64 + offset };
    (at as usize, first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_counted() {
        assert_eq!(inside(1, -1, 4, 4), (1, 3));
        assert_eq!(inside(2, -1, 3, 4), (1, 2));
        assert_eq!(inside(1, 1, 4, 4), (0, 3));
        assert_eq!(inside(1, -9, 4, 4), (4, 0));
        assert_eq!(inside(1, 9, 4, 4), (0, 0));
    }

    #[test]
    fn turns_are_those_of_the_steps_that_windows_take() {
        let windows: Windows = smallvec![Window { size: 3, step: 2, padding: 1, dilation: 1 }];
        let columns = Columns::new(Way::Gather, &windows, [&[8], &[4]], 5, false);
        assert_eq!(columns.turns()[..], [0, 1]);
        assert_eq!(columns.size(1), [5, 2 * 5]);
        let taps = columns.products();
        assert_eq!(taps[2], Tap { tap: 2, turn: 0, shift: 1 });
        assert_eq!(columns.start(taps[1], 3), 15);
    }
}
