//! Tiles of an operand as rows of elements that follow each other, for loops that take them from where they lie.

use smallvec::SmallVec;
use spyre_artifact::{Dim, Span};
use spyre_layout::AxisOffsets;

use super::Tensor;
use crate::memory::MemorySlice;
use crate::programs::access::axes::Axes;
use crate::programs::schedule::tiles::{Tiles, dims};

/// Rows of a tile, cut into runs of elements that follow each other. Distances are in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TileRows {
    pub(in crate::programs) first: *const u8,
    pub(in crate::programs) row: usize,
    /// Elements of a run, and the distance to the next one.
    pub(in crate::programs) run: usize,
    pub(in crate::programs) across: usize,
}

/// Elements of a tile that follow each other, at the start of another dim, and their place in the tile.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TileRun {
    pub(in crate::programs) first: *const u8,
    pub(in crate::programs) place: usize,
    pub(in crate::programs) elements: usize,
}

/// Runs of a tile, which lie alike at every coordinate of another dim.
#[derive(Clone, Debug)]
pub(in crate::programs) struct TileRuns {
    pub(in crate::programs) runs: SmallVec<[TileRun; 16]>,
    /// Bytes from one coordinate of the other dim to the next.
    pub(in crate::programs) pitch: usize,
}

/// Elements of a run that does not end: a multiple of a stick's.
const WHOLE: usize = 1 << 40;

/// Steps of a dim in elements: whole runs are `across` apart.
#[derive(Clone, Copy)]
struct RunSteps {
    run: usize,
    across: usize,
}

impl RunSteps {
    /// Returns true if a tile begins where a run does.
    fn starts_at(self, tiles: &Tiles, dim: Dim) -> bool {
        self.run == WHOLE || tiles.starts[dim.index()].is_multiple_of(self.run)
    }
}

impl Tensor {
    /// The current tile as rows along one dim, if they are evenly spaced. A row may be read up to `room` elements.
    pub(in crate::programs) fn tile_rows(
        &self,
        part: MemorySlice<'_>,
        tiles: &Tiles,
        [rows, along]: [Span; 2],
        room: usize,
    ) -> Option<TileRows> {
        let mut long = dims(along).filter(|dim| tiles.elements[dim.index()] > 1);
        let line = match long.next() {
            None => RunSteps { run: WHOLE, across: 0 },
            Some(dim) => self.line(tiles, dim).filter(|line| line.starts_at(tiles, dim))?,
        };
        if long.next().is_some() {
            return None;
        }
        let mut row = 0;
        let mut reach = 1;
        let mut count = 1;
        let long: SmallVec<[Dim; 4]> =
            dims(rows).filter(|dim| tiles.elements[dim.index()] > 1).collect();
        for &dim in long.iter().rev() {
            let step = self.even_step(dim)?;
            if count == 1 {
                row = step;
            } else if step != reach {
                return None;
            }
            count *= tiles.elements[dim.index()];
            reach = row * count;
        }
        let last = room.saturating_sub(1);
        let last = last / line.run * line.across + last % line.run;
        let first = self.reached(part, tiles, &[], (count - 1) * row + last)?;
        let bytes = self.element_bytes;
        Some(TileRows { first, row: row * bytes, run: line.run, across: line.across * bytes })
    }

    /// Runs of up to `most` elements of the current tile along some dims, at each coordinate of another dim, if those
    /// are evenly spaced. `most` elements of every run may be read.
    pub(in crate::programs) fn tile_runs(
        &self,
        part: MemorySlice<'_>,
        tiles: &Tiles,
        [along, other]: [Span; 2],
        most: usize,
    ) -> Option<TileRuns> {
        let mut long = dims(other).filter(|dim| tiles.elements[dim.index()] > 1);
        let (count, pitch) = match long.next() {
            None => (1, 0),
            Some(dim) => (tiles.elements[dim.index()], self.even_step(dim)?),
        };
        if long.next().is_some() {
            return None;
        }
        let all: SmallVec<[Dim; 4]> =
            dims(along).filter(|dim| tiles.elements[dim.index()] > 1).collect();
        let (&inner, outer) = all.split_last()?;
        let line = self.line(tiles, inner)?;
        let [inner_start, inner_count] = [tiles.starts, tiles.elements].map(|of| of[inner.index()]);
        let outer_count: usize = outer.iter().map(|dim| tiles.elements[dim.index()]).product();
        let mut runs = SmallVec::new();
        for nth in 0..outer_count {
            let mut at: SmallVec<[(Dim, usize); 4]> = SmallVec::new();
            let mut rest = nth;
            for &dim in outer.iter().rev() {
                let elements = tiles.elements[dim.index()];
                at.push((dim, tiles.starts[dim.index()] + rest % elements));
                rest /= elements;
            }
            let mut done = 0;
            while done < inner_count {
                let left = line.run - (inner_start + done) % line.run;
                let elements = most.min(inner_count - done).min(left);
                at.push((inner, inner_start + done));
                let first = self.reached(part, tiles, &at, (count - 1) * pitch + most - 1)?;
                runs.push(TileRun { first, place: nth * inner_count + done, elements });
                at.pop();
                done += elements;
            }
        }
        Some(TileRuns { runs, pitch: pitch * self.element_bytes })
    }

    /// Offset of a coordinate along a dim, in elements.
    fn offset_along(&self, dim: Dim, coordinate: usize) -> usize {
        let Some(Axes::Apart(axes)) = &self.axes else { return 0 };
        axes[dim.index()].as_ref().map_or(0, |axis| axis.offset(&self.layout, coordinate))
    }

    fn axis(&self, dim: Dim) -> Option<&AxisOffsets> {
        let Some(Axes::Apart(axes)) = &self.axes else { return None };
        axes[dim.index()].as_ref()
    }

    /// Elements from one coordinate of a dim to the next, if all steps are alike.
    fn even_step(&self, dim: Dim) -> Option<usize> {
        match *self.axis(dim)? {
            AxisOffsets::Even { step, .. } => Some(step),
            _ => None,
        }
    }

    /// The runs of a dim along which neighbours follow each other.
    fn line(&self, tiles: &Tiles, dim: Dim) -> Option<RunSteps> {
        let [start, count] = [tiles.starts, tiles.elements].map(|of| of[dim.index()]);
        match *self.axis(dim)? {
            AxisOffsets::Even { step: 1, .. } => Some(RunSteps { run: WHOLE, across: 0 }),
            AxisOffsets::Sticks { step: 1, run, across, .. } => {
                let is_one_run = start % run + count <= run;
                let whole = RunSteps { run: WHOLE, across: 0 };
                Some(if is_one_run { whole } else { RunSteps { run, across } })
            }
            _ => None,
        }
    }

    /// Address of the tile's element at some coordinates, and at the tile's start along all other dims, if so many
    /// elements behind it are in the tensor's memory, and they are aligned.
    fn reached(
        &self,
        part: MemorySlice<'_>,
        tiles: &Tiles,
        at: &[(Dim, usize)],
        behind: usize,
    ) -> Option<*const u8> {
        let Some(Axes::Apart(axes)) = &self.axes else { return None };
        let mut element = 0;
        for dim in (0..axes.len()).map(|dim| Dim(dim as u8)) {
            let known = at.iter().find(|(other, _)| *other == dim);
            let coordinate = known.map_or(tiles.starts[dim.index()], |&(_, coordinate)| coordinate);
            element += self.offset_along(dim, coordinate);
        }
        let bytes = self.element_bytes;
        let is_there = (element + behind + 1) * bytes <= self.layout.device_bytes();
        let first = is_there.then(|| part.address(element * bytes, (behind + 1) * bytes));
        // A table may name any byte as a tensor's first.
        first.filter(|first| first.addr().is_multiple_of(bytes)).map(<*mut u8>::cast_const)
    }
}
