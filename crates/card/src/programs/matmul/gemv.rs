//! Products of few rows. Each number of the right matrix is used as often as there are rows: it is
//! taken in the order in which it lies, and nothing is transposed or packed.

use std::marker::PhantomData;

use spyre_numerics::{DataFormat, Tier};

use crate::memory::{MemorySlice, StickRow};
use crate::programs::access::operand::Piece;
use crate::programs::access::sticks::{PlacedSticks, TileSticks};
use crate::programs::execute::reduce::{GROUP, LANES, values_of};
use crate::programs::execute::vector::{Job, run, vectorised};
use crate::programs::matmul::dot::{Counts, Factor, joined};
use crate::programs::matmul::operands::Columns;
use crate::programs::matmul::product::Product;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    /// Adds rows of k times a tensor's columns, which lie along k. Results are summed up in lanes, as
    /// those of columns that were brought together are.
    pub(in crate::programs) fn add_thin<T: Factor>(
        &mut self,
        at: usize,
        counts: Counts,
        a: &[T],
        columns: Columns,
        sums: &mut [T],
    ) -> Result<(), Stop> {
        self.check_turn()?;
        let Columns { operand, k: over, column } = columns;
        let (tensor, part) = self.tensor(operand)?;
        let converter = self.code.converter(at, 1)?;
        let mut lanes: Vec<T> = self.registers.take();
        lanes.clear();
        lanes.resize(counts.rows * counts.columns * LANES, T::default());
        let mut tile = T::tile(self.registers.take());
        let along = [column].into_iter().chain(dims(over));
        let outcome = match self.add_sticks(at, counts, a, columns, &mut lanes) {
            Ok(false) => {
                let tiles = self.tiles;
                let raw = &mut self.raw;
                lanes.fill(T::default());
                tensor.each_piece(&tiles, along, |piece| {
                    let elements = tile.resized(piece.count());
                    tensor.load(part, piece.packed(), converter, elements, raw)?;
                    let b = T::of(&tile);
                    vectorised(
                        #[inline(always)]
                        || add_piece(counts, a, b, piece, lanes.as_chunks_mut().0),
                    );
                    Ok(())
                })
            }
            outcome => outcome.map(drop),
        };
        vectorised(
            #[inline(always)]
            || add_lanes(lanes.as_chunks().0, sums),
        );
        self.registers.give(lanes);
        self.registers.give(std::mem::take(T::of_mut(&mut tile)));
        outcome
    }

    /// Adds to the lanes if all columns lie in whole sticks of float32 or bfloat16, which are used where they lie.
    /// Returns `false` if they do not, and then the lanes hold anything.
    fn add_sticks<T: Factor>(
        &self,
        at: usize,
        counts: Counts,
        a: &[T],
        columns: Columns,
        lanes: &mut [T],
    ) -> Result<bool, Stop> {
        let (Some(a), Some(lanes)) = (T::floats(a), T::floats_mut(lanes)) else {
            return Ok(false);
        };
        let a = a.as_chunks().0;
        let lanes = lanes.as_chunks_mut().0;
        match self.code.converter(at, 1)? {
            converter if converter.is_copy() => {
                self.add_sticks_of::<Floats>(counts, a, columns, lanes)
            }
            converter if converter.from() == DataFormat::BFloat16 => {
                self.add_sticks_of::<BFloats>(counts, a, columns, lanes)
            }
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
            let sticks = tensor.whole_sticks(series).and_then(|sticks| tile.place(&sticks));
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

    /// A vector of a column's stick.
    fn vector<const N: usize>(sticks: StickRow<'_, N>, column: usize, at: usize) -> [f32; LANES];
}

/// Sticks of float32.
struct Floats;

impl StickFormat for Floats {
    const VECTORS: usize = 2;

    #[inline(always)]
    fn vector<const N: usize>(sticks: StickRow<'_, N>, column: usize, at: usize) -> [f32; LANES] {
        sticks.floats(column, at)
    }
}

/// Sticks of bfloat16: the upper halves of float32.
struct BFloats;

impl StickFormat for BFloats {
    const VECTORS: usize = 4;

    #[inline(always)]
    fn vector<const N: usize>(sticks: StickRow<'_, N>, column: usize, at: usize) -> [f32; LANES] {
        sticks.words(column, at).map(|word| f32::from_bits(u32::from(word) << 16))
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
        self.add::<TOGETHER>();
        let done = self.place.counts[0] / TOGETHER * TOGETHER;
        self.place.at += done * self.place.strides[0];
        self.place.first[0] += done;
        self.place.counts[0] -= done;
        if self.place.counts[0] > 0 {
            self.add::<1>();
        }
    }
}

impl<F: StickFormat> AddSticks<'_, F> {
    #[inline(always)]
    fn add<const N: usize>(&mut self) {
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
                        let b = F::vector(sticks, at / F::VECTORS, at % F::VECTORS);
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
fn add_lanes<T: Factor>(lanes: &[[T; LANES]], sums: &mut [T]) {
    let (groups, rest) = lanes.as_chunks::<GROUP>();
    let (sums, last) = sums.as_chunks_mut::<GROUP>();
    for (lanes, sums) in groups.iter().zip(sums) {
        let values = values_of(lanes, T::plus);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.plus(value));
    }
    last.iter_mut().zip(rest).for_each(|(sum, lanes)| *sum = sum.plus(joined(*lanes)));
}

/// Adds what a piece of the right matrix gives to the lanes of each row and column.
#[inline(always)]
fn add_piece<T: Factor>(counts: Counts, a: &[T], b: &[T], piece: Piece, lanes: &mut [[T; LANES]]) {
    let Counts { columns, k, .. } = counts;
    let column = piece.place_of(0) / k;
    let first = piece.place_of(0) % k;
    let elements = piece.elements();
    let is_even =
        first.is_multiple_of(LANES) && elements.is_multiple_of(LANES) && first + elements <= k;
    if !is_even || piece.place_of(1) != piece.place_of(0) + k {
        return add_apart(counts, a, b, piece, lanes);
    }
    for (at, b) in b.chunks_exact(elements).enumerate() {
        for (row, a) in a.chunks_exact(k).enumerate() {
            add_run(&a[first..][..elements], b, &mut lanes[row * columns + column + at]);
        }
    }
}

/// A run of whole lanes. What is summed up is a value of its own meanwhile, so that the compiler keeps
/// it in a vector.
#[inline(always)]
fn add_run<T: Factor>(a: &[T], b: &[T], lanes: &mut [T; LANES]) {
    let a = a.as_chunks::<LANES>().0;
    let b = b.as_chunks::<LANES>().0;
    let mut totals = *lanes;
    for (a, b) in a.iter().zip(b) {
        for ((total, &a), &b) in totals.iter_mut().zip(a).zip(b) {
            *total = T::fused(a, b, *total);
        }
    }
    *lanes = totals;
}

/// Like [`add_piece`], element by element, wherever each one lies.
#[inline(never)]
fn add_apart<T: Factor>(counts: Counts, a: &[T], b: &[T], piece: Piece, lanes: &mut [[T; LANES]]) {
    let Counts { columns, k, .. } = counts;
    for (row, b) in b.chunks_exact(piece.elements()).enumerate() {
        for (at, &b) in b.iter().enumerate() {
            let place = piece.place_of(row) + at;
            let column = place / k;
            let term = place % k;
            for (lanes, a) in lanes[column..].iter_mut().step_by(columns).zip(a.chunks_exact(k)) {
                lanes[term % LANES] = T::fused(a[term], b, lanes[term % LANES]);
            }
        }
    }
}
