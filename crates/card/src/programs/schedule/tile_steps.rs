//! Steps of a launch's loops. A program's tiles are made for long dims. Where the inner dims are short, such a tile is
//! a handful of elements, and what is done around it costs more than what is done in it: then outer loops
//! take several of their tiles at a time.

use spyre_artifact::{Dim, Instruction, MAX_DIMS, Program, Tile};

use crate::programs::load::limits::tile_elements;

/// Elements of a widened tile, at most: it stays in a core's first caches.
const MOST_ELEMENTS: usize = 8192;
/// Tiles that a launch has at least if threads may divide them, and the elements that it then has.
const LEAST_TILES: usize = 32;
const LEAST_DIVIDED: usize = 64 << 10;

/// Elements that loops step over, at least: for each dim, in all loops over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct TileSteps {
    least: [usize; MAX_DIMS],
}

impl TileSteps {
    /// Steps for these extents: a function of the program and of them, as all bits of a result are.
    pub(in crate::programs) fn of(program: &Program, extents: &[usize; MAX_DIMS]) -> Self {
        let mut steps = Self::default();
        let Some(loops) = ProgramLoop::all(program) else { return steps };
        let walked = (0..program.dims()).map(|dim| extents[dim].max(1));
        let all: usize = walked.fold(1, usize::saturating_mul);
        let share = if all < LEAST_DIVIDED { all } else { all / LEAST_TILES };
        let most = share.min(MOST_ELEMENTS);
        // What becomes whole lets the loops around it grow, so that there are at most as many rounds as dims.
        while steps.widen(&loops, extents, most) {}
        steps
    }

    /// Elements of a tile where so many of the dim are left.
    #[inline]
    pub(in crate::programs) fn elements(&self, dim: Dim, tile: Tile, left: usize) -> usize {
        tile_elements(tile, left).max(self.least[dim.index()].min(left))
    }

    /// Widens each dim whose loops hold whole dims only. Returns true if one of them has grown.
    fn widen(&mut self, loops: &[ProgramLoop], extents: &[usize; MAX_DIMS], most: usize) -> bool {
        let inside = self.inside(loops, extents);
        let mut has_grown = false;
        for dim in (0..MAX_DIMS).map(|dim| Dim(dim as u8)) {
            let extent = extents[dim.index()];
            let over = || (0..loops.len()).filter(|&at| loops[at].dim == dim);
            let Some(first) = over().next().map(|at| loops[at]) else { continue };
            // The order of a sum is to depend on what is summed, not on how many sums there are.
            let is_alike = over().all(|at| loops[at].tile == first.tile && loops[at].is_parallel);
            let others =
                |at: usize| Some(inside[at]?.saturating_mul(self.around(loops, extents, at)));
            let largest = over().map(others).try_fold(1, |all, one| Some(one?.max(all)));
            let Some(largest) = largest.filter(|_| is_alike) else { continue };
            let step = (most / largest).min(extent);
            if step > self.elements(dim, first.tile, extent) {
                self.least[dim.index()] = step;
                has_grown = true;
            }
        }
        has_grown
    }

    /// Elements of the tiles of the loops around one.
    fn around(&self, loops: &[ProgramLoop], extents: &[usize; MAX_DIMS], at: usize) -> usize {
        let outer = std::iter::successors(loops[at].around, |&at| loops[at].around);
        outer.map(|at| self.step(loops[at], extents)).fold(1, usize::saturating_mul)
    }

    fn step(&self, one: ProgramLoop, extents: &[usize; MAX_DIMS]) -> usize {
        self.elements(one.dim, one.tile, extents[one.dim.index()])
    }

    /// Elements of the tiles inside of each loop; `None` where a loop inside has several.
    fn inside(&self, loops: &[ProgramLoop], extents: &[usize; MAX_DIMS]) -> Vec<Option<usize>> {
        let mut inside = vec![Some(1); loops.len()];
        for (at, one) in loops.iter().enumerate().rev() {
            let step = self.step(*one, extents);
            let is_whole = step == extents[one.dim.index()];
            let own =
                inside[at].filter(|_| is_whole).map(|inside: usize| inside.saturating_mul(step));
            if let Some(around) = one.around {
                inside[around] = inside[around].zip(own).map(|(known, own)| known.max(own));
            }
        }
        inside
    }
}

/// Loop of a program.
#[derive(Clone, Copy, Debug)]
struct ProgramLoop {
    dim: Dim,
    tile: Tile,
    is_parallel: bool,
    /// Index of the loop around it.
    around: Option<usize>,
}

impl ProgramLoop {
    /// All loops, each behind those around it; `None` if an instruction is made for its tiles, or goes from tile to
    /// tile in order.
    fn all(program: &Program) -> Option<Vec<Self>> {
        let mut loops = Vec::new();
        let mut open = Vec::new();
        for instruction in program.instructions() {
            match *instruction {
                Instruction::Begin { dim, tile, is_parallel } => {
                    let around = open.last().copied();
                    open.push(loops.len());
                    loops.push(Self { dim, tile, is_parallel, around });
                }
                Instruction::End => _ = open.pop(),
                Instruction::Dot { .. }
                | Instruction::Multiply { .. }
                | Instruction::Scan { .. }
                | Instruction::Seek { .. }
                | Instruction::Order { .. }
                | Instruction::SkipUnless { .. }
                | Instruction::SkipUnlessAny { .. } => return None,
                _ => {}
            }
        }
        Some(loops)
    }
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, Error, Lane, ProgramBuilder, ReduceOp};
    use spyre_numerics::DataFormat::IeeeFp32;

    use super::*;

    /// A copy over four dims, in the tiles that elementwise programs have.
    fn copy() -> Result<Program, Error> {
        let mut code = ProgramBuilder::new();
        let dims = [0; 4].map(|_| code.dim());
        let x = code.operand(IeeeFp32, Access::Read, dims);
        let y = code.operand(IeeeFp32, Access::Write, dims);
        let [n, c, h, w] = dims;
        code.each_parallel(n, 1, |code| {
            code.each_parallel(c, 1, |code| {
                code.each_parallel(h, 16, |code| {
                    code.each_parallel(w, 512, |code| {
                        let tile = code.load(x);
                        code.store(y, tile);
                    });
                });
            });
        });
        code.build()
    }

    /// Steps of a program's dims.
    fn steps(program: &Program, sizes: &[usize]) -> Vec<usize> {
        let mut extents = [0; MAX_DIMS];
        extents[..sizes.len()].copy_from_slice(sizes);
        let steps = TileSteps::of(program, &extents);
        let tile = |dim: usize| {
            let over = program.instructions().iter().find_map(|instruction| match *instruction {
                Instruction::Begin { dim: over, tile, .. } if over.index() == dim => Some(tile),
                _ => None,
            });
            over.map_or(0, |tile| steps.elements(Dim(dim as u8), tile, sizes[dim]))
        };
        (0..sizes.len()).map(tile).collect()
    }

    #[test]
    fn short_inner_dims_let_outer_loops_take_more() -> Result<(), Error> {
        let copy = copy()?;
        assert_eq!(steps(&copy, &[32, 64, 8, 8]), [1, 64, 8, 8]);
        assert_eq!(steps(&copy, &[2, 3, 8, 8]), [2, 3, 8, 8], "a small launch is one tile");
        assert_eq!(steps(&copy, &[64, 64, 56, 56]), [1, 2, 56, 56]);
        Ok(())
    }

    #[test]
    fn loops_around_dims_in_several_tiles_stay() -> Result<(), Error> {
        let copy = copy()?;
        assert_eq!(steps(&copy, &[64, 64, 64, 1024]), [1, 1, 16, 512]);
        assert_eq!(steps(&copy, &[64, 64, 1024, 100]), [1, 1, 81, 100]);
        Ok(())
    }

    #[test]
    fn a_launch_worth_dividing_keeps_tiles_for_all() -> Result<(), Error> {
        let copy = copy()?;
        assert_eq!(steps(&copy, &[1, 64, 32, 32]), [1, 2, 32, 32]);
        Ok(())
    }

    #[test]
    fn loops_inside_count_with_the_longest_of_them() -> Result<(), Error> {
        let mut code = ProgramBuilder::new();
        let rows = code.dim();
        let columns = code.dim();
        let x = code.operand(IeeeFp32, Access::Read, [rows, columns]);
        let y = code.operand(IeeeFp32, Access::Write, [rows, columns]);
        code.each_parallel(rows, 4, |code| {
            let sum = code.constant(Lane::F32, [rows], 0.0);
            code.each(columns, 128, |code| {
                let tile = code.load(x);
                code.reduce(ReduceOp::Sum, sum, tile);
            });
            code.each_parallel(columns, 128, |code| {
                let tile = code.load(x);
                let scaled = code.mul(tile, sum);
                code.store(y, scaled);
            });
        });
        let program = code.build()?;
        assert_eq!(steps(&program, &[10_000, 8]), [312, 8]);
        assert_eq!(steps(&program, &[10_000, 400]), [4, 128], "its columns are several tiles");
        assert_eq!(steps(&program, &[3, 400]), [3, 128], "sums go as they do among more rows");
        Ok(())
    }

    #[test]
    fn instructions_made_for_their_tiles_keep_them() -> Result<(), Error> {
        let mut code = ProgramBuilder::new();
        let [i, j, k] = [0; 3].map(|_| code.dim());
        let a = code.operand(IeeeFp32, Access::Read, [i, k]);
        let b = code.operand(IeeeFp32, Access::Read, [k, j]);
        let c = code.operand(IeeeFp32, Access::Write, [i, j]);
        code.each_parallel(i, 4, |code| {
            code.each_parallel(j, 64, |code| {
                let sum = code.constant(Lane::F32, [i, j], 0.0);
                code.each(k, 64, |code| code.dot(sum, a, b, k));
                code.store(c, sum);
            });
        });
        assert_eq!(steps(&code.build()?, &[100, 8, 8]), [4, 8, 8]);
        Ok(())
    }
}
