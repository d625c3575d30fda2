//! `x - y` of numbers with one `y` for each row, and the sum of its squares, as variances take it: one pass.

use spyre_artifact::Register;
use spyre_numerics::Tier;

use crate::programs::access::nest::Nest;
use crate::programs::execute::buffer::Element;
use crate::programs::execute::reduce::{ABREAST, GROUP, LANES, values_of};
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;

impl Machine<'_> {
    /// Puts the differences in the place of `x`, and adds their squares, if the rows are long.
    pub(in crate::programs) fn squares_of_difference(
        &mut self,
        [target, place, from]: [Register; 3],
    ) -> bool {
        let nests = [target, from].map(|register| self.nest_of(register, place));
        let is_by_rows = nests.iter().all(|nest| nest.row().stride == 0);
        if !is_by_rows || !self.has_long_rows(place) {
            return false;
        }
        let mut held = self.registers.take_from::<f32>(target);
        let mut values = self.registers.take_from::<f32>(place);
        let from = f32::of(self.registers.tile(from));
        run(
            Tier::detected(),
            Squares { nests: &nests, held: &mut held, values: &mut values, from },
        );
        *f32::of_mut(self.registers.tile_mut(place)) = values;
        *f32::of_mut(self.registers.tile_mut(target)) = held;
        true
    }
}

struct Squares<'a> {
    /// Loops over `held` and over `from`, row by row of the values.
    nests: &'a [Nest; 2],
    held: &'a mut [f32],
    values: &'a mut [f32],
    from: &'a [f32],
}

impl Job for Squares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { nests, held, values, from } = self;
        let length = nests[0].row().elements;
        let [mut places, mut sources] = [nests[0].starts(), nests[1].starts()];
        for group in values.chunks_mut(GROUP * length) {
            let rows = group.len() / length;
            let mut lanes = [[-0.0; LANES]; GROUP];
            let (abreast, rest) = group.split_at_mut(rows / ABREAST * ABREAST * length);
            let some = abreast.chunks_exact_mut(ABREAST * length);
            for (values, lanes) in some.zip(lanes.as_chunks_mut::<ABREAST>().0) {
                *lanes =
                    lanes_abreast(values, length, [(); ABREAST].map(|()| from[sources.next()]));
            }
            let single = rest.chunks_exact_mut(length).zip(&mut lanes[rows / ABREAST * ABREAST..]);
            for (values, lanes) in single {
                *lanes = lanes_of(values, from[sources.next()]);
            }
            for &sum in &values_of(&lanes, |a: f32, b| a + b)[..rows] {
                held[places.next()] += sum;
            }
        }
    }
}

/// Replaces rows by their differences, and gives partial sums of the squares; in the order in which a
/// reduction has them.
#[inline(always)]
fn lanes_abreast(values: &mut [f32], length: usize, from: [f32; ABREAST]) -> [Lanes; ABREAST] {
    let (one, rest) = values.split_at_mut(length);
    let (two, rest) = rest.split_at_mut(length);
    let (three, four) = rest.split_at_mut(length);
    let mut rows = [one, two, three, four];
    let [mut a, mut b, mut c, mut d] = [[-0.0; LANES]; ABREAST];
    let [one, two, three, four] = rows.each_mut().map(|row| row.as_chunks_mut().0);
    for (((one, two), three), four) in one.iter_mut().zip(two).zip(three).zip(four) {
        step(one, from[0], &mut a);
        step(two, from[1], &mut b);
        step(three, from[2], &mut c);
        step(four, from[3], &mut d);
    }
    let mut lanes = [a, b, c, d];
    if !length.is_multiple_of(LANES) {
        let rests = rows.iter_mut().zip(&mut lanes).zip(from);
        rests.for_each(|((row, lanes), from)| add_rest(row, from, lanes));
    }
    lanes
}

/// Like [`lanes_abreast`], for one row.
#[inline(always)]
fn lanes_of(row: &mut [f32], from: f32) -> Lanes {
    let mut lanes = [-0.0; LANES];
    row.as_chunks_mut().0.iter_mut().for_each(|some| step(some, from, &mut lanes));
    add_rest(row, from, &mut lanes);
    lanes
}

type Lanes = [f32; LANES];

#[inline(always)]
fn step(values: &mut Lanes, from: f32, lanes: &mut Lanes) {
    let differences = values.map(|value| value - from);
    *values = differences;
    for (lane, difference) in lanes.iter_mut().zip(differences) {
        *lane += difference * difference;
    }
}

/// Adds the elements of a row that are no whole lanes. Not inlined: the compiler would take the lanes apart
/// for it.
#[inline(never)]
fn add_rest(row: &mut [f32], from: f32, lanes: &mut Lanes) {
    for (value, lane) in row.as_chunks_mut::<LANES>().1.iter_mut().zip(lanes) {
        *value -= from;
        *lane += *value * *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::execute::reduce::fold_row;

    #[test]
    fn differences_and_sums_are_those_of_one_step_after_the_other() {
        for tier in Tier::ALL.into_iter().filter(|tier| tier.is_available()) {
            for (rows, length) in [(1, 32), (3, 33), (4, 512), (7, 100), (16, 47), (21, 64)] {
                let number = |at: usize| ((at * 7919 + 13) % 1009) as f32 * 0.37 - 150.0;
                let mut values: Vec<f32> = (0..rows * length).map(number).collect();
                let from: Vec<f32> = (0..rows).map(|row| number(row) * 0.1).collect();
                let mut held = vec![0.5; rows];
                let mut differences = values.clone();
                let mut sums = held.clone();
                for ((row, from), sum) in differences.chunks_mut(length).zip(&from).zip(&mut sums) {
                    row.iter_mut().for_each(|value| *value -= from);
                    let squares: Vec<f32> = row.iter().map(|value| value * value).collect();
                    *sum += fold_row(&squares, -0.0, |a, b| a + b);
                }
                let nest = || Nest::over([(rows, 1), (length, 0)]);
                let nests = [nest(), nest()];
                let held_now = &mut held[..];
                let values_now = &mut values[..];
                let job =
                    Squares { nests: &nests, held: held_now, values: values_now, from: &from };
                run(tier, job);
                assert!(values == differences && held == sums, "{tier}: {rows} rows of {length}");
            }
        }
    }
}
