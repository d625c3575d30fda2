//! `e^(x - y)` of numbers with one `y` for each row, as softmax and attention take it.

use spyre_artifact::Register;

use crate::programs::execute::rowwise::{InPlace, Pairwise};
use crate::programs::math::exponential;
use crate::programs::schedule::machine::Machine;

impl Machine<'_> {
    /// Puts the powers in the place of `x`, if the rows are long.
    pub(in crate::programs) fn power_of_difference(
        &mut self,
        target: Register,
        from: Register,
    ) -> bool {
        self.in_place_rows::<f32>(target, from, PowerOfDifference)
    }
}

#[derive(Clone, Copy)]
struct PowerOfDifference;

impl Pairwise<f32, f32> for PowerOfDifference {
    #[inline(always)]
    fn of(self, left: f32, right: f32) -> f32 {
        exponential::exp(left - right)
    }
}

impl InPlace<f32> for PowerOfDifference {
    #[inline(always)]
    fn with_one(self, row: &mut [f32], right: f32) {
        const PIECE: usize = 512;
        for some in row.chunks_mut(PIECE) {
            if exponential::are_near(some.iter().map(|left| left - right)) {
                some.iter_mut().for_each(|x| *x = exponential::exp_near(*x - right));
            } else {
                some.iter_mut().for_each(|x| *x = exponential::exp(*x - right));
            }
        }
    }
}
