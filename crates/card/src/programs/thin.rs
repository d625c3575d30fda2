//! Products of few rows. Each number of the right matrix is used as often as there are rows: it is
//! taken in the order in which it lies, and nothing is turned or packed.

use super::Stop;
use super::dot::{Counts, Factor, joined};
use super::machine::Machine;
use super::operand::Piece;
use super::reduce::LANES;
use super::sides::Columns;
use super::tiles::dims;
use super::vector::vectorised;

impl Machine<'_> {
    /// Adds rows of k times a tensor's columns, which lie along k. Results are summed up in lanes, as
    /// those of columns that were brought together are.
    pub(super) fn add_thin<T: Factor>(
        &mut self,
        at: usize,
        counts: Counts,
        a: &[T],
        columns: Columns,
        sums: &mut [T],
    ) -> Result<(), Stop> {
        self.check_turn()?;
        let Columns { operand, k: over, column } = columns;
        let ((tensor, part), converter) = (self.tensor(operand)?, self.code.converter(at, 1)?);
        let mut lanes: Vec<T> = self.registers.take();
        lanes.clear();
        lanes.resize(counts.rows * counts.columns * LANES, T::default());
        let mut tile = T::tile(self.registers.take());
        let along = [column].into_iter().chain(dims(over));
        let (tiles, raw) = (self.tiles, &mut self.raw);
        let outcome = tensor.each_piece(&tiles, along, |piece| {
            let elements = tile.resized(piece.count());
            tensor.load(part, piece.packed(), converter, elements, raw)?;
            let b = T::of(&tile);
            vectorised(
                #[inline(always)]
                || add_piece(counts, a, b, piece, lanes.as_chunks_mut().0),
            );
            Ok(())
        });
        for (sum, lanes) in sums.iter_mut().zip(lanes.as_chunks().0) {
            *sum = sum.plus(joined(*lanes));
        }
        self.registers.give(lanes);
        self.registers.give(std::mem::take(T::of_mut(&mut tile)));
        outcome
    }
}

/// Adds what a piece of the right matrix gives to the lanes of each row and column.
#[inline(always)]
fn add_piece<T: Factor>(counts: Counts, a: &[T], b: &[T], piece: Piece, lanes: &mut [[T; LANES]]) {
    let Counts { columns, k, .. } = counts;
    let (column, first) = (piece.place_of(0) / k, piece.place_of(0) % k);
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
    let (a, b) = (a.as_chunks::<LANES>().0, b.as_chunks::<LANES>().0);
    let mut totals = *lanes;
    for (a, b) in a.iter().zip(b) {
        for ((total, &a), &b) in totals.iter_mut().zip(a).zip(b) {
            *total = T::fused(a, b, *total);
        }
    }
    *lanes = totals;
}

/// The same element by element, wherever each one lies.
#[inline(never)]
fn add_apart<T: Factor>(counts: Counts, a: &[T], b: &[T], piece: Piece, lanes: &mut [[T; LANES]]) {
    let Counts { columns, k, .. } = counts;
    for (row, b) in b.chunks_exact(piece.elements()).enumerate() {
        for (at, &b) in b.iter().enumerate() {
            let place = piece.place_of(row) + at;
            let (column, term) = (place / k, place % k);
            for (lanes, a) in lanes[column..].iter_mut().step_by(columns).zip(a.chunks_exact(k)) {
                lanes[term % LANES] = T::fused(a[term], b, lanes[term % LANES]);
            }
        }
    }
}
