use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use spyre_artifact::{Dim, Tile};

use super::Stop;
use super::limits::tile_elements;
use super::machine::Machine;

/// Fewer elements than this are not worth a second thread.
const LEAST_ELEMENTS: usize = 64 << 10;

impl Machine<'_> {
    /// Whether the tiles of the parallel loop at a place are worth dividing among threads.
    pub(super) fn is_worth_sharing(&self, begin: usize, dim: Dim, tile: Tile) -> bool {
        let extent = self.bound.extents[dim.index()];
        let extents = self.code.walked().dims().map(|dim| self.bound.extents[dim.index()]);
        let work =
            || extents.clone().fold(1_usize, |all, extent| all.saturating_mul(extent.max(1)));
        self.code.may_fork(begin)
            && !self.is_helper
            && tile_elements(tile, extent) < extent
            && work() >= LEAST_ELEMENTS
            && self.work.threads.count() > 1
    }

    /// Runs the tiles of a parallel loop on several threads, each with buffers of its own. Which
    /// thread has which tile does not show in what they compute. The first fault is that of the
    /// first tile that has one.
    pub(super) fn share(&self, begin: usize, dim: Dim, tile: Tile) -> Result<(), Stop> {
        let extent = self.bound.extents[dim.index()];
        let step = tile_elements(tile, extent);
        let (tiles, taken) = (extent.div_ceil(step), AtomicUsize::new(0));
        let first_fault: Mutex<Option<(usize, Stop)>> = Mutex::new(None);
        let body = begin + 1..self.code.end_of(begin);
        let work = || {
            let mut helper = self.helper();
            loop {
                let nth = taken.fetch_add(1, Ordering::Relaxed);
                if nth >= tiles || first_fault.lock().is_some() {
                    break;
                }
                let start = nth * step;
                helper.tiles.starts[dim.index()] = start;
                helper.tiles.elements[dim.index()] = step.min(extent - start);
                if let Err(stop) = helper.run_body(body.clone()) {
                    let mut first = first_fault.lock();
                    if first.as_ref().is_none_or(|(known, _)| nth < *known) {
                        *first = Some((nth, stop));
                    }
                    break;
                }
            }
            self.work.programs.give_back(helper.into_desk());
        };
        self.work.threads.share(tiles, &work);
        first_fault.into_inner().map_or(Ok(()), |(_, stop)| Err(stop))
    }
}
