//! `e^(x - y)` of numbers with one `y` for each row, as softmax and attention take it.

use spyre_artifact::Register;

use super::machine::Machine;
use super::math::exponential;
use super::rowwise::{InPlace, Pairwise};

impl Machine<'_> {
    /// Puts the powers in the place of `x`, if the rows are long.
    pub(super) fn power_of_difference(&mut self, target: Register, from: Register) -> bool {
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
            match exponential::are_near(some.iter().map(|left| left - right)) {
                true => some.iter_mut().for_each(|x| *x = exponential::exp_near(*x - right)),
                false => some.iter_mut().for_each(|x| *x = exponential::exp(*x - right)),
            }
        }
    }
}
