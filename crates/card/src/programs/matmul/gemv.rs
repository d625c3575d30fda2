//! Products of few rows. Each number of the right matrix is used as often as there are rows: it is
//! taken in the order in which it lies, and nothing is transposed or packed.

use spyre_numerics::Tier;

use crate::memory::MemorySlice;
use crate::programs::access::operand::Piece;
use crate::programs::access::sticks::{PlacedSticks, STICK, Stick, TileSticks};
use crate::programs::execute::reduce::{GROUP, LANES, values_of};
use crate::programs::execute::vector::{Job, run, vectorised};
use crate::programs::matmul::dot::{Counts, Factor, joined};
use crate::programs::matmul::operands::Columns;
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

    /// Adds to the lanes if all columns lie in whole sticks of float32, which are used where they lie.
    /// Returns `false` if they do not, and then the lanes hold anything.
    fn add_sticks<T: Factor>(
        &self,
        at: usize,
        counts: Counts,
        a: &[T],
        columns: Columns,
        lanes: &mut [T],
    ) -> Result<bool, Stop> {
        let Counts { columns: rows, k, .. } = counts;
        let (Some(a), Some(lanes)) = (T::floats(a), T::floats_mut(lanes)) else {
            return Ok(false);
        };
        if !k.is_multiple_of(STICK) {
            return Ok(false);
        }
        let Columns { operand, k: over, column } = columns;
        let (tensor, part) = self.tensor(operand)?;
        let converter = self.code.converter(at, 1)?;
        let tile = TileSticks { rows, columns: k / STICK };
        let mut is_done = true;
        let a = a.as_chunks().0;
        let lanes = lanes.as_chunks_mut().0;
        tensor.each_series(&self.tiles, [column].into_iter().chain(dims(over)), |series| {
            let sticks = tensor.sticks(series, converter).and_then(|sticks| tile.place(&sticks));
            match sticks.filter(|_| is_done) {
                Some(place) => run(Tier::detected(), AddSticks { part, place, tile, a, lanes }),
                None => is_done = false,
            }
            Ok(())
        })?;
        Ok(is_done)
    }
}

/// Adds what sticks of the right matrix give, of which a tile's row is a column.
struct AddSticks<'a> {
    part: MemorySlice<'a>,
    place: PlacedSticks,
    tile: TileSticks,
    a: &'a [Stick],
    lanes: &'a mut [[f32; LANES]],
}

impl Job for AddSticks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { part, place, tile, a, lanes } = self;
        let [first, first_column] = place.first;
        part.each_stick(
            place.at,
            place.counts,
            place.strides,
            #[inline(always)]
            |nth, column, b| {
                let nth = first + nth;
                let column = first_column + column;
                let rows = a.iter().skip(nth).step_by(tile.columns);
                for (a, lanes) in rows.zip(lanes[column..].iter_mut().step_by(tile.rows)) {
                    add_run(a, &b, lanes);
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
