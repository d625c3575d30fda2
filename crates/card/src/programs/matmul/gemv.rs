//! Products of few rows. Each number of the right matrix is used as often as there are rows: it is
//! taken in the order in which it lies, and nothing is transposed or packed.

use std::marker::PhantomData;

use spyre_artifact::Register;
use spyre_numerics::{DataFormat, Tier};

use crate::memory::{MemorySlice, StickRow};
use crate::programs::access::sticks::{PlacedSticks, TileSticks};
use crate::programs::execute::reduce::{GROUP, values_of};
use crate::programs::execute::vector::{Job, LANES, run, vectorised};
use crate::programs::matmul::blocks::Factors;
use crate::programs::matmul::dot::{Counts, add_dots, joined};
use crate::programs::matmul::operands::{Columns, Side};
use crate::programs::matmul::product::Product;
use crate::programs::matmul::widened::{of_halves, of_sens};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    /// Adds rows of k times a tensor's columns, which lie along k. Results are summed up in lanes.
    pub(in crate::programs) fn add_thin(
        &mut self,
        at: usize,
        target: Register,
        factors: Factors,
        columns: Columns,
    ) -> Result<(), Stop> {
        self.check_turn()?;
        let counts = self.counts_of(factors.roles);
        let left = self.left::<f32>(at, Side::Tensor(factors.left), factors.roles)?;
        let mut sums = self.sums::<f32>(target, factors.roles);
        let mut lanes: Vec<f32> = self.registers.take();
        lanes.clear();
        lanes.resize(counts.rows * counts.columns * LANES, 0.0);
        let a = &left.elements;
        let outcome = match self.add_sticks(at, counts, a, columns, &mut lanes) {
            Ok(false) => self.add_converted(at, counts, a, columns, &mut sums),
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
        at: usize,
        counts: Counts,
        a: &[f32],
        columns: Columns,
        sums: &mut [f32],
    ) -> Result<(), Stop> {
        /// Numbers that are converted at a time: they stay in a core's first cache.
        const CONVERTED: usize = 4096;
        let Columns { operand, k: over, column } = columns;
        let tiles = self.tiles;
        let together = (CONVERTED / counts.k).max(1);
        let place = column.index();
        let outcome = (0..counts.columns).step_by(together).try_for_each(|first| {
            self.check_turn()?;
            self.tiles.starts[place] = tiles.starts[place] + first;
            self.tiles.elements[place] = together.min(counts.columns - first);
            let b = self.loaded::<f32>(at, 1, operand, [column].into_iter().chain(dims(over)))?;
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

    /// Adds to the lanes if all columns lie in whole sticks of float32 or bfloat16, which are used where they lie.
    /// Returns `false` if they do not, and then the lanes hold anything.
    fn add_sticks(
        &self,
        at: usize,
        counts: Counts,
        a: &[f32],
        columns: Columns,
        lanes: &mut [f32],
    ) -> Result<bool, Stop> {
        let a = a.as_chunks().0;
        let lanes = lanes.as_chunks_mut().0;
        match self.format(at, 1)? {
            DataFormat::IeeeFp32 => self.add_sticks_of::<Floats>(counts, a, columns, lanes),
            DataFormat::BFloat16 => self.add_sticks_of::<BFloats>(counts, a, columns, lanes),
            DataFormat::IeeeFp16 => self.add_sticks_of::<Halves>(counts, a, columns, lanes),
            DataFormat::Sen169Fp16 => self.add_sticks_of::<Sens>(counts, a, columns, lanes),
            DataFormat::SenInt8 => self.add_sticks_of::<Bytes>(counts, a, columns, lanes),
            _ => Ok(false),
        }
    }

    fn add_sticks_of<F: StickFormat>(
        &self,
        Counts { columns: rows, k, .. }: Counts,
        a: &[[f32; LANES]],
        Columns { operand, k: over, column }: Columns,
        lanes: &mut [[f32; LANES]],
    ) -> Result<bool, Stop> {
        if !k.is_multiple_of(F::VECTORS * LANES) {
            return Ok(false);
        }
        let (tensor, part) = self.tensor(operand)?;
        let tile = TileSticks { rows, columns: k / (F::VECTORS * LANES) };
        let mut is_done = true;
        tensor.each_series(&self.tiles, [column].into_iter().chain(dims(over)), |series| {
            let sticks = tensor.sticks_in_rows(series, tile.columns);
            let sticks = sticks.and_then(|sticks| tile.place(&sticks));
            match sticks.filter(|_| is_done) {
                Some(place) => {
                    let format = PhantomData::<F>;
                    run(Tier::detected(), AddSticks { part, place, tile, a, lanes, format });
                }
                None => is_done = false,
            }
            Ok(())
        })?;
        Ok(is_done)
    }
}

/// A format of a stick's numbers.
trait StickFormat {
    /// Vectors of lanes in a stick.
    const VECTORS: usize;

    /// A vector of a column's stick, by code for a tier.
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES];
}

/// Sticks of float32.
struct Floats;

impl StickFormat for Floats {
    const VECTORS: usize = 2;

    #[inline(always)]
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES] {
        sticks.numbers(column, at)
    }
}

/// Sticks of bfloat16: the upper halves of float32.
struct BFloats;

impl StickFormat for BFloats {
    const VECTORS: usize = 4;

    #[inline(always)]
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES] {
        sticks.numbers::<u16>(column, at).map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
}

/// Sticks of half precision.
struct Halves;

impl StickFormat for Halves {
    const VECTORS: usize = 4;

    #[inline(always)]
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES] {
        of_halves::<TIER>(sticks.numbers(column, at))
    }
}

/// Sticks of SEN169.
struct Sens;

impl StickFormat for Sens {
    const VECTORS: usize = 4;

    #[inline(always)]
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES] {
        of_sens::<TIER>(sticks.numbers(column, at))
    }
}

/// Sticks of whole numbers of eight bits.
struct Bytes;

impl StickFormat for Bytes {
    const VECTORS: usize = 8;

    #[inline(always)]
    fn vector<const TIER: u8, const N: usize>(
        sticks: StickRow<'_, N>,
        column: usize,
        at: usize,
    ) -> [f32; LANES] {
        sticks.numbers::<i8>(column, at).map(f32::from)
    }
}

/// Adds what sticks of the right matrix give, of which a tile's row is a column.
struct AddSticks<'a, F> {
    part: MemorySlice<'a>,
    place: PlacedSticks,
    tile: TileSticks,
    a: &'a [[f32; LANES]],
    lanes: &'a mut [[f32; LANES]],
    format: PhantomData<F>,
}

impl<F: StickFormat> Job for AddSticks<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(mut self) {
        /// Sticks of a column at a time: its lanes are loaded and stored once for all of them.
        const TOGETHER: usize = 4;
        self.add::<TIER, TOGETHER>();
        let done = self.place.counts[0] / TOGETHER * TOGETHER;
        self.place.at += done * self.place.strides[0];
        self.place.first[0] += done;
        self.place.counts[0] -= done;
        if self.place.counts[0] > 0 {
            self.add::<TIER, 1>();
        }
    }
}

impl<F: StickFormat> AddSticks<'_, F> {
    #[inline(always)]
    fn add<const TIER: u8, const N: usize>(&mut self) {
        let Self { part, place, tile, a, lanes, .. } = self;
        let [first, first_column] = place.first;
        part.each_sticks::<N>(
            place.at,
            place.counts,
            place.strides,
            #[inline(always)]
            |nth, column, sticks| {
                let rows = a.chunks_exact(tile.columns * F::VECTORS);
                let lanes = lanes[first_column + column..].iter_mut().step_by(tile.rows);
                for (a, lanes) in rows.zip(lanes) {
                    let a = &a[(first + nth) * F::VECTORS..][..N * F::VECTORS];
                    let mut totals = *lanes;
                    for (at, a) in a.iter().enumerate() {
                        let b = F::vector::<TIER, N>(sticks, at / F::VECTORS, at % F::VECTORS);
                        for ((total, &a), b) in totals.iter_mut().zip(a).zip(b) {
                            *total = f32::fused(a, b, *total);
                        }
                    }
                    *lanes = totals;
                }
            },
        );
    }
}

/// Adds to each sum what its lanes hold; many at a time, in the order of one.
#[inline(always)]
fn add_lanes(lanes: &[[f32; LANES]], sums: &mut [f32]) {
    let (groups, rest) = lanes.as_chunks::<GROUP>();
    let (sums, last) = sums.as_chunks_mut::<GROUP>();
    for (lanes, sums) in groups.iter().zip(sums) {
        let values = values_of(lanes, |a, b| a + b);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    last.iter_mut().zip(rest).for_each(|(sum, lanes)| *sum += joined(*lanes));
}
