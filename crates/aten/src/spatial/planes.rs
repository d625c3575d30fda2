//! Images as planes that products read where they lie.
//!
//! The places of an image are copied once into memory of one dim, row by row, with zeros around them. There, the
//! places that one tap of all windows sees lie as the results do, some further on. So a convolution is a product
//! over taps and channels, whose right side is that memory, seen from every tap. Windows that move by more than one
//! place have a plane for each residue of places, and those that go back compute each residue of results by itself.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::steps::{Block, Steps};
use super::windows::{Window, Windows, inside};
use crate::Decline;

/// Rows that a product should have along what is summed over: with fewer channels, taps get rows of their own.
const LEAST_ROWS: usize = 16;
/// Elements behind the last plane that a product may read.
const ROOM: usize = 32;
/// Elements of a cache line, and of a distance at which lines compete for one place of a cache.
const LINE: usize = 16;
const CACHE_STRIDE: usize = 1024;

/// Direction of a convolution: to the places that windows go to, or to those that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A result for each window.
    Gather,
    /// A result for each place that windows look at.
    Spread,
}

/// Numbers at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progression {
    pub(super) first: usize,
    pub(super) step: usize,
    pub(super) count: usize,
}

/// Taps of one dim that see the same plane, and the results that they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    plane: usize,
    /// Indices of taps in the kernel's matrix.
    pub(super) taps: Progression,
    /// Places from a result to what the first tap sees, and from a tap to the next.
    shift: [usize; 2],
    pub(super) results: Progression,
}

/// Parts of a product along every dim.
pub(super) type Parts = SmallVec<[Part; 3]>;

/// Places of a source, and where they go in a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    count: usize,
    source: usize,
    source_step: usize,
    target: usize,
    target_step: usize,
}

/// Planes along one dim.
#[derive(Clone, Debug)]
struct Axis {
    parts: Vec<Part>,
    planes: SmallVec<[Lines; 3]>,
    /// Places that each tap sees, if taps have rows of their own.
    folded: SmallVec<[Lines; 3]>,
    extent: usize,
}

/// Arrangement of images as planes.
#[derive(Clone, Debug)]
pub(super) struct Planes {
    way: Way,
    axes: SmallVec<[Axis; 3]>,
    windows: Windows,
    channels: usize,
    /// Elements from one place to the next along each dim.
    pitches: SmallVec<[usize; 3]>,
    /// Elements of a plane, and from one row to the next.
    area: usize,
    row: usize,
}

impl Planes {
    /// Those of a source with so many channels in all, of which `summed` are summed over.
    pub(super) fn new(
        way: Way,
        windows: &Windows,
        [source, target]: [&[usize]; 2],
        [channels, summed]: [usize; 2],
    ) -> Self {
        let mut rows = summed;
        let mut axes: SmallVec<[Axis; 3]> = smallvec![];
        for (dim, window) in windows.iter().enumerate().rev() {
            let is_folded = rows < LEAST_ROWS && window.size > 1;
            if is_folded {
                rows *= window.size;
            }
            axes.push(Axis::new(way, window, [source[dim], target[dim]], is_folded));
        }
        axes.reverse();
        let shared = if axes.len() > 1 { axes.last().map_or(0, Axis::shared) } else { 0 };
        let mut pitches: SmallVec<[usize; 3]> = smallvec![1; axes.len()];
        let mut area = 1;
        for (dim, axis) in axes.iter().enumerate().rev() {
            pitches[dim] = area;
            area *= axis.extent - if dim + 1 == axes.len() { shared } else { 0 };
        }
        let area = (area + shared).next_multiple_of(LINE);
        let row = area * axes.iter().map(|axis| axis.planes.len()).product::<usize>();
        let row = if row.is_multiple_of(CACHE_STRIDE) { row + LINE } else { row };
        Self { way, axes, windows: windows.clone(), channels, pitches, area, row }
    }

    /// Taps that have rows of their own, along each dim: one where all share rows.
    pub(super) fn folded(&self) -> SmallVec<[usize; 3]> {
        self.axes.iter().map(|axis| axis.folded.len().max(1)).collect()
    }

    /// Taps that share rows, along each dim.
    pub(super) fn taps(&self) -> SmallVec<[usize; 3]> {
        let shared = |(axis, window): (&Axis, &Window)| {
            if axis.folded.is_empty() { window.size } else { 1 }
        };
        self.axes.iter().zip(&self.windows).map(shared).collect()
    }

    /// Elements of the planes of so many images.
    pub(super) fn elements(&self, images: usize) -> usize {
        images * self.image() + ROOM
    }

    /// Elements of the planes of one image.
    pub(super) fn image(&self) -> usize {
        self.rows() * self.row
    }

    /// Rows of one image: channels, and taps that have rows of their own.
    fn rows(&self) -> usize {
        self.channels * self.folded().iter().product::<usize>()
    }

    /// Elements from one place to the next along each dim, in planes and in what is computed from them.
    pub(super) fn pitches(&self) -> &[usize] {
        &self.pitches
    }

    /// Elements from the first result of a channel to behind the last one.
    pub(super) fn cells(&self, parts: &Parts) -> usize {
        let dims = parts.iter().zip(&self.pitches);
        dims.map(|(part, pitch)| (part.results.count - 1) * pitch).sum::<usize>() + 1
    }

    /// The products that there are to compute.
    pub(super) fn products(&self) -> Vec<Parts> {
        let mut all: Vec<Parts> = vec![smallvec![]];
        for axis in &self.axes {
            let longer = all.iter().flat_map(|parts| {
                axis.parts.iter().map(move |part| parts.iter().copied().chain([*part]).collect())
            });
            all = longer.collect();
        }
        all
    }

    /// Returns true if there are results that no tap is for.
    pub(super) fn has_gaps(&self, target: &[usize]) -> bool {
        let reached = |axis: &Axis| axis.parts.iter().map(|part| part.results.count).sum::<usize>();
        self.way == Way::Spread
            && self.axes.iter().zip(target).any(|(axis, &target)| reached(axis) < target)
    }

    /// Sets what no copy writes to zero, if there is such a place.
    pub(super) fn clear(&self, steps: &mut Steps, memory: &Block) -> Result<(), Decline> {
        let is_covered = |axis: &Axis| {
            let mut lines = axis.planes.iter().chain(&axis.folded);
            lines.all(|lines| lines.count == axis.extent)
        };
        if self.axes.iter().all(is_covered) { Ok(()) } else { steps.clear(memory) }
    }

    /// Writes the planes of `images` images, of which `source` is the first.
    pub(super) fn write(
        &self,
        steps: &mut Steps,
        source: &Block,
        memory: &Block,
        images: usize,
    ) -> Result<(), Decline> {
        let folded = self.folded();
        let mut all: Vec<(usize, usize, SmallVec<[Lines; 3]>)> = vec![(0, 0, smallvec![])];
        for (axis, &taps) in self.axes.iter().zip(&folded) {
            let lines = if axis.folded.is_empty() { &axis.planes } else { &axis.folded };
            let mut longer = Vec::new();
            for (plane, tap, known) in &all {
                for (nth, &lines) in lines.iter().enumerate() {
                    let known = known.iter().copied().chain([lines]).collect();
                    longer.push(if axis.folded.is_empty() {
                        (plane * axis.planes.len() + nth, *tap, known)
                    } else {
                        (*plane, tap * taps + nth, known)
                    });
                }
            }
            all = longer;
        }
        let taps: usize = folded.iter().product();
        for (plane, tap, lines) in all {
            let stride = &source.view.stride;
            let mut from: SmallVec<[(usize, usize); 6]> =
                smallvec![(images, stride[0]), (self.channels, stride[1])];
            let mut to: SmallVec<[(usize, usize); 6]> =
                smallvec![(images, self.image()), (self.channels, taps * self.row)];
            let mut first = 0;
            let mut place = tap * self.row + plane * self.area;
            for (dim, lines) in lines.iter().enumerate() {
                from.push((lines.count, lines.source_step * stride[2 + dim]));
                to.push((lines.count, lines.target_step * self.pitches[dim]));
                first += lines.source * stride[2 + dim];
                place += lines.target * self.pitches[dim];
            }
            steps.copy(&source.seen_as(from).from(first), &memory.seen_as(to).from(place))?;
        }
        Ok(())
    }

    /// The right side of a product: images, groups, taps, rows, results. `numbers` are images and groups.
    pub(super) fn right(&self, memory: &Block, parts: &Parts, numbers: [usize; 2]) -> Block {
        let [images, groups] = numbers;
        let rows = self.rows() / groups;
        let mut dims: SmallVec<[(usize, usize); 8]> =
            smallvec![(images, self.image()), (groups, rows * self.row)];
        let mut plane = 0;
        let mut first = 0;
        for (dim, part) in parts.iter().enumerate() {
            dims.push((part.taps.count, part.shift[1] * self.pitches[dim]));
            plane = plane * self.axes[dim].planes.len() + part.plane;
            first += part.shift[0] * self.pitches[dim];
        }
        dims.extend([(rows, self.row), (self.cells(parts), 1)]);
        memory.seen_as(dims).from(plane * self.area + first)
    }

    /// Memory for the planes of so many images.
    pub(super) fn make(&self, steps: &mut Steps, dtype: DType, images: usize) -> Block {
        steps.make(dtype, &[self.elements(images)])
    }
}

impl Axis {
    fn new(way: Way, window: &Window, [source, target]: [usize; 2], is_folded: bool) -> Self {
        match way {
            _ if is_folded => Self::folded(way, window, [source, target]),
            Way::Gather => Self::gathered(window, [source, target]),
            Way::Spread => Self::spread(window, [source, target]),
        }
    }

    /// Writes what every tap sees by itself.
    fn folded(way: Way, window: &Window, sizes: [usize; 2]) -> Self {
        let folded = (0..window.size).map(|tap| {
            let offset = (tap * window.dilation) as i64 - window.padding as i64;
            match way {
                Way::Gather => Lines::gathered(window.step, offset, sizes),
                Way::Spread => Lines::spread(window.step, offset, sizes),
            }
        });
        let folded: SmallVec<[Lines; 3]> = folded.collect();
        let one = Progression { first: 0, step: 1, count: 1 };
        let results = Progression { count: sizes[1], ..one };
        let part = Part { plane: 0, taps: one, shift: [0, 1], results };
        Self { parts: vec![part], planes: smallvec![folded[0]], folded, extent: sizes[1] }
    }

    /// Place `i` of the plane of a residue is source `i * step + residue - padding`.
    fn gathered(window: &Window, [source, target]: [usize; 2]) -> Self {
        let Window { size, step, padding, dilation } = *window;
        let reach = (size - 1) * dilation / step;
        let extent = target + reach;
        let mut residues: SmallVec<[usize; 4]> =
            (0..size).map(|tap| tap * dilation % step).collect();
        residues.sort_unstable();
        residues.dedup();
        let results = Progression { first: 0, step: 1, count: target };
        let part = |(plane, &residue): (usize, &usize)| {
            let taps = progression((0..size).filter(|tap| tap * dilation % step == residue));
            let shift = [taps.first * dilation / step, (taps.step * dilation / step).max(1)];
            Part { plane, taps, shift, results }
        };
        let parts = residues.iter().enumerate().map(part).collect();
        let lines = |&residue: &usize| {
            Lines::gathered(step, residue as i64 - padding as i64, [source, extent])
        };
        let planes = residues.iter().map(lines).collect();
        Self { parts, planes, folded: smallvec![], extent }
    }

    /// Result `i` is a sum over taps of places `(i + padding - tap * dilation) / step`, where that is a whole number.
    fn spread(window: &Window, [source, target]: [usize; 2]) -> Self {
        let Window { size, step, padding, dilation } = *window;
        // The place that a tap sees for the first result of a residue.
        let place = |residue: usize, tap: usize| {
            let at = (residue + padding) as i64 - (tap * dilation) as i64;
            (at.rem_euclid(step as i64) == 0).then(|| at.div_euclid(step as i64))
        };
        let residues = 0..step.min(target);
        let seen = |residue| (0..size).filter_map(move |tap| place(residue, tap));
        let least = residues.clone().flat_map(seen).min().unwrap_or(0).min(0);
        let mut extent = 1;
        let mut parts = Vec::new();
        for residue in residues {
            let count = (target - residue).div_ceil(step);
            let results = Progression { first: residue, step, count };
            // The kernel's matrix has the last tap first: later ones see places further on.
            let taps: Vec<usize> =
                (0..size).filter(|&at| place(residue, size - 1 - at).is_some()).collect();
            let (Some(&near), Some(&far)) = (taps.first(), taps.last()) else { continue };
            let at = |tap: usize| {
                let place = place(residue, size - 1 - tap).unwrap_or(0);
                usize::try_from(place - least).unwrap_or(0)
            };
            let taps = progression(taps.iter().copied());
            let shift = [at(near), (taps.step * dilation / step).max(1)];
            extent = extent.max(at(far) + count);
            parts.push(Part { plane: 0, taps, shift, results });
        }
        let planes = smallvec![Lines::gathered(1, least, [source, extent])];
        Self { parts, planes, folded: smallvec![], extent }
    }

    /// Zeros that the end of a row can share with the start of the next one.
    fn shared(&self) -> usize {
        let zeros = self.planes.iter().map(|lines| {
            let behind = self.extent - (lines.target + lines.count).min(self.extent);
            lines.target.min(behind)
        });
        if self.folded.is_empty() { zeros.min().unwrap_or(0) } else { 0 }
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

/// Numbers that are at even distances.
fn progression(numbers: impl Iterator<Item = usize> + Clone) -> Progression {
    let count = numbers.clone().count();
    let mut numbers = numbers;
    let first = numbers.next().unwrap_or(0);
    let step = numbers.next().map_or(1, |second| second - first);
    Progression { first, step, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of what taps see by planes, beside those by the definition, of one dim.
    fn check(way: Way, window: Window, sizes: [usize; 2]) {
        let [source, target] = sizes;
        let axis = Axis::new(way, &window, sizes, false);
        let value = |at: usize| (at * at + 3) as u64;
        let weight = |tap: usize| (tap + 1) as u64 * 1000;
        let mut expected = vec![0; target];
        for tap in 0..window.size {
            let offset = (tap * window.dilation) as i64 - window.padding as i64;
            for window_at in 0..(if way == Way::Gather { target } else { source }) {
                let place = (window_at * window.step) as i64 + offset;
                let Ok(place) = usize::try_from(place) else { continue };
                let (result, seen, places) = match way {
                    Way::Gather => (window_at, place, source),
                    Way::Spread => (place, window_at, target),
                };
                if place < places {
                    expected[result] += weight(tap) * value(seen);
                }
            }
        }
        let mut planes = vec![vec![0; axis.extent]; axis.planes.len()];
        for (plane, lines) in planes.iter_mut().zip(&axis.planes) {
            for nth in 0..lines.count {
                plane[lines.target + nth] = value(lines.source + nth * lines.source_step);
            }
        }
        let mut found = vec![0; target];
        for part in &axis.parts {
            for result in 0..part.results.count {
                let at = part.results.first + result * part.results.step;
                for nth in 0..part.taps.count {
                    let tap = part.taps.first + nth * part.taps.step;
                    let tap = if way == Way::Gather { tap } else { window.size - 1 - tap };
                    let seen = result + part.shift[0] + nth * part.shift[1];
                    found[at] += weight(tap) * planes[part.plane][seen];
                }
            }
        }
        assert_eq!(found, expected, "{way:?} {window:?} {sizes:?}");
    }

    #[test]
    fn taps_see_in_planes_what_windows_see() {
        for size in 1..5 {
            for step in 1..4 {
                for dilation in 1..4 {
                    for padding in 0..4 {
                        let window = Window { size, step, padding, dilation };
                        for places in [1, 2, 5, 9, 16] {
                            let Some(count) = window.count(places) else { continue };
                            check(Way::Gather, window, [places, count]);
                            check(Way::Spread, window, [count, places]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_share_the_zeros_between_them() {
        let windows: Windows = smallvec![Window { size: 3, step: 1, padding: 1, dilation: 1 }; 2];
        let planes = Planes::new(Way::Gather, &windows, [&[8, 8], &[8, 8]], [40, 40]);
        assert_eq!(planes.pitches(), [9, 1]);
        assert_eq!(planes.taps()[..], [3, 3]);
        assert_eq!(planes.products().len(), 1);
    }

    #[test]
    fn few_channels_give_taps_rows_of_their_own() {
        let windows: Windows = smallvec![Window { size: 7, step: 2, padding: 3, dilation: 1 }; 2];
        let planes = Planes::new(Way::Gather, &windows, [&[32, 32], &[16, 16]], [3, 3]);
        assert_eq!(planes.folded()[..], [1, 7]);
        assert_eq!(planes.products().len(), 2);
    }
}
