//! Products of few rows. Each number of the right matrix is used as often as there are rows: it is
//! taken in the order in which it lies, and nothing is transposed or packed.

use std::marker::PhantomData;

use spyre_artifact::Register;
use spyre_numerics::Tier;

use crate::memory::DeviceSticks;
use crate::programs::access::sticks::TileSticks;
use crate::programs::execute::transpose::Transpose;
use crate::programs::execute::vector::{Job, LANES, run, vectorised};
use crate::programs::matmul::blocks::Factors;
use crate::programs::matmul::dot::{Counts, add_dots, joined};
use crate::programs::matmul::operands::Columns;
use crate::programs::matmul::product::Product;
use crate::programs::matmul::stick_format::{StickFormat, with_stick_format};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    /// Adds rows of k times a tensor's columns, which lie along k. Results are summed up in lanes.
    pub(in crate::programs) fn add_thin(
        &mut self,
        target: Register,
        factors: Factors,
        columns: Columns,
    ) -> Result<(), Stop> {
        self.check_turn()?;
        let counts = self.counts_of(factors.roles);
        let left = self.left::<f32>(factors.left, factors.roles)?;
        let mut sums = self.sums::<f32>(target, factors.roles);
        let mut lanes: Vec<f32> = self.registers.take();
        lanes.clear();
        lanes.resize(counts.rows * counts.columns * LANES, 0.0);
        let a = &left.elements;
        let outcome = match self.add_sticks(counts, a, columns, &mut lanes) {
            Ok(false) => self.add_converted(counts, a, columns, &mut sums),
            outcome => {
                vectorised(
                    #[inline(always)]
                    || add_lanes(lanes.as_chunks().0, &mut sums),
                );
                outcome.map(drop)
            }
        };
        self.registers.give(lanes);
        self.put_back(left);
        self.put_sums(target, factors.roles, sums);
        outcome
    }

    /// Adds to the sums what some columns at a time give, which are converted.
    fn add_converted(
        &mut self,
        counts: Counts,
        a: &[f32],
        columns: Columns,
        sums: &mut [f32],
    ) -> Result<(), Stop> {
        /// Numbers that are converted at a time: they stay in a core's first cache.
        const CONVERTED: usize = 4096;
        let Columns { side, k: over, column } = columns;
        let tiles = self.tiles;
        let together = (CONVERTED / counts.k).max(1);
        let place = column.index();
        let outcome = (0..counts.columns).step_by(together).try_for_each(|first| {
            self.check_turn()?;
            self.tiles.starts[place] = tiles.starts[place] + first;
            self.tiles.elements[place] = together.min(counts.columns - first);
            let b = self.loaded::<f32>(side, [column].into_iter().chain(dims(over)))?;
            vectorised(
                #[inline(always)]
                || add_dots(counts.k, a, &b.elements, &mut sums[first..], counts.columns),
            );
            self.put_back(b);
            Ok(())
        });
        self.tiles = tiles;
        outcome
    }

    /// Adds to the lanes if all columns lie in whole sticks of a format that is used where it lies. Returns `false` if
    /// they do not, and then the lanes hold anything.
    fn add_sticks(
        &self,
        counts: Counts,
        a: &[f32],
        columns: Columns,
        lanes: &mut [f32],
    ) -> Result<bool, Stop> {
        let a = a.as_chunks().0;
        let lanes = lanes.as_chunks_mut().0;
        with_stick_format!(
            self.format(columns.side)?,
            F => self.add_sticks_of::<F>(counts, a, columns, lanes),
            Ok(false)
        )
    }

    fn add_sticks_of<F: StickFormat>(
        &self,
        Counts { rows, columns: of_tile, k, .. }: Counts,
        a: &[[f32; LANES]],
        Columns { side, k: over, column }: Columns,
        lanes: &mut [[f32; LANES]],
    ) -> Result<bool, Stop> {
        if !k.is_multiple_of(F::VECTORS * LANES) {
            return Ok(false);
        }
        let (tensor, part) = self.tensor(side.operand)?;
        let tile = TileSticks { rows: of_tile, columns: k / (F::VECTORS * LANES) };
        let mut is_done = true;
        tensor.each_series(&self.tiles, [column].into_iter().chain(dims(over)), |series| {
            let sticks = tensor.sticks_in_rows(series, tile.columns);
            let placed = sticks.and_then(|sticks| Some((tile.place(&sticks)?, sticks)));
            match placed.filter(|_| is_done) {
                Some((first, sticks)) => {
                    let sticks = part.sticks(sticks.at, sticks.counts, sticks.there);
                    let format = PhantomData::<F>;
                    let job = AddSticks { sticks, first, tile, a, rows, lanes, format };
                    run(Tier::detected(), job);
                }
                None => is_done = false,
            }
            Ok(())
        })?;
        Ok(is_done)
    }
}

/// Adds what sticks of the right matrix give, of which a tile's row is a column.
struct AddSticks<'a, F> {
    sticks: DeviceSticks<'a>,
    /// Column and row of the first one.
    first: [usize; 2],
    tile: TileSticks,
    a: &'a [[f32; LANES]],
    /// Rows of the left matrix.
    rows: usize,
    lanes: &'a mut [[f32; LANES]],
    format: PhantomData<F>,
}

/// Columns of the right matrix at a time, and sticks of each: their lanes are loaded and stored once for all of them.
const TOGETHER: usize = 4;
/// Lanes that stay in a core's first cache.
const MOST_LANES: usize = 256;

impl<F: StickFormat> Job for AddSticks<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(mut self) {
        let [columns, rows] = self.sticks.counts();
        let together = columns - columns % TOGETHER;
        let chunk = (MOST_LANES / self.rows).next_multiple_of(TOGETHER);
        for first in (0..rows).step_by(chunk) {
            let count = chunk.min(rows - first);
            let whole = count - count % TOGETHER;
            self.add::<TIER, TOGETHER, TOGETHER>([0, first], [together, whole]);
            self.add::<TIER, 1, TOGETHER>([together, first], [columns - together, whole]);
            self.add::<TIER, 1, 1>([0, first + whole], [columns, count - whole]);
        }
    }
}

impl<F: StickFormat> AddSticks<'_, F> {
    /// Adds what some of the sticks give, in blocks of so many that lie along k and of so many columns.
    #[inline(always)]
    fn add<const TIER: u8, const ALONG: usize, const COLUMNS: usize>(
        &mut self,
        from: [usize; 2],
        counts: [usize; 2],
    ) {
        let Self { sticks, first, tile, a, lanes, .. } = self;
        sticks.part(from, counts).each::<ALONG, COLUMNS>(
            #[inline(always)]
            |[along, column], block| {
                let start = (first[0] + from[0] + along) * F::VECTORS;
                let column = first[1] + from[1] + column;
                let a = a.chunks_exact(tile.columns * F::VECTORS);
                for (a, lanes) in a.zip(lanes.chunks_exact_mut(tile.rows)) {
                    let lanes = &mut lanes[column..][..COLUMNS];
                    let mut totals = [[0.0; LANES]; COLUMNS];
                    totals.copy_from_slice(lanes);
                    for (at, a) in a[start..][..ALONG * F::VECTORS].iter().enumerate() {
                        for (column, totals) in totals.iter_mut().enumerate() {
                            let place = [at / F::VECTORS, column];
                            let b = F::widened::<TIER>(block.numbers(place, at % F::VECTORS));
                            for ((total, &a), b) in totals.iter_mut().zip(a).zip(b) {
                                *total = f32::fused(a, b, *total);
                            }
                        }
                    }
                    lanes.copy_from_slice(&totals);
                }
            },
        );
    }
}

/// Adds to each sum what its lanes hold; many at a time, in the order of one.
#[inline(always)]
fn add_lanes(lanes: &[[f32; LANES]], sums: &mut [f32]) {
    let (groups, rest) = lanes.as_chunks::<LANES>();
    let (sums, last) = sums.as_chunks_mut::<LANES>();
    let mut by_lane = [[0.0; LANES]; LANES];
    for (lanes, sums) in groups.iter().zip(sums) {
        let turned = by_lane.as_flattened_mut();
        f32::transpose(Tier::detected(), lanes.as_flattened(), LANES, turned, LANES);
        let mut width = LANES / 2;
        while width > 0 {
            let (first, second) = by_lane.split_at_mut(width);
            for (first, second) in first.iter_mut().zip(second) {
                first.iter_mut().zip(second).for_each(|(a, b)| *a += *b);
            }
            width /= 2;
        }
        sums.iter_mut().zip(by_lane[0]).for_each(|(sum, value)| *sum += value);
    }
    last.iter_mut().zip(rest).for_each(|(sum, lanes)| *sum += joined(*lanes));
}
