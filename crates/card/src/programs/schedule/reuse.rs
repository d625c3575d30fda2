//! Values that loops compute and that loops before them have computed.
//!
//! A softmax goes over its rows three times, and takes the same exponentials in two of them. Loops that
//! follow each other in one body, over the same dims in the same tiles, meet the same elements in the
//! same order: what one of them has made is kept, and the next ones recall it instead of loading and
//! computing it again. Whether there is room for that is known when they run.

use std::ops::Range;

use spyre_artifact::{
    Dim, Instruction, Operand, Program, Register, RegisterType, Span, Tile, Touch,
};

/// More values than this are not kept.
const MOST_VALUES: usize = 8;
/// Longer programs are run as they are: each instruction is compared with all before it.
const MOST_INSTRUCTIONS: usize = 1024;

/// Loops over tiles, one in another with nothing between them, that keep or recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::programs) struct LoopNest {
    /// Place where the outermost one begins.
    begin: usize,
    body: Range<usize>,
    pub(in crate::programs) loops: Vec<(Dim, Tile)>,
    /// The loop around it, or all of the program.
    parent: Option<usize>,
    /// Registers that hold something before it begins.
    written: u64,
    pub(in crate::programs) keeps: Vec<u8>,
    /// Those of them that stay in their registers until a tile ends, and are taken from there.
    pub(in crate::programs) taken: Vec<(u8, Register)>,
    pub(in crate::programs) recalls: Vec<u8>,
}

impl LoopNest {
    /// The loop nest that begins at a place, if one does.
    fn at(instructions: &[Instruction], begin: usize) -> Option<Self> {
        let loops = instructions[begin..].iter().map_while(|instruction| match *instruction {
            Instruction::Begin { dim, tile, .. } => Some((dim, tile)),
            _ => None,
        });
        let loops: Vec<_> = loops.collect();
        let start = begin + loops.len();
        let length = instructions[start..].iter().position(Instruction::is_border)?;
        let body = start..start + length;
        let ends = instructions.get(body.end..body.end + loops.len())?;
        let is_whole = !loops.is_empty() && ends.iter().all(|end| *end == Instruction::End);
        is_whole.then_some(Self {
            begin,
            body,
            loops,
            parent: None,
            written: 0,
            keeps: Vec::new(),
            taken: Vec::new(),
            recalls: Vec::new(),
        })
    }

    /// Place where the innermost loop ends.
    pub(in crate::programs) fn tile_end(&self) -> usize {
        self.body.end
    }

    /// Place where the outermost loop ends.
    pub(in crate::programs) fn end(&self) -> usize {
        self.body.end + self.loops.len() - 1
    }

    fn dims(&self) -> Span {
        self.loops.iter().fold(Span::NONE, |span, (dim, _)| span.with(*dim))
    }

    /// Returns true if a register that an instruction has written is written again, or read by instructions
    /// after the tile.
    fn needs_after(&self, program: &Program, at: usize, register: Register) -> bool {
        let bit = 1 << register.index();
        let body = &program.instructions()[self.body.clone()];
        let later = &program.instructions()[at + 1..self.body.end];
        let is_written = later.iter().any(|&instruction| touched(instruction).1 & bit != 0);
        is_written || (self.written | exposed(body)) & bit != 0
    }

    fn meets_the_same(&self, other: &Self) -> bool {
        self.parent == other.parent && self.loops == other.loops
    }
}

/// Role of an instruction in the reuse of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct ReuseMark {
    /// Value that its result is kept as; true if as a copy.
    pub(in crate::programs) keep: Option<(u8, bool)>,
    /// Value that its result is; true if no instruction recalls it later.
    pub(in crate::programs) recall: Option<(u8, bool)>,
    /// Register of its result, if that is kept or recalled.
    pub(in crate::programs) target: Option<Register>,
    /// True if only recalled results would need its result.
    pub(in crate::programs) is_idle: bool,
    /// Loop nest that begins with it, for a `Begin`.
    loop_nest: Option<u8>,
}

/// All loop nests of a program that keep or recall something.
#[derive(Clone, Debug, Default)]
pub(in crate::programs) struct ReuseAnalysis {
    loop_nests: Vec<LoopNest>,
    /// Roles by instruction; empty if nothing is kept.
    marks: Vec<ReuseMark>,
    /// Types of the registers whose values are kept.
    pub(in crate::programs) values: Vec<RegisterType>,
}

impl ReuseAnalysis {
    pub(in crate::programs) fn of(program: &Program) -> Self {
        let instructions = program.instructions();
        if instructions.len() > MOST_INSTRUCTIONS {
            return Self::default();
        }
        let loop_nests = loop_nests(instructions);
        if loop_nests.is_empty() {
            return Self::default();
        }
        let same = Numbering::new(program, &loop_nests).same();
        let mut reuse = Self { loop_nests, marks: Vec::new(), values: Vec::new() };
        let mut marks = vec![ReuseMark::default(); instructions.len()];
        for nth in 0..reuse.loop_nests.len() {
            reuse.mark(program, nth, &same, &mut marks);
        }
        if !reuse.values.is_empty() {
            reuse.mark_last(&mut marks);
            reuse.marks = marks;
        }
        reuse
    }

    /// Role of the instruction at a place in the reuse of values.
    #[inline]
    pub(in crate::programs) fn mark_of(&self, at: usize) -> ReuseMark {
        self.marks.get(at).copied().unwrap_or_default()
    }

    /// The loop nest that begins at a place, by its number.
    #[inline]
    pub(in crate::programs) fn loop_nest_at(&self, begin: usize) -> Option<(u8, &LoopNest)> {
        let nth = self.marks.get(begin)?.loop_nest?;
        Some((nth, self.loop_nest(nth)))
    }

    pub(in crate::programs) fn loop_nest(&self, nth: u8) -> &LoopNest {
        &self.loop_nests[usize::from(nth)]
    }

    /// Marks a loop nest from its last instruction to its first. A result that is wanted, and known from
    /// before, is recalled; a result that no instruction wants then is idle.
    fn mark(
        &mut self,
        program: &Program,
        nth: usize,
        same: &[Option<usize>],
        marks: &mut [ReuseMark],
    ) {
        let LoopNest { begin, body, written, .. } = self.loop_nests[nth].clone();
        let dims = self.loop_nests[nth].dims();
        let instructions = program.instructions();
        let mut wanted = written | exposed(&instructions[body.clone()]);
        for at in body.rev() {
            let (reads, writes) = touched(instructions[at]);
            let is_kept = marks[at].keep.is_some();
            if is_pure(program, &instructions[at]) && writes & wanted == 0 && !is_kept {
                marks[at].is_idle = true;
                continue;
            }
            wanted &= !writes;
            match same[at].and_then(|known| self.value(program, known, dims, marks)) {
                Some(value) => {
                    marks[at].recall = Some((value, false));
                    marks[at].target = made(&instructions[at]);
                    self.loop_nests[nth].recalls.push(value);
                    marks[begin].loop_nest = Some(nth as u8);
                }
                None => wanted |= reads,
            }
        }
        // Without a value to recall, all is done as it was written.
        if self.loop_nests[nth].recalls.is_empty() {
            let body = self.loop_nests[nth].body.clone();
            marks[body].iter_mut().for_each(|mark| mark.is_idle = false);
        }
    }

    /// The value that an instruction's result is kept as, if that is worth it.
    fn value(
        &mut self,
        program: &Program,
        known: usize,
        dims: Span,
        marks: &mut [ReuseMark],
    ) -> Option<u8> {
        if let Some((value, _)) = marks[known].keep {
            return Some(value);
        }
        if marks[known].is_idle {
            return None;
        }
        let target = made(&program.instructions()[known])?;
        let of = program.register(target);
        let nth = self.loop_nests.iter().position(|loop_nest| loop_nest.body.contains(&known))?;
        if self.values.len() == MOST_VALUES || !dims.is_inside(of.span) {
            return None;
        }
        let value = self.values.len() as u8;
        self.values.push(of);
        let keeper = &mut self.loop_nests[nth];
        keeper.keeps.push(value);
        let is_taken = !keeper.needs_after(program, known, target);
        keeper.taken.extend(is_taken.then_some((value, target)));
        (marks[known].keep, marks[known].target) = (Some((value, !is_taken)), Some(target));
        marks[keeper.begin].loop_nest = Some(nth as u8);
        Some(value)
    }

    fn mark_last(&self, marks: &mut [ReuseMark]) {
        let mut seen = 0_u32;
        for mark in marks.iter_mut().rev() {
            if let Some((value, is_last)) = &mut mark.recall {
                *is_last = seen >> *value & 1 == 0;
                seen |= 1 << *value;
            }
        }
    }
}

/// The loop nests of a program that another one meets the same elements as.
fn loop_nests(instructions: &[Instruction]) -> Vec<LoopNest> {
    let mut found: Vec<LoopNest> = Vec::new();
    let mut open = Vec::new();
    let mut written = 0;
    let mut skipped = 0;
    let mut at = 0;
    while at < instructions.len() {
        let loop_nest = LoopNest::at(instructions, at).filter(|_| at >= skipped);
        match instructions[at] {
            _ if loop_nest.is_some() => {
                let parent = open.last().map(|&(begin, _)| begin);
                found.extend(loop_nest.map(|loop_nest| LoopNest { parent, written, ..loop_nest }));
                at = found.last().map_or(at, LoopNest::end);
            }
            Instruction::Begin { .. } => open.push((at, written)),
            Instruction::End => written = open.pop().map_or(0, |(_, written)| written),
            Instruction::SkipUnless { instructions, .. }
            | Instruction::SkipUnlessAny { instructions, .. } => {
                skipped = skipped.max(at + 1 + instructions as usize);
            }
            instruction => written |= touched(instruction).1,
        }
        at += 1;
    }
    let is_met = |loop_nest: &LoopNest| {
        found.iter().filter(|other| loop_nest.meets_the_same(other)).count() > 1
    };
    let met: Vec<LoopNest> = found.iter().filter(|loop_nest| is_met(loop_nest)).cloned().collect();
    if met.len() > usize::from(u8::MAX) { Vec::new() } else { met }
}

/// Numbers for what registers hold: equal ones hold equal elements, in the same tile.
struct Numbering<'a> {
    program: &'a Program,
    loop_nests: &'a [LoopNest],
    held: Vec<usize>,
    next: usize,
    known: Vec<NumberedValue>,
}

/// Result of an instruction of a loop nest.
struct NumberedValue {
    at: usize,
    loop_nest: usize,
    /// The instruction, but for its registers.
    bare: Instruction,
    of: RegisterType,
    sources: Vec<usize>,
    number: usize,
}

impl<'a> Numbering<'a> {
    fn new(program: &'a Program, loop_nests: &'a [LoopNest]) -> Self {
        let registers = program.registers().len();
        let held = (0..registers).collect();
        Self { program, loop_nests, held, next: registers, known: Vec::new() }
    }

    /// Instruction of an earlier loop nest that has the same result, by instruction.
    fn same(mut self) -> Vec<Option<usize>> {
        let instructions = self.program.instructions();
        let mut open = Vec::new();
        let step = |(at, &instruction): (usize, &Instruction)| {
            match instruction {
                Instruction::Begin { .. } => {
                    let written = written_in(&instructions[at + 1..]);
                    open.push(written);
                    self.renumber(written);
                }
                Instruction::End => self.renumber(open.pop().unwrap_or(0)),
                _ => {
                    let loop_nest =
                        self.loop_nests.iter().position(|loop_nest| loop_nest.body.contains(&at));
                    match loop_nest.filter(|_| is_pure(self.program, &instruction)) {
                        Some(loop_nest) => return self.number(at, loop_nest, instruction),
                        None => self.renumber(touched(instruction).1),
                    }
                }
            }
            None
        };
        instructions.iter().enumerate().map(step).collect()
    }

    /// Numbers what an instruction makes; the place of an earlier one that made the same.
    fn number(&mut self, at: usize, loop_nest: usize, instruction: Instruction) -> Option<usize> {
        let target = made(&instruction)?;
        let mut bare = instruction;
        let mut sources = Vec::new();
        bare.touch_registers(|touch, register| {
            if touch == Touch::Read {
                sources.push(self.held[register.index()]);
            }
            *register = Register(0);
        });
        let of = self.program.register(target);
        let is_same = |known: &&NumberedValue| {
            let other = &self.loop_nests[known.loop_nest];
            let is_here = known.loop_nest == loop_nest;
            let is_met = self.loop_nests[loop_nest].meets_the_same(other);
            (known.bare, known.of) == (bare, of) && known.sources == sources && (is_here || is_met)
        };
        if let Some(known) = self.known.iter().find(is_same) {
            self.held[target.index()] = known.number;
            return (known.loop_nest != loop_nest).then_some(known.at);
        }
        let number = self.next;
        self.renumber(1 << target.index());
        self.known.push(NumberedValue { at, loop_nest, bare, of, sources, number });
        None
    }

    /// Gives these registers new numbers: they hold values like none before.
    fn renumber(&mut self, registers: u64) {
        for (at, held) in self.held.iter_mut().enumerate() {
            if registers >> at & 1 == 1 {
                *held = self.next;
                self.next += 1;
            }
        }
    }
}

/// Registers that are written before the loop ends whose body this is.
fn written_in(body: &[Instruction]) -> u64 {
    let mut depth = 1;
    let mut written = 0;
    for &instruction in body {
        match instruction {
            Instruction::Begin { .. } => depth += 1,
            Instruction::End => depth -= 1,
            _ => written |= touched(instruction).1,
        }
        if depth == 0 {
            break;
        }
    }
    written
}

/// Registers that a body reads before it has written them.
pub(in crate::programs) fn exposed(body: &[Instruction]) -> u64 {
    let mut exposed = 0;
    let mut written = 0;
    for &instruction in body {
        let (reads, writes) = touched(instruction);
        exposed |= reads & !written;
        written |= writes;
    }
    exposed
}

/// The registers that an instruction reads and those that it writes, a bit for each.
pub(in crate::programs) fn touched(mut instruction: Instruction) -> (u64, u64) {
    let mut reads = 0;
    let mut writes = 0;
    instruction.touch_registers(|touch, register| {
        let bit = 1 << register.index();
        reads |= if touch == Touch::Write { 0 } else { bit };
        writes |= if touch == Touch::Read { 0 } else { bit };
    });
    (reads, writes)
}

/// Returns true if all that an instruction does is to compute its result from its inputs.
fn is_pure(program: &Program, instruction: &Instruction) -> bool {
    let is_only_read = |operand: Operand| !program.operand(operand).access.writes();
    match *instruction {
        Instruction::Load { source, .. } => is_only_read(source),
        Instruction::Constant { .. }
        | Instruction::Scalar { .. }
        | Instruction::Index { .. }
        | Instruction::Extent { .. } => true,
        _ => instruction.may_work_in_place(),
    }
}

/// The register of what an instruction makes that is pure.
fn made(instruction: &Instruction) -> Option<Register> {
    let mut instruction = *instruction;
    let mut target = None;
    instruction.touch_registers(|touch, register| {
        if touch == Touch::Write {
            target = Some(*register);
        }
    });
    target
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, BinaryOp, Lane, ProgramBuilder, ReduceOp, UnaryOp};
    use spyre_numerics::DataFormat::IeeeFp32;

    use super::*;

    /// Exponentials below each row's largest number, over their sum.
    fn softmax(tile: u32, x_is: Access) -> Program {
        let mut code = ProgramBuilder::new();
        let i = code.dim();
        let j = code.dim();
        let x = code.operand(IeeeFp32, x_is, [i, j]);
        let y = code.operand(IeeeFp32, Access::Write, [i, j]);
        code.each_parallel(i, 16, |code| {
            let most = code.constant(Lane::F32, [i], f64::NEG_INFINITY);
            let sum = code.constant(Lane::F32, [i], 0.0);
            code.each(j, 256, |code| {
                let tile = code.load(x);
                code.reduce(ReduceOp::Max, most, tile);
            });
            let power = |code: &mut ProgramBuilder| {
                let tile = code.load(x);
                let below = code.binary(BinaryOp::Sub, tile, most);
                code.unary(UnaryOp::Exp, below)
            };
            code.each(j, 256, |code| {
                let power = power(code);
                code.reduce(ReduceOp::Sum, sum, power);
            });
            code.each(j, tile, |code| {
                let power = power(code);
                let share = code.binary(BinaryOp::Div, power, sum);
                code.store(y, share);
            });
        });
        code.build().expect("it follows the rules")
    }

    fn marks_of(program: &Program, wanted: impl Fn(&ReuseMark) -> bool) -> Vec<String> {
        let reuse = ReuseAnalysis::of(program);
        let instructions = program.instructions().iter().enumerate();
        let chosen = instructions.filter(|(at, _)| wanted(&reuse.mark_of(*at)));
        chosen.map(|(_, instruction)| instruction.to_string()).collect()
    }

    #[test]
    fn a_softmax_loads_its_rows_once_and_takes_each_exponential_once() {
        let program = softmax(256, Access::Read);

        let kept = marks_of(&program, |mark| mark.keep.is_some());
        let recalled = marks_of(&program, |mark| mark.recall.is_some());
        let idle = marks_of(&program, |mark| mark.is_idle);

        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept[0].contains("load") && kept[1].contains("exp"), "{kept:?}");
        assert!(recalled[0].contains("load") && recalled[1].contains("exp"), "{recalled:?}");
        assert!(idle[0].contains("load") && idle[1].contains("sub"), "{idle:?}");
        assert_eq!((recalled.len(), idle.len()), (2, 2));
    }

    #[test]
    fn other_tiles_are_not_the_same() {
        let program = softmax(128, Access::Read);
        let recalled = marks_of(&program, |mark| mark.recall.is_some());
        assert_eq!(recalled.len(), 1, "the first two loops only: {recalled:?}");
        assert!(recalled[0].contains("load"));
    }

    #[test]
    fn what_is_stored_to_is_loaded_again() {
        let program = softmax(256, Access::Both);
        assert_eq!(marks_of(&program, |mark| mark.recall.is_some()), [""; 0]);
    }

    #[test]
    fn what_a_loop_changes_is_made_again() {
        let mut code = ProgramBuilder::new();
        let j = code.dim();
        let x = code.operand(IeeeFp32, Access::Read, [j]);
        let y = code.operand(IeeeFp32, Access::Write, [j]);
        let sum = code.constant(Lane::F32, [], 0.0);
        code.each(j, 256, |code| {
            let tile = code.load(x);
            let above = code.binary(BinaryOp::Add, tile, sum);
            code.reduce(ReduceOp::Sum, sum, above);
        });
        code.each(j, 256, |code| {
            let tile = code.load(x);
            let above = code.binary(BinaryOp::Add, tile, sum);
            code.store(y, above);
        });
        let program = code.build().expect("it follows the rules");

        let recalled = marks_of(&program, |mark| mark.recall.is_some());

        assert_eq!(recalled.len(), 1, "{recalled:?}");
        assert!(recalled[0].contains("load"), "the sum is another one in each tile: {recalled:?}");
    }
}
