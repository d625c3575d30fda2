//! `e^(x - y)` of numbers with one `y` for each row, as softmax and attention take it: two
//! instructions that are cheaper as one.

use spyre_artifact::{BinaryOp, Instruction, Lane, Program, Register, UnaryOp};

use super::machine::Machine;
use super::math::exponential;
use super::rowwise::{InPlace, Pairwise};

/// Whether the instruction at a place and the next one take powers of differences, in place.
pub(super) fn is_power(program: &Program, at: usize) -> bool {
    let in_place = |target, source| target == source && program.register(target).lane == Lane::F32;
    match program.instructions().get(at..at + 2) {
        Some(
            &[
                Instruction::Binary { op: BinaryOp::Sub, target, left, right },
                Instruction::Unary { op: UnaryOp::Exp, target: power, source },
            ],
        ) => {
            let is_chain = power == target && in_place(target, left) && in_place(power, source);
            is_chain && right != target
        }
        _ => false,
    }
}

impl Machine<'_> {
    /// Does both, if the rows are long.
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
