use spyre_artifact::{Dim, Lane, Register, SeekOp};
use spyre_numerics::Tier;

use crate::programs::execute::buffer::Element;
use crate::programs::execute::dim_walk::DimWalk;
use crate::programs::execute::reduce::fold_row;
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

impl Machine<'_> {
    pub(in crate::programs) fn seek(
        &mut self,
        op: SeekOp,
        value: Register,
        place: Register,
        source: Register,
        dim: Dim,
    ) -> Result<(), Stop> {
        let places = [value, place, source];
        macro_rules! lane {
            ($element:ty, $is_nan:expr) => {
                match op {
                    SeekOp::ArgMin => self.find(places, dim, |x: $element, held: $element| {
                        x < held || $is_nan(x) && !$is_nan(held)
                    }),
                    SeekOp::ArgMax => self.find(places, dim, |x: $element, held: $element| {
                        x > held || $is_nan(x) && !$is_nan(held)
                    }),
                    _ => return Err(Stop::refused(format!("`{op}` is not for this card"))),
                }
            };
        }
        match self.registers.type_of(source).lane {
            Lane::F64 => lane!(f64, f64::is_nan),
            Lane::I64 => lane!(i64, |_: i64| false),
            Lane::Bool => lane!(u8, |_: u8| false),
            _ => lane!(f32, f32::is_nan),
        }
        Ok(())
    }

    fn find<T: Element>(
        &mut self,
        [value, place, source]: [Register; 3],
        dim: Dim,
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let along = DimWalk::of(&self.tiles, self.registers.type_of(source).span, dim);
        let first = self.tiles.starts[dim.index()] as i64;
        let mut values: Vec<T> = self.registers.take_from(value);
        let mut places: Vec<i64> = self.registers.take_from(place);
        let elements = T::of(self.registers.tile(source));
        let held = (&mut values[..], &mut places[..]);
        run(Tier::detected(), Find { elements, along, first, held, wins });
        self.registers.put(value, values);
        self.registers.put(place, places);
    }
}

/// The best of all elements and of what is held, with their places from `first` on.
struct Find<'a, T, F> {
    elements: &'a [T],
    along: DimWalk,
    first: i64,
    held: (&'a mut [T], &'a mut [i64]),
    wins: F,
}

impl<T: Element, F: Fn(T, T) -> bool + Copy> Job for Find<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { elements, along, first, held: (values, places), wins } = self;
        let held = values.chunks_mut(along.row.max(1)).zip(places.chunks_mut(along.row.max(1)));
        for (block, (values, places)) in elements.chunks(along.block().max(1)).zip(held) {
            match (values, places) {
                ([value], [place]) => seek_row(block, first, value, place, wins),
                (values, places) => {
                    for (row, at) in block.chunks_exact(along.row).zip(first..) {
                        seek_each(row, at, values, places, wins);
                    }
                }
            }
        }
    }
}

/// The best of one row: which value it is comes first, and then where.
#[inline(always)]
fn seek_row<T: Element>(
    row: &[T],
    first: i64,
    value: &mut T,
    place: &mut i64,
    wins: impl Fn(T, T) -> bool + Copy,
) {
    let Some(&start) = row.first() else { return };
    let best = fold_row(row, start, |a, b| if wins(b, a) { b } else { a });
    if *place >= 0 && !wins(best, *value) {
        return;
    }
    // Nothing wins over the best; the first of those is it.
    let at = row.iter().position(|&x| !wins(best, x)).unwrap_or(0);
    (*value, *place) = (row[at], first + at as i64);
}

/// One step along the dim, for each element of a row.
#[inline(always)]
fn seek_each<T: Element>(
    row: &[T],
    at: i64,
    values: &mut [T],
    places: &mut [i64],
    wins: impl Fn(T, T) -> bool,
) {
    for ((&x, value), place) in row.iter().zip(values).zip(places) {
        let is_better = *place < 0 || wins(x, *value);
        *value = if is_better { x } else { *value };
        *place = if is_better { at } else { *place };
    }
}
