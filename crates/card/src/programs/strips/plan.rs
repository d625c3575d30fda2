//! Straight-line blocks as parts: instructions on whole tiles, and segments that are run strip by strip.

use std::ops::Range;

use smallvec::SmallVec;
use spyre_artifact::{
    BinaryOp, CompareOp, Instruction, Lane, Operand, Program, ReduceOp, Register, Span, UnaryOp,
};

use crate::programs::schedule::reuse::{ReuseAnalysis, exposed, touched};
use crate::programs::strips::segment::SegmentBuilder;

/// Blocks with more instructions are run instruction by instruction: each is compared with those behind it.
const MOST_INSTRUCTIONS: usize = 512;

/// Straight-line block of a program, for tiles that are large enough for strips.
#[derive(Debug)]
pub(in crate::programs) struct BlockPlan {
    pub(in crate::programs) range: Range<usize>,
    /// Dims of the registers that are worked on strip by strip.
    pub(in crate::programs) wide: Span,
    /// Spans of the registers that repeat along dims of the wide ones, or are reduced to.
    pub(in crate::programs) narrow: Vec<Span>,
    /// Parts by [`ReuseState::index`]; a block outside of loop nests that reuse values has one only.
    parts: Vec<Vec<BlockPart>>,
    is_streaming: bool,
}

/// State of the loop nest around a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct ReuseState {
    pub(in crate::programs) keeps: bool,
    pub(in crate::programs) recalls: bool,
}

/// BlockPart of a block.
#[derive(Debug)]
pub(in crate::programs) enum BlockPart {
    /// Instruction on whole tiles, by its place.
    Step(usize),
    /// Instruction whose result is recalled into its register.
    Recall(usize),
    Segment(StripSegment),
}

/// Instructions that are carried out on one strip before they are on the next.
#[derive(Debug, Default)]
pub(in crate::programs) struct StripSegment {
    pub(in crate::programs) sources: Vec<DeviceTile>,
    pub(in crate::programs) targets: Vec<DeviceTile>,
    /// Operands whose tiles are recalled.
    pub(in crate::programs) recalled: Vec<Operand>,
    pub(in crate::programs) ops: Vec<StripOp>,
    /// Homes of all operands, each once.
    pub(in crate::programs) places: Vec<Place>,
    /// Number of strips that are kept in between.
    pub(in crate::programs) scratch: usize,
    /// True if all that lies outside of strips are registers.
    pub(in crate::programs) is_in_tiles: bool,
}

/// Tile of an operand in device memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct DeviceTile {
    /// Place of the load or store.
    pub(in crate::programs) at: usize,
    pub(in crate::programs) operand: Operand,
}

/// Operation on strips; its operands are named by the index of their places.
#[derive(Debug)]
pub(in crate::programs) struct StripOp {
    pub(in crate::programs) kind: OpKind,
    pub(in crate::programs) target: usize,
    pub(in crate::programs) sources: SmallVec<[usize; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum OpKind {
    Copy,
    CopyBools,
    /// Conversion of a source's elements by the converter of an instruction, if it is not a copy.
    Load(usize),
    /// Conversion to a target's elements.
    Store(usize),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    /// Operations on truth values.
    Not,
    Logic(BinaryOp),
    Select,
    /// Rounding to a format and back, by the converters of an instruction.
    Round(usize),
    /// Reduction into a register that repeats along some dims.
    Reduce(ReduceOp),
}

/// Home of a value of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Place {
    /// LineStrip of its own, which the next strip's value replaces.
    Scratch(usize),
    /// Strip of truth values.
    BoolScratch(usize),
    /// Register that spans the wide dims.
    Tile(Register),
    /// Register that repeats along some of them.
    Narrow(Register),
    /// Register that a reduction adds to. Each reduction has its own.
    Reduced(ReduceOp, Register),
    /// Tile that loop nests keep.
    Kept(u8),
    /// Device memory.
    Source(usize),
    Target(usize),
}

/// InstructionRole of an instruction in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionRole {
    /// Its result is not needed.
    Idle,
    /// Its result is there as a value.
    Recalled(u8),
    Strip(OpKind),
    Step,
}

impl BlockPlan {
    /// Plans of all blocks of a program that have something to do strip by strip. Some instructions have nothing to do.
    pub(in crate::programs) fn all(
        program: &Program,
        reuse: &ReuseAnalysis,
        is_idle: &dyn Fn(usize) -> bool,
    ) -> Vec<Self> {
        let instructions = program.instructions();
        let blocks = Instruction::blocks(instructions);
        let lost = lost_at_ends(instructions, &blocks);
        let blocks = blocks.into_iter().filter(|block| block.len() <= MOST_INSTRUCTIONS);
        blocks.filter_map(|block| Planner { program, reuse, is_idle, block, lost }.plan()).collect()
    }

    /// Parts for a state of the loop nest around the block.
    pub(in crate::programs) fn parts(&self, state: ReuseState) -> &[BlockPart] {
        let index = if self.parts.len() == 1 { 0 } else { state.index() };
        &self.parts[index]
    }

    /// Returns true if no register is as long as a tile: tiles may be of any length.
    pub(in crate::programs) fn is_streaming(&self) -> bool {
        self.is_streaming
    }
}

impl StripSegment {
    /// Shares of the operations in what the cache is to fetch: memory is busy all the time, if those that take
    /// longest see to it.
    pub(in crate::programs) fn shares_of(&self, fetched: usize) -> SmallVec<[Range<usize>; 12]> {
        let function = self.ops.iter().position(|op| matches!(op.kind, OpKind::Unary(_)));
        let mut taken = 0;
        let share = |nth: usize| {
            let first = taken;
            taken = match function {
                Some(function) if nth < function => 0,
                Some(_) => fetched,
                None => (fetched * (nth + 1)).div_ceil(self.ops.len()),
            };
            first..taken
        };
        (0..self.ops.len()).map(share).collect()
    }
}

impl ReuseState {
    const ALL: [Self; 4] = [
        Self { keeps: false, recalls: false },
        Self { keeps: true, recalls: false },
        Self { keeps: false, recalls: true },
        Self { keeps: true, recalls: true },
    ];

    fn index(self) -> usize {
        usize::from(self.keeps) + 2 * usize::from(self.recalls)
    }
}

/// Makes the plan of one block.
struct Planner<'a> {
    program: &'a Program,
    reuse: &'a ReuseAnalysis,
    is_idle: &'a dyn Fn(usize) -> bool,
    block: Range<usize>,
    /// Registers whose values no instruction reads after a block.
    lost: u64,
}

impl Planner<'_> {
    fn plan(&self) -> Option<BlockPlan> {
        let wide = self.wide_span()?;
        let marks = self.block.clone().map(|at| self.reuse.mark_of(at));
        let is_reusing =
            marks.clone().any(|mark| mark.keep.is_some() || mark.recall.is_some() || mark.is_idle);
        let states = if is_reusing { &ReuseState::ALL[..] } else { &ReuseState::ALL[..1] };
        let parts: Vec<_> = states.iter().map(|&state| self.parts(wide, state)).collect();
        let narrow = self.narrow_spans(wide);
        let is_streaming = parts.iter().flatten().all(|part| !self.fills_registers(wide, part));
        Some(BlockPlan { range: self.block.clone(), wide, narrow, parts, is_streaming })
    }

    /// Span of the most dims that instructions can work on strip by strip: of several, that of the most instructions.
    fn wide_span(&self) -> Option<Span> {
        let mut counts: SmallVec<[(Span, usize); 8]> = SmallVec::new();
        let busy = self.block.clone().filter(|&at| !(self.is_idle)(at));
        for span in busy.filter_map(|at| self.strip_span(at)) {
            match counts.iter_mut().find(|(known, _)| *known == span) {
                Some((_, count)) => *count += 1,
                None => counts.push((span, 1)),
            }
        }
        let widest = counts.into_iter().max_by_key(|&(span, count)| (span.dims().count(), count));
        widest.map(|(span, _)| span)
    }

    /// Span of the elements that an instruction can work on strip by strip.
    fn strip_span(&self, at: usize) -> Option<Span> {
        let of = |register| self.program.register(register);
        let is_f32 = |register| of(register).lane == Lane::F32;
        let instruction = self.program.instructions()[at];
        let (span, is_known) = match instruction {
            Instruction::Load { target, source } => {
                let is_read_as_it_is = self.program.operand(source).span == of(target).span;
                (of(target).span, is_f32(target) && is_read_as_it_is)
            }
            Instruction::Store { target, source } => {
                let is_whole = self.program.operand(target).span == of(source).span;
                (of(source).span, is_f32(source) && is_whole)
            }
            Instruction::Unary { op, target, source } => {
                let is_logic = op == UnaryOp::Not && of(source).lane == Lane::Bool;
                (of(target).span, is_f32(source) && is_f32(target) || is_logic)
            }
            Instruction::Binary { target, left, .. } => {
                (of(target).span, matches!(of(left).lane, Lane::F32 | Lane::Bool))
            }
            Instruction::Compare { target, left, .. } => (of(target).span, is_f32(left)),
            Instruction::Select { target, .. } | Instruction::Round { target, .. } => {
                (of(target).span, is_f32(target))
            }
            Instruction::Reduce { op, target, source } => {
                let is_known =
                    matches!(op, ReduceOp::Sum | ReduceOp::Product | ReduceOp::Max | ReduceOp::Min);
                (of(source).span, is_known && is_f32(source) && target != source)
            }
            _ => return None,
        };
        (is_known && !span.is_empty()).then_some(span)
    }

    /// Returns true if a part makes a register that is as long as a tile.
    fn fills_registers(&self, wide: Span, part: &BlockPart) -> bool {
        match part {
            BlockPart::Segment(segment) => {
                let places = segment.ops.iter().map(|op| segment.places[op.target]);
                places.into_iter().any(|place| matches!(place, Place::Tile(_)))
            }
            BlockPart::Step(at) | BlockPart::Recall(at) => {
                let mut instruction = self.program.instructions()[*at];
                let mut fills = false;
                instruction.touch_registers(|_, register| {
                    fills |= self.program.register(*register).span == wide;
                });
                fills
            }
        }
    }

    fn narrow_spans(&self, wide: Span) -> Vec<Span> {
        let mut spans = Vec::new();
        for at in self.block.clone().filter(|&at| self.strip_span(at) == Some(wide)) {
            let mut instruction = self.program.instructions()[at];
            instruction.touch_registers(|_, register| {
                let span = self.program.register(*register).span;
                if span != wide && !spans.contains(&span) {
                    spans.push(span);
                }
            });
        }
        spans
    }

    fn parts(&self, wide: Span, state: ReuseState) -> Vec<BlockPart> {
        let mut parts = Vec::new();
        let mut segment = SegmentBuilder::new(self.program, wide);
        for at in self.block.clone() {
            let instruction = self.program.instructions()[at];
            let mark = self.reuse.mark_of(at);
            match self.role(wide, state, at) {
                InstructionRole::Idle => {}
                InstructionRole::Recalled(value) => {
                    let is_in_register = mark.target.is_none_or(|target| {
                        self.program.register(target).span != wide
                            || self.is_read(target, at + 1, wide, state, Readers::Steps)
                    });
                    if is_in_register {
                        self.cut(&mut segment, at, wide, state, &mut parts);
                        parts.push(BlockPart::Recall(at));
                        segment.forget(touched(instruction).1);
                    } else if let Some(target) = mark.target {
                        segment.recall(target, value, instruction);
                    }
                }
                InstructionRole::Strip(kind) => {
                    if !segment.takes(instruction) {
                        self.cut(&mut segment, at, wide, state, &mut parts);
                    }
                    let keep = mark.keep.filter(|_| state.keeps).map(|(value, _)| value);
                    segment.push(at, instruction, kind, keep);
                }
                InstructionRole::Step => {
                    if !segment.can_follow(instruction) {
                        self.cut(&mut segment, at, wide, state, &mut parts);
                    }
                    parts.push(BlockPart::Step(at));
                    segment.forget(touched(instruction).1);
                }
            }
        }
        self.cut(&mut segment, self.block.end, wide, state, &mut parts);
        parts
    }

    /// Ends a segment before an instruction.
    fn cut(
        &self,
        segment: &mut SegmentBuilder<'_>,
        at: usize,
        wide: Span,
        state: ReuseState,
        parts: &mut Vec<BlockPart>,
    ) {
        let is_read = |register, readers| self.is_read(register, at, wide, state, readers);
        parts.extend(segment.finish(is_read).map(BlockPart::Segment));
    }

    fn role(&self, wide: Span, state: ReuseState, at: usize) -> InstructionRole {
        let mark = self.reuse.mark_of(at);
        if (self.is_idle)(at) || state.recalls && mark.is_idle {
            return InstructionRole::Idle;
        }
        if let Some((value, _)) = mark.recall.filter(|_| state.recalls) {
            return InstructionRole::Recalled(value);
        }
        if self.strip_span(at) != Some(wide) {
            return InstructionRole::Step;
        }
        let instruction = self.program.instructions()[at];
        let lane = |register| self.program.register(register).lane;
        InstructionRole::Strip(match instruction {
            Instruction::Load { .. } => OpKind::Load(at),
            Instruction::Store { .. } => OpKind::Store(at),
            Instruction::Unary { op: UnaryOp::Not, .. } => OpKind::Not,
            Instruction::Unary { op, .. } => OpKind::Unary(op),
            Instruction::Binary { op, target, .. } if lane(target) == Lane::Bool => {
                OpKind::Logic(op)
            }
            Instruction::Binary { op, .. } => OpKind::Binary(op),
            Instruction::Compare { op, .. } => OpKind::Compare(op),
            Instruction::Select { .. } => OpKind::Select,
            Instruction::Round { .. } => OpKind::Round(at),
            Instruction::Reduce { op, .. } => OpKind::Reduce(op),
            _ => return InstructionRole::Step,
        })
    }

    /// Returns true if an instruction from a place on, or one after the block, reads what a register holds
    /// there.
    fn is_read(
        &self,
        register: Register,
        from: usize,
        wide: Span,
        state: ReuseState,
        readers: Readers,
    ) -> bool {
        let bit = 1 << register.index();
        for at in from..self.block.end {
            let (reads, writes) = touched(self.program.instructions()[at]);
            let is_reader = match self.role(wide, state, at) {
                InstructionRole::Idle => continue,
                InstructionRole::Recalled(_) => false,
                InstructionRole::Strip(OpKind::Reduce(_)) => {
                    // What it reduces to is read and written, and narrow.
                    reads & bit != 0 && (readers == Readers::All || writes & bit != 0)
                }
                InstructionRole::Strip(_) => reads & bit != 0 && readers == Readers::All,
                InstructionRole::Step => reads & bit != 0,
            };
            if is_reader {
                return true;
            }
            if writes & bit != 0 {
                return false;
            }
        }
        self.lost & bit == 0
    }
}

/// Instructions of a block that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Readers {
    All,
    /// Those on whole tiles, and all behind the block.
    Steps,
}

/// Registers that are never read without being written before in the same block: what they hold at the
/// end of one is lost.
pub(in crate::programs) fn lost_at_ends(
    instructions: &[Instruction],
    blocks: &[Range<usize>],
) -> u64 {
    // Those that conditions of skips are in are read between blocks.
    let borders = instructions.iter().filter(|instruction| instruction.is_border());
    let read = borders.fold(0, |read, &border| read | touched(border).0);
    let exposed = blocks.iter().fold(0, |all, block| all | exposed(&instructions[block.clone()]));
    !(read | exposed)
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, Dim, ProgramBuilder};
    use spyre_numerics::DataFormat::{BFloat16, IeeeFp32};

    use super::*;

    fn plans(program: &Program) -> Vec<BlockPlan> {
        BlockPlan::all(program, &ReuseAnalysis::of(program), &|_| false)
    }

    /// Kinds and places of the only segment of a plan.
    fn only_segment(plan: &BlockPlan) -> Vec<(OpKind, Place, Vec<Place>)> {
        let segments = plan.parts(ReuseState::default()).iter().filter_map(|part| match part {
            BlockPart::Segment(segment) => Some(segment),
            _ => None,
        });
        let [segment] = segments.collect::<Vec<_>>()[..] else { panic!("{plan:?}") };
        let place = |at: &usize| segment.places[*at];
        let op =
            |op: &StripOp| (op.kind, place(&op.target), op.sources.iter().map(place).collect());
        segment.ops.iter().map(op).collect()
    }

    /// A program of one loop over tiles of two dims, from `x` and `y` to `z`.
    fn program(
        format: spyre_numerics::DataFormat,
        body: impl FnOnce(&mut ProgramBuilder, [Operand; 3], Dim),
    ) -> Program {
        let mut code = ProgramBuilder::new();
        let i = code.dim();
        let j = code.dim();
        let [x, y] = [(); 2].map(|()| code.operand(format, Access::Read, [i, j]));
        let z = code.operand(format, Access::Write, [i, j]);
        code.each_parallel(i, 16, |code| {
            code.each_parallel(j, 512, |code| body(code, [x, y, z], i));
        });
        code.build().expect("it follows the rules")
    }

    #[test]
    fn float32_are_read_and_made_where_they_lie() {
        let program = program(IeeeFp32, |code, [x, y, z], _| {
            let [x, y] = [code.load(x), code.load(y)];
            let sum = code.binary(BinaryOp::Add, x, y);
            code.store(z, sum);
        });
        let [plan] = &plans(&program)[..] else { panic!("one block") };
        let expected = (
            OpKind::Binary(BinaryOp::Add),
            Place::Target(0),
            vec![Place::Source(0), Place::Source(1)],
        );
        assert_eq!(only_segment(plan), [expected]);
        assert!(plan.is_streaming());
    }

    #[test]
    fn other_formats_are_converted_by_way_of_scratch() {
        let program = program(BFloat16, |code, [x, _, z], _| {
            let x = code.load(x);
            let root = code.unary(UnaryOp::Sqrt, x);
            code.store(z, root);
        });
        let [plan] = &plans(&program)[..] else { panic!("one block") };
        let ops = only_segment(plan);
        let [(OpKind::Load(_), loaded, from), (OpKind::Unary(_), ..), (OpKind::Store(_), to, _)] =
            &ops[..]
        else {
            panic!("{ops:?}")
        };
        assert_eq!((from, *to), (&vec![Place::Source(0)], Place::Target(0)));
        assert!(matches!(loaded, Place::Scratch(_)));
    }

    #[test]
    fn a_sum_that_is_read_ends_the_segment() {
        let program = program(IeeeFp32, |code, [x, _, z], i| {
            let sum = code.constant(Lane::F32, [i], 0.0);
            let x = code.load(x);
            code.reduce(ReduceOp::Sum, sum, x);
            let share = code.binary(BinaryOp::Div, x, sum);
            code.store(z, share);
        });
        let [plan] = &plans(&program)[..] else { panic!("one block") };
        let parts = plan.parts(ReuseState::default());
        let is_segment = |part: &&BlockPart| matches!(part, BlockPart::Segment(_));
        assert_eq!(parts.iter().filter(is_segment).count(), 2, "{parts:?}");
        assert!(!plan.is_streaming(), "the numbers wait in a register for their sum");
    }

    #[test]
    fn numbers_that_are_read_after_a_store_are_copied_first() {
        let program = program(IeeeFp32, |code, [x, y, z], _| {
            let [x, y] = [code.load(x), code.load(y)];
            let sum = code.binary(BinaryOp::Add, x, y);
            code.store(z, sum);
            let product = code.mul(x, x);
            code.store(z, product);
        });
        let [plan] = &plans(&program)[..] else { panic!("one block") };
        let ops = only_segment(plan);
        let (kind, place, from) = &ops[0];
        assert_eq!((*kind, &from[..]), (OpKind::Copy, &[Place::Source(0)][..]));
        assert!(matches!(place, Place::Scratch(_)), "{ops:?}");
    }
}
