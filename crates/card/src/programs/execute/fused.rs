//! Instructions that follow each other and are cheaper together. What they make is the same.

mod arithmetic;
mod arithmetic_store;
mod exp_sub;
mod link_op;
mod load_reduce;
mod run;
mod sum_of_squares;

use std::ops::Range;

use spyre_artifact::{BinaryOp, Instruction, Lane, Operand, Program, ReduceOp, Register, UnaryOp};
use spyre_numerics::DataFormat;

use crate::programs::execute::fused::link_op::{LinkOp, MOST_LINKS};
use crate::programs::schedule::reuse::{ReuseAnalysis, ReuseMark, exposed, touched};

/// Instructions that are run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Fused {
    /// A difference and its power of e, in place.
    Power { target: Register, from: Register },
    /// Squares and their sum; no other instruction reads the squares.
    SumOfSquares { target: Register, source: Register },
    /// A difference in place, its squares and their sum; no other instruction reads the squares.
    SquaresOfDifference { target: Register, place: Register, from: Register },
    /// A load that is reduced.
    FoldedLoad { op: ReduceOp, target: Register, tile: Register, source: Operand },
    /// Some sums, differences and products, all in one register.
    Links { count: usize },
    /// [`Links`](Self::Links) and a store; no other instruction reads the last one's result.
    StoredLinks { count: usize },
}

impl Fused {
    /// Number of instructions it stands for.
    pub(in crate::programs) fn count(self) -> usize {
        match self {
            Self::Power { .. } | Self::SumOfSquares { .. } | Self::FoldedLoad { .. } => 2,
            Self::SquaresOfDifference { .. } => 3,
            Self::Links { count } => count,
            Self::StoredLinks { count } => count + 1,
        }
    }

    /// Returns true if the register that its first instruction writes is written in any case.
    fn makes_the_first(self) -> bool {
        matches!(self, Self::SquaresOfDifference { .. } | Self::FoldedLoad { .. })
    }

    /// Fused instructions that begin at each instruction of a program, also in the midst of others: the
    /// instruction before may be left out.
    pub(in crate::programs) fn all(program: &Program, reuse: &ReuseAnalysis) -> Vec<Option<Self>> {
        let instructions = program.instructions();
        let blocks = Instruction::blocks(instructions);
        let lost = lost_at_ends(instructions, &blocks);
        let mut all = vec![None; instructions.len()];
        for block in blocks {
            let finder = Finder { program, reuse, end: block.end, lost };
            block.for_each(|at| all[at] = finder.find(at));
        }
        all
    }
}

/// Looks for instructions of one block that can be run as one.
struct Finder<'a> {
    program: &'a Program,
    reuse: &'a ReuseAnalysis,
    /// End of the block.
    end: usize,
    /// Registers whose values no instruction reads after a block.
    lost: u64,
}

impl Finder<'_> {
    fn find(&self, at: usize) -> Option<Fused> {
        let finders = [
            Self::power,
            Self::sum_of_squares,
            Self::squares_of_difference,
            Self::folded_load,
            Self::links,
        ];
        finders.iter().find_map(|find| find(self, at).filter(|found| self.is_allowed(at, *found)))
    }

    /// Returns true if results that are kept on the way are made on the way, and no instruction but the first
    /// may be skipped.
    fn is_allowed(&self, at: usize, found: Fused) -> bool {
        let parts = (at..at + found.count()).map(|at| self.reuse.mark_of(at));
        let is_missed = |(nth, part): (usize, ReuseMark)| match part.keep {
            Some((_, is_copy)) => is_copy || nth > 0 || !found.makes_the_first(),
            None => false,
        };
        let is_kept = parts.clone().take(found.count() - 1).enumerate().any(is_missed);
        let is_skipped = parts.skip(1).any(|part| part.recall.is_some() || part.is_idle);
        !is_kept && !is_skipped
    }

    fn power(&self, at: usize) -> Option<Fused> {
        let &[Instruction::Binary { op: BinaryOp::Sub, target, left, right }, power] =
            self.rest(at).get(..2)?
        else {
            return None;
        };
        let is_power = power == Instruction::Unary { op: UnaryOp::Exp, target, source: target };
        let is_in_place = target == left && target != right && self.is_f32(target);
        (is_power && is_in_place).then_some(Fused::Power { target, from: right })
    }

    fn sum_of_squares(&self, at: usize) -> Option<Fused> {
        let &[
            Instruction::Binary { op: BinaryOp::Mul, target: squares, left, right },
            Instruction::Reduce { op: ReduceOp::Sum, target, source },
        ] = self.rest(at).get(..2)?
        else {
            return None;
        };
        let is_square = left == right && squares == source && squares != left;
        let is_sum = is_square && target != left && self.is_f32(source);
        (is_sum && self.is_dead(at + 2, squares))
            .then_some(Fused::SumOfSquares { target, source: left })
    }

    fn squares_of_difference(&self, at: usize) -> Option<Fused> {
        let &Instruction::Binary { op: BinaryOp::Sub, target: place, left, right } =
            self.rest(at).first()?
        else {
            return None;
        };
        let Fused::SumOfSquares { target, source } = self.sum_of_squares(at + 1)? else {
            return None;
        };
        let is_in_place = place == left && place != right && place == source && target != right;
        is_in_place.then_some(Fused::SquaresOfDifference { target, place, from: right })
    }

    fn folded_load(&self, at: usize) -> Option<Fused> {
        let &[
            Instruction::Load { target: tile, source: operand },
            Instruction::Reduce { op, target, source },
        ] = self.rest(at).get(..2)?
        else {
            return None;
        };
        let is_known = matches!(op, ReduceOp::Sum | ReduceOp::Max) && self.is_f32(tile);
        let is_folded = source == tile && target != tile && self.is_as_it_is(operand, tile);
        (is_known && is_folded).then_some(Fused::FoldedLoad { op, target, tile, source: operand })
    }

    fn links(&self, at: usize) -> Option<Fused> {
        let (first, ..) = self.link(at)?;
        let goes_on = |&at: &usize| {
            let is_next = self.link(at).is_some_and(|(target, ..)| target == first);
            is_next && self.power(at).is_none()
        };
        let count = 1 + (at + 1..at + MOST_LINKS).take_while(goes_on).count();
        if self.is_stored(at + count, first) {
            Some(Fused::StoredLinks { count })
        } else {
            (count > 1).then_some(Fused::Links { count })
        }
    }

    /// Returns true if all of a register is stored as it is at a place, and not read afterwards.
    fn is_stored(&self, at: usize, register: Register) -> bool {
        let Some(&Instruction::Store { target, source }) = self.rest(at).first() else {
            return false;
        };
        source == register && self.is_as_it_is(target, register) && self.is_dead(at + 1, register)
    }

    /// Returns true if an operand has the numbers of a register of float32, and no others.
    fn is_as_it_is(&self, operand: Operand, register: Register) -> bool {
        let operand = self.program.operand(operand);
        let of = self.program.register(register);
        operand.format == DataFormat::IeeeFp32 && operand.span == of.span
    }

    fn link(&self, at: usize) -> Option<(Register, LinkOp, Register)> {
        let link = LinkOp::of(self.rest(at).first()?)?;
        self.is_f32(link.0).then_some(link)
    }

    fn is_f32(&self, register: Register) -> bool {
        self.program.register(register).lane == Lane::F32
    }

    /// Returns true if the value that a register holds before an instruction is not read any more.
    fn is_dead(&self, at: usize, register: Register) -> bool {
        let bit = 1 << register.index();
        let mut touches = self.rest(at).iter().map(|&next| touched(next));
        let next = touches.find(|(reads, writes)| (reads | writes) & bit != 0);
        match next {
            Some((reads, _)) => reads & bit == 0,
            None => self.lost & bit != 0,
        }
    }

    /// The block's instructions from a place on.
    fn rest(&self, at: usize) -> &[Instruction] {
        &self.program.instructions()[at.min(self.end)..self.end]
    }
}

/// Registers that are never read without being written before in the same block: what they hold at the
/// end of one is lost.
fn lost_at_ends(instructions: &[Instruction], blocks: &[Range<usize>]) -> u64 {
    // Those that conditions of skips are in are read between blocks.
    let borders = instructions.iter().filter(|instruction| instruction.is_border());
    let read = borders.fold(0, |read, &border| read | touched(border).0);
    let exposed = blocks.iter().fold(0, |all, block| all | exposed(&instructions[block.clone()]));
    !(read | exposed)
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, Dim, Operand, ProgramBuilder};
    use spyre_numerics::DataFormat::IeeeFp32;

    use super::*;

    fn found(program: &Program) -> Vec<Option<Fused>> {
        Fused::all(program, &ReuseAnalysis::of(program))
    }

    /// A program of one loop over rows, from `x` to `y`; `row` is one number for each.
    fn program(body: impl FnOnce(&mut ProgramBuilder, [Operand; 2], Register)) -> Program {
        let mut code = ProgramBuilder::new();
        let i: Dim = code.dim();
        let j: Dim = code.dim();
        let x = code.operand(IeeeFp32, Access::Read, [i, j]);
        let y = code.operand(IeeeFp32, Access::Write, [i, j]);
        code.each_parallel(i, 16, |code| {
            let row = code.constant(Lane::F32, [i], 0.5);
            code.each(j, 256, |code| body(code, [x, y], row));
        });
        code.build().expect("it follows the rules")
    }

    /// An operation that replaces what is in a register.
    fn replace(code: &mut ProgramBuilder, op: BinaryOp, target: Register, right: Register) {
        code.emit(Instruction::Binary { op, target, left: target, right });
    }

    #[test]
    fn three_in_one_place_are_one_and_a_fourth_begins_anew() {
        let program = program(|code, [x, y], row| {
            let tile = code.load(x);
            for op in [BinaryOp::Mul, BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul] {
                replace(code, op, tile, row);
            }
            code.store(y, tile);
        });
        let all = found(&program);
        let counts: Vec<usize> = all.iter().flatten().map(|fused| fused.count()).collect();
        assert_eq!(counts, [3, 4, 3, 2], "from each on; the store belongs to the last three");
    }

    #[test]
    fn a_power_is_not_taken_apart() {
        let program = program(|code, [x, y], row| {
            let tile = code.load(x);
            replace(code, BinaryOp::Mul, tile, row);
            replace(code, BinaryOp::Sub, tile, row);
            code.emit(Instruction::Unary { op: UnaryOp::Exp, target: tile, source: tile });
            code.store(y, tile);
        });
        let all: Vec<Fused> = found(&program).into_iter().flatten().collect();
        assert!(matches!(all[..], [Fused::Power { .. }]), "{all:?}");
    }

    #[test]
    fn squares_that_are_read_are_made() {
        let squares = |is_read: bool| {
            program(|code, [x, y], row| {
                let tile = code.load(x);
                let squares = code.mul(tile, tile);
                code.reduce(ReduceOp::Sum, row, squares);
                code.store(y, if is_read { squares } else { tile });
            })
        };
        let is_found = |program: &Program| found(program).iter().any(Option::is_some);
        assert!(is_found(&squares(false)));
        assert!(!is_found(&squares(true)));
    }

    #[test]
    fn squares_that_may_be_read_after_a_skip_are_made() {
        let mut code = ProgramBuilder::new();
        let j = code.dim();
        let word = code.scalar_word();
        let x = code.operand(IeeeFp32, Access::Read, [j]);
        let y = code.operand(IeeeFp32, Access::Write, [j]);
        let sum = code.constant(Lane::F32, [], 0.0);
        code.each(j, 256, |code| {
            let tile = code.load(x);
            let squares = code.register(Lane::F32, [j]);
            let make = Instruction::Constant { target: squares, value: 0.0.into() };
            code.emit(make);
            code.when(word, |code| {
                let op = BinaryOp::Mul;
                let square = Instruction::Binary { op, target: squares, left: tile, right: tile };
                code.emit(square);
                code.reduce(ReduceOp::Sum, sum, squares);
            });
            code.store(y, squares);
        });
        let program = code.build().expect("it follows the rules");
        assert_eq!(found(&program).iter().flatten().count(), 0);
    }

    #[test]
    fn what_is_stored_and_then_read_is_made_first() {
        let stored = |is_read: bool| {
            program(|code, [x, y], row| {
                let tile = code.load(x);
                replace(code, BinaryOp::Mul, tile, row);
                code.store(y, tile);
                if is_read {
                    code.reduce(ReduceOp::Min, row, tile);
                }
            })
        };
        let all: Vec<Fused> = found(&stored(false)).into_iter().flatten().collect();
        assert_eq!(all, [Fused::StoredLinks { count: 1 }]);
        assert_eq!(found(&stored(true)).iter().flatten().count(), 0);
    }

    #[test]
    fn a_load_that_is_reduced_is_one_with_that() {
        let loaded = |op| {
            program(|code, [x, y], row| {
                let tile = code.load(x);
                code.reduce(op, row, tile);
                code.store(y, tile);
            })
        };
        let all: Vec<Fused> = found(&loaded(ReduceOp::Sum)).into_iter().flatten().collect();
        assert!(matches!(all[..], [Fused::FoldedLoad { op: ReduceOp::Sum, .. }]), "{all:?}");
        assert_eq!(found(&loaded(ReduceOp::Product)).iter().flatten().count(), 0);
    }

    #[test]
    fn a_difference_whose_squares_are_summed_is_one_with_them() {
        let program = program(|code, [x, y], row| {
            let sum = code.constant(Lane::F32, [Dim(0)], 0.0);
            let tile = code.load(x);
            replace(code, BinaryOp::Sub, tile, row);
            let squares = code.mul(tile, tile);
            code.reduce(ReduceOp::Sum, sum, squares);
            code.store(y, tile);
        });
        let all: Vec<Fused> = found(&program).into_iter().flatten().collect();
        let [first, second] = all[..] else { panic!("{all:?}") };
        assert!(matches!(first, Fused::SquaresOfDifference { .. }), "{first:?}");
        assert!(
            matches!(second, Fused::SumOfSquares { .. }),
            "if the difference is kept: {second:?}"
        );
    }
}
