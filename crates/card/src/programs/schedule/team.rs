use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use spyre_artifact::{Dim, Instruction, Tile};

use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::Tiles;

/// Fewer elements than this are not worth a second thread.
const LEAST_ELEMENTS: usize = 64 << 10;

impl Machine<'_> {
    /// Returns true if the tiles of the parallel loop at a place are worth dividing among threads.
    pub(in crate::programs) fn is_worth_sharing(&self, begin: usize, dim: Dim, tile: Tile) -> bool {
        let extent = self.binding.extents[dim.index()];
        let extents = self.code.walked().dims().map(|dim| self.binding.extents[dim.index()]);
        let work =
            || extents.clone().fold(1_usize, |all, extent| all.saturating_mul(extent.max(1)));
        self.code.may_fork(begin)
            && !self.is_helper
            && self.binding.steps.elements(dim, tile, extent) < extent
            && work() >= LEAST_ELEMENTS
            && self.work.threads.count() > 1
    }

    /// Runs the tiles of a parallel loop on several threads, each with buffers of its own. Which
    /// thread has which tile does not show in what they compute. The first fault is that of the
    /// first tile that has one.
    pub(in crate::programs) fn share(
        &self,
        begin: usize,
        dim: Dim,
        tile: Tile,
    ) -> Result<(), Stop> {
        let grid = self.grid(begin, dim, tile);
        let tiles = grid.tiles();
        let run =
            tiles.div_ceil(self.work.threads.count() * TILES_PER_THREAD).clamp(1, MOST_TOGETHER);
        self.share_parts(tiles.div_ceil(run), &|machine, nth| {
            (nth * run..tiles.min((nth + 1) * run)).try_for_each(|nth| {
                grid.go_to(nth, &mut machine.tiles);
                machine.run_body(grid.body.clone())
            })
        })
    }

    /// Has some parts run, each by one of several threads.
    pub(in crate::programs) fn share_parts(
        &self,
        parts: usize,
        run: &(dyn Fn(&mut Machine<'_>, usize) -> Result<(), Stop> + Sync),
    ) -> Result<(), Stop> {
        self.finish_stores();
        let taken = AtomicUsize::new(0);
        let first_fault: Mutex<Option<(usize, Stop)>> = Mutex::new(None);
        let work = || {
            let mut helper = self.helper();
            loop {
                let nth = taken.fetch_add(1, Ordering::Relaxed);
                if nth >= parts || first_fault.lock().is_some() {
                    break;
                }
                if let Err(stop) = run(&mut helper, nth) {
                    let mut first = first_fault.lock();
                    if first.as_ref().is_none_or(|(known, _)| nth < *known) {
                        *first = Some((nth, stop));
                    }
                    break;
                }
            }
            self.work.programs.give_back(helper.into_buffers());
        };
        self.work.threads.share(parts, &work);
        first_fault.into_inner().map_or(Ok(()), |(_, stop)| Err(stop))
    }

    /// The loop at a place, and the parallel loops that are all there is inside it, as long as
    /// there are too few tiles to keep all threads busy to the end.
    fn grid(&self, begin: usize, dim: Dim, tile: Tile) -> Grid {
        let instructions = self.code.program().instructions();
        let enough = self.work.threads.count() * TILES_PER_THREAD;
        let mut grid = Grid { axes: Vec::new(), body: begin..self.code.end_of(begin) + 1 };
        let mut next = Some((dim, tile));
        while let Some((dim, tile)) = next {
            let extent = self.binding.extents[dim.index()];
            let step = self.binding.steps.elements(dim, tile, extent);
            grid.axes.push(Axis { dim, extent, step });
            grid.body = grid.body.start + 1..grid.body.end - 1;
            next = match instructions.get(grid.body.start) {
                Some(&Instruction::Begin { dim, tile, is_parallel: true })
                    if grid.tiles() < enough
                        && self.code.end_of(grid.body.start) + 1 == grid.body.end
                        && self.binding.extents[dim.index()] > 0 =>
                {
                    Some((dim, tile))
                }
                _ => None,
            };
        }
        grid
    }
}

/// Tiles for each thread, so many that the last one ends about when the others do.
const TILES_PER_THREAD: usize = 8;
/// Tiles that a thread takes together, at most: neighbours often lie in the same page.
const MOST_TOGETHER: usize = 16;

/// Parallel loops whose tiles are divided together.
#[derive(Debug)]
struct Grid {
    /// Outermost first.
    axes: Vec<Axis>,
    body: Range<usize>,
}

/// A dim that is not empty, in tiles.
#[derive(Clone, Copy, Debug)]
struct Axis {
    dim: Dim,
    extent: usize,
    step: usize,
}

impl Grid {
    fn tiles(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent.div_ceil(axis.step)).product()
    }

    /// Goes to the tile of this number.
    fn go_to(&self, mut nth: usize, tiles: &mut Tiles) {
        for &Axis { dim, extent, step } in self.axes.iter().rev() {
            let count = extent.div_ceil(step);
            let start = nth % count * step;
            nth /= count;
            tiles.starts[dim.index()] = start;
            tiles.elements[dim.index()] = step.min(extent - start);
        }
    }
}
