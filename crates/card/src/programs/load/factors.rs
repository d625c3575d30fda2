//! Loads whose tiles only a product reads, as its right side: it takes them from where they lie.

use std::ops::Range;

use spyre_artifact::{Dim, Instruction, Lane, Operand, Program};

use crate::programs::schedule::reuse::{ReuseAnalysis, ReuseMark, touched};
use crate::programs::strips::plan::lost_at_ends;

/// Blocks with more instructions are run as they are: each is compared with those around it.
const MOST_INSTRUCTIONS: usize = 512;

/// Tensor whose tile is a side of a product. Its converter is one of those of the instruction at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct TensorSide {
    pub(in crate::programs) operand: Operand,
    pub(in crate::programs) at: usize,
    pub(in crate::programs) nth: usize,
}

/// Right side of a product of registers that is a tensor's tile, and the dim that is summed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct TensorFactor {
    pub(in crate::programs) right: TensorSide,
    pub(in crate::programs) k: Dim,
}

/// The factors of a program's products, each with the product's place. Their loads have nothing to do.
pub(in crate::programs) fn all(
    program: &Program,
    reuse: &ReuseAnalysis,
) -> Vec<(usize, TensorFactor)> {
    let instructions = program.instructions();
    let blocks = Instruction::blocks(instructions);
    let lost = lost_at_ends(instructions, &blocks);
    let blocks = blocks.into_iter().filter(|block| block.len() <= MOST_INSTRUCTIONS);
    let places = blocks.flat_map(|block| block.clone().map(move |at| (block.clone(), at)));
    let factor = |(block, at)| Some((at, factor(program, reuse, lost, block, at)?));
    places.filter_map(factor).collect()
}

fn factor(
    program: &Program,
    reuse: &ReuseAnalysis,
    lost: u64,
    block: Range<usize>,
    at: usize,
) -> Option<TensorFactor> {
    let instructions = program.instructions();
    let Instruction::Multiply { target, left, right } = instructions[at] else { return None };
    let of = |register| program.register(register);
    let bit = 1 << right.index();
    let reads = |at: usize| touched(instructions[at]).0 & bit != 0;
    let writes = |at: usize| touched(instructions[at]).1 & bit != 0;
    let load = (block.start..at).rev().find(|&at| writes(at))?;
    let Instruction::Load { source, .. } = instructions[load] else { return None };
    let is_store = |at: usize| {
        matches!(instructions[at], Instruction::Store { .. } | Instruction::Scatter { .. })
    };
    // The product may be carried out before other instructions of the block.
    let is_untouched = !(load + 1..at).any(reads) && !(block.start..at).any(is_store);
    let next = (at + 1..block.end).find(|&at| reads(at) || writes(at));
    let is_last = next.map_or(lost & bit != 0, |next| !reads(next));
    let is_float = [left, right, target].iter().all(|&register| of(register).lane == Lane::F32);
    let is_plain = program.operand(source).span == of(right).span
        && reuse.mark_of(load) == ReuseMark::default();
    let mut over = (of(left).span | of(right).span).minus(of(target).span).dims();
    let k = over.next().filter(|_| over.next().is_none())?;
    let is_factor = left != right && is_float && is_plain && is_untouched && is_last;
    let right = TensorSide { operand: source, at: load, nth: 0 };
    is_factor.then_some(TensorFactor { right, k })
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, BinaryOp, ProgramBuilder, UnaryOp};
    use spyre_numerics::DataFormat::IeeeFp32;

    use super::*;

    /// Number of products that take a tensor from where it lies, in a program that adds `exp(p) * x`. Something else may
    /// read the tile of `x` before and after that.
    fn found([is_read_before, is_read_after]: [bool; 2]) -> usize {
        let mut code = ProgramBuilder::new();
        let [i, j, k] = [(); 3].map(|()| code.dim());
        let p = code.operand(IeeeFp32, Access::Read, [i, k]);
        let x = code.operand(IeeeFp32, Access::Read, [j, k]);
        let y = code.operand(IeeeFp32, Access::Write, [i, j]);
        let read = |code: &mut ProgramBuilder, tile, is_read: bool| {
            if is_read {
                code.binary(BinaryOp::Add, tile, tile);
            }
        };
        code.each_parallel(i, 16, |code| {
            code.each_parallel(j, 64, |code| {
                let sum = code.constant(Lane::F32, [i, j], 0.0);
                code.each(k, 64, |code| {
                    let p = code.load(p);
                    let power = code.unary(UnaryOp::Exp, p);
                    let tile = code.load(x);
                    read(code, tile, is_read_before);
                    code.multiply(sum, power, tile);
                    read(code, tile, is_read_after);
                });
                code.store(y, sum);
            });
        });
        let program = code.build().expect("it follows the rules");
        all(&program, &ReuseAnalysis::of(&program)).len()
    }

    #[test]
    fn a_tile_that_only_a_product_reads_is_used_where_it_lies() {
        assert_eq!(found([false, false]), 1);
    }

    #[test]
    fn a_tile_that_something_else_reads_is_loaded() {
        assert_eq!(found([true, false]), 0);
        assert_eq!(found([false, true]), 0);
    }
}
