//! What loops compute that loops before them have computed.
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
pub(super) struct Sweep {
    /// Where the outermost one begins.
    begin: usize,
    body: Range<usize>,
    pub(super) loops: Vec<(Dim, Tile)>,
    /// The loop around it, or all of the program.
    parent: Option<usize>,
    /// Registers that hold something before it begins.
    written: u64,
    pub(super) keeps: Vec<u8>,
    /// Those of them that stay in their registers until a tile ends, and are taken from there.
    pub(super) taken: Vec<(u8, Register)>,
    pub(super) recalls: Vec<u8>,
}

impl Sweep {
    /// The sweep that begins at a place, if one does.
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

    /// Where the innermost loop ends.
    pub(super) fn tile_end(&self) -> usize {
        self.body.end
    }

    /// Where the outermost loop ends.
    pub(super) fn end(&self) -> usize {
        self.body.end + self.loops.len() - 1
    }

    fn dims(&self) -> Span {
        self.loops.iter().fold(Span::NONE, |span, (dim, _)| span.with(*dim))
    }

    /// Whether a register that an instruction has written is written again, or read by what comes
    /// after the tile.
    fn needs_after(&self, program: &Program, at: usize, register: Register) -> bool {
        let (bit, body) = (1 << register.index(), &program.instructions()[self.body.clone()]);
        let later = &program.instructions()[at + 1..self.body.end];
        let is_written = later.iter().any(|&instruction| touched(instruction).1 & bit != 0);
        is_written || (self.written | exposed(body)) & bit != 0
    }

    fn meets_the_same(&self, other: &Self) -> bool {
        self.parent == other.parent && self.loops == other.loops
    }
}

/// What an instruction has to do with values that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// What it makes is kept as this value, and whether as a copy.
    pub(super) keep: Option<(u8, bool)>,
    /// What it makes is this value, and whether nobody recalls it later.
    pub(super) recall: Option<(u8, bool)>,
    /// Where it is made, if it is kept or recalled.
    pub(super) target: Option<Register>,
    /// Only what is recalled would need what it makes.
    pub(super) is_idle: bool,
    /// Of a `Begin`, the sweep that begins with it.
    sweep: Option<u8>,
}

/// All sweeps of a program that keep or recall something.
#[derive(Clone, Debug, Default)]
pub(super) struct Recalls {
    sweeps: Vec<Sweep>,
    /// By instruction; none if nothing is kept.
    parts: Vec<Part>,
    /// What the registers are that values are kept of.
    pub(super) values: Vec<RegisterType>,
}

impl Recalls {
    pub(super) fn of(program: &Program) -> Self {
        let instructions = program.instructions();
        if instructions.len() > MOST_INSTRUCTIONS {
            return Self::default();
        }
        let sweeps = sweeps(instructions);
        if sweeps.is_empty() {
            return Self::default();
        }
        let same = Numbering::new(program, &sweeps).same();
        let mut recalls = Self { sweeps, parts: Vec::new(), values: Vec::new() };
        let mut parts = vec![Part::default(); instructions.len()];
        for nth in 0..recalls.sweeps.len() {
            recalls.mark(program, nth, &same, &mut parts);
        }
        if !recalls.values.is_empty() {
            recalls.mark_last(&mut parts);
            recalls.parts = parts;
        }
        recalls
    }

    /// What the instruction at a place has to do with values that are kept.
    #[inline]
    pub(super) fn part(&self, at: usize) -> Part {
        self.parts.get(at).copied().unwrap_or_default()
    }

    /// The sweep that begins at a place, by its number.
    #[inline]
    pub(super) fn sweep_at(&self, begin: usize) -> Option<(u8, &Sweep)> {
        let nth = self.parts.get(begin)?.sweep?;
        Some((nth, self.sweep(nth)))
    }

    pub(super) fn sweep(&self, nth: u8) -> &Sweep {
        &self.sweeps[usize::from(nth)]
    }

    /// From the last instruction of a sweep to its first: what is wanted, and known from before, is
    /// recalled; what nobody wants then is idle.
    fn mark(&mut self, program: &Program, nth: usize, same: &[Option<usize>], parts: &mut [Part]) {
        let Sweep { begin, body, written, .. } = self.sweeps[nth].clone();
        let dims = self.sweeps[nth].dims();
        let instructions = program.instructions();
        let mut wanted = written | exposed(&instructions[body.clone()]);
        for at in body.rev() {
            let (reads, writes) = touched(instructions[at]);
            let is_kept = parts[at].keep.is_some();
            if is_pure(program, &instructions[at]) && writes & wanted == 0 && !is_kept {
                parts[at].is_idle = true;
                continue;
            }
            wanted &= !writes;
            match same[at].and_then(|known| self.value(program, known, dims, parts)) {
                Some(value) => {
                    parts[at].recall = Some((value, false));
                    parts[at].target = made(&instructions[at]);
                    self.sweeps[nth].recalls.push(value);
                    parts[begin].sweep = Some(nth as u8);
                }
                None => wanted |= reads,
            }
        }
        // Without a value to recall, all is done as it was written.
        if self.sweeps[nth].recalls.is_empty() {
            let body = self.sweeps[nth].body.clone();
            parts[body].iter_mut().for_each(|part| part.is_idle = false);
        }
    }

    /// The value that an instruction's result is kept as, if that is worth it.
    fn value(
        &mut self,
        program: &Program,
        known: usize,
        dims: Span,
        parts: &mut [Part],
    ) -> Option<u8> {
        if let Some((value, _)) = parts[known].keep {
            return Some(value);
        }
        if parts[known].is_idle {
            return None;
        }
        let target = made(&program.instructions()[known])?;
        let of = program.register(target);
        let nth = self.sweeps.iter().position(|sweep| sweep.body.contains(&known))?;
        if self.values.len() == MOST_VALUES || !dims.is_inside(of.span) {
            return None;
        }
        let value = self.values.len() as u8;
        self.values.push(of);
        let keeper = &mut self.sweeps[nth];
        keeper.keeps.push(value);
        let is_taken = !keeper.needs_after(program, known, target);
        keeper.taken.extend(is_taken.then_some((value, target)));
        (parts[known].keep, parts[known].target) = (Some((value, !is_taken)), Some(target));
        parts[keeper.begin].sweep = Some(nth as u8);
        Some(value)
    }

    fn mark_last(&self, parts: &mut [Part]) {
        let mut seen = 0_u32;
        for part in parts.iter_mut().rev() {
            if let Some((value, is_last)) = &mut part.recall {
                *is_last = seen >> *value & 1 == 0;
                seen |= 1 << *value;
            }
        }
    }
}

/// The sweeps of a program that another one meets the same elements as.
fn sweeps(instructions: &[Instruction]) -> Vec<Sweep> {
    let mut found: Vec<Sweep> = Vec::new();
    let (mut open, mut written, mut skipped) = (Vec::new(), 0, 0);
    let mut at = 0;
    while at < instructions.len() {
        let sweep = Sweep::at(instructions, at).filter(|_| at >= skipped);
        match instructions[at] {
            _ if sweep.is_some() => {
                let parent = open.last().map(|&(begin, _)| begin);
                found.extend(sweep.map(|sweep| Sweep { parent, written, ..sweep }));
                at = found.last().map_or(at, Sweep::end);
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
    let is_met =
        |sweep: &Sweep| found.iter().filter(|other| sweep.meets_the_same(other)).count() > 1;
    let met: Vec<Sweep> = found.iter().filter(|sweep| is_met(sweep)).cloned().collect();
    if met.len() > usize::from(u8::MAX) { Vec::new() } else { met }
}

/// Numbers for what registers hold: equal ones hold equal elements, in the same tile.
struct Numbering<'a> {
    program: &'a Program,
    sweeps: &'a [Sweep],
    held: Vec<usize>,
    next: usize,
    known: Vec<Known>,
}

/// What an instruction of a sweep makes.
struct Known {
    at: usize,
    sweep: usize,
    /// The instruction, but for its registers.
    bare: Instruction,
    of: RegisterType,
    sources: Vec<usize>,
    number: usize,
}

impl<'a> Numbering<'a> {
    fn new(program: &'a Program, sweeps: &'a [Sweep]) -> Self {
        let registers = program.registers().len();
        let held = (0..registers).collect();
        Self { program, sweeps, held, next: registers, known: Vec::new() }
    }

    /// By instruction, the one of an earlier sweep that makes the same.
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
                    let sweep = self.sweeps.iter().position(|sweep| sweep.body.contains(&at));
                    match sweep.filter(|_| is_pure(self.program, &instruction)) {
                        Some(sweep) => return self.number(at, sweep, instruction),
                        None => self.renumber(touched(instruction).1),
                    }
                }
            }
            None
        };
        instructions.iter().enumerate().map(step).collect()
    }

    /// Numbers what an instruction makes; the place of an earlier one that made the same.
    fn number(&mut self, at: usize, sweep: usize, instruction: Instruction) -> Option<usize> {
        let target = made(&instruction)?;
        let (mut bare, mut sources) = (instruction, Vec::new());
        bare.touch_registers(|touch, register| {
            if touch == Touch::Read {
                sources.push(self.held[register.index()]);
            }
            *register = Register(0);
        });
        let of = self.program.register(target);
        let is_same = |known: &&Known| {
            let other = &self.sweeps[known.sweep];
            let (is_here, is_met) =
                (known.sweep == sweep, self.sweeps[sweep].meets_the_same(other));
            (known.bare, known.of) == (bare, of) && known.sources == sources && (is_here || is_met)
        };
        if let Some(known) = self.known.iter().find(is_same) {
            self.held[target.index()] = known.number;
            return (known.sweep != sweep).then_some(known.at);
        }
        let number = self.next;
        self.renumber(1 << target.index());
        self.known.push(Known { at, sweep, bare, of, sources, number });
        None
    }

    /// What these registers hold is like nothing before.
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
    let (mut depth, mut written) = (1, 0);
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
pub(super) fn exposed(body: &[Instruction]) -> u64 {
    let (mut exposed, mut written) = (0, 0);
    for &instruction in body {
        let (reads, writes) = touched(instruction);
        exposed |= reads & !written;
        written |= writes;
    }
    exposed
}

/// The registers that an instruction reads and those that it writes, a bit for each.
pub(super) fn touched(mut instruction: Instruction) -> (u64, u64) {
    let (mut reads, mut writes) = (0, 0);
    instruction.touch_registers(|touch, register| {
        let bit = 1 << register.index();
        reads |= if touch == Touch::Write { 0 } else { bit };
        writes |= if touch == Touch::Read { 0 } else { bit };
    });
    (reads, writes)
}

/// Whether all that an instruction does is to make the same of the same.
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
    let (mut instruction, mut target) = (*instruction, None);
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
        let (i, j) = (code.dim(), code.dim());
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

    fn parts_of(program: &Program, wanted: impl Fn(&Part) -> bool) -> Vec<String> {
        let recalls = Recalls::of(program);
        let instructions = program.instructions().iter().enumerate();
        let chosen = instructions.filter(|(at, _)| wanted(&recalls.part(*at)));
        chosen.map(|(_, instruction)| instruction.to_string()).collect()
    }

    #[test]
    fn a_softmax_loads_its_rows_once_and_takes_each_exponential_once() {
        let program = softmax(256, Access::Read);

        let kept = parts_of(&program, |part| part.keep.is_some());
        let recalled = parts_of(&program, |part| part.recall.is_some());
        let idle = parts_of(&program, |part| part.is_idle);

        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept[0].contains("load") && kept[1].contains("exp"), "{kept:?}");
        assert!(recalled[0].contains("load") && recalled[1].contains("exp"), "{recalled:?}");
        assert!(idle[0].contains("load") && idle[1].contains("sub"), "{idle:?}");
        assert_eq!((recalled.len(), idle.len()), (2, 2));
    }

    #[test]
    fn other_tiles_are_not_the_same() {
        let program = softmax(128, Access::Read);
        let recalled = parts_of(&program, |part| part.recall.is_some());
        assert_eq!(recalled.len(), 1, "the first two loops only: {recalled:?}");
        assert!(recalled[0].contains("load"));
    }

    #[test]
    fn what_is_stored_to_is_loaded_again() {
        let program = softmax(256, Access::Both);
        assert_eq!(parts_of(&program, |part| part.recall.is_some()), [""; 0]);
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

        let recalled = parts_of(&program, |part| part.recall.is_some());

        assert_eq!(recalled.len(), 1, "{recalled:?}");
        assert!(recalled[0].contains("load"), "the sum is another one in each tile: {recalled:?}");
    }
}
