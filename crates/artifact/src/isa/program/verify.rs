//! The rules of [`Program`](super::Program), checked in one pass over the code.

mod access;
mod scans;

use spyre_numerics::DataFormat;

use super::{Draft, OperandType, Refusal, RegisterType};
use crate::Error;
use crate::isa::{
    BinaryOp, CompareOp, Constant, Dim, Instruction, Lane, MAX_DIMS, MAX_INSTRUCTIONS,
    MAX_OPERAND_DIMS, MAX_OPERANDS, MAX_REGISTERS, MAX_SCALARS, MAX_SKIP_DEPTH, Operand, ReduceOp,
    Register, ScalarWord, Span, Tile, UnaryOp,
};
use access::Traces;

/// Refuses a draft that breaks a rule, naming the first instruction that does.
pub(super) fn check(draft: &Draft) -> Result<(), Error> {
    check_declarations(draft).map_err(Error::Program)?;
    let mut scope = Scope::new(draft);
    for (at, instruction) in draft.instructions.iter().enumerate() {
        scope.step(at, instruction).map_err(|refusal| Error::Instruction {
            at,
            instruction: instruction.to_string(),
            refusal,
        })?;
    }
    scope.finish().map_err(Error::Program)
}

fn check_declarations(draft: &Draft) -> Result<(), Refusal> {
    at_most("dims", draft.dims, MAX_DIMS)?;
    at_most("registers", draft.registers.len(), MAX_REGISTERS)?;
    at_most("operands", draft.operands.len(), MAX_OPERANDS)?;
    at_most("scalars", draft.scalars, MAX_SCALARS)?;
    at_most("instructions", draft.instructions.len(), MAX_INSTRUCTIONS)?;
    let dims = draft.dims;
    let all = Span::from_bits(u16::MAX.checked_shr(16 - dims as u32).unwrap_or(0));
    let inside = |what: String, span: Span| {
        if span.is_inside(all) { Ok(()) } else { Err(Refusal::SpanOutside { what, span, dims }) }
    };
    for (at, register) in draft.registers.iter().enumerate() {
        inside(Register(at as u16).to_string(), register.span)?;
    }
    for (at, &OperandType { format, span, .. }) in draft.operands.iter().enumerate() {
        let operand = Operand(at as u8);
        inside(operand.to_string(), span)?;
        at_most("dims of an operand", span.count(), MAX_OPERAND_DIMS)?;
        Lane::of(format).ok_or(Refusal::OperandFormat { operand, format })?;
    }
    Ok(())
}

fn at_most(what: &'static str, given: usize, most: usize) -> Result<(), Refusal> {
    if given <= most { Ok(()) } else { Err(Refusal::TooMany { what, given, most }) }
}

/// Open blocks and written registers at one place of the code.
#[derive(Debug)]
struct Scope<'a> {
    draft: &'a Draft,
    blocks: Vec<Block>,
    open: Span,
    /// Bit i: register i has been written on every path to here.
    written: u64,
}

/// A loop or a skip that is still open.
#[derive(Clone, Copy, Debug)]
struct Block {
    kind: BlockKind,
    /// Registers written when it began, which are those known to be written when it ends.
    written: u64,
}

#[derive(Clone, Copy, Debug)]
enum BlockKind {
    Loop { dim: Dim, is_parallel: bool, is_whole: bool, traces: Traces },
    Skip { to: usize },
}

impl<'a> Scope<'a> {
    fn new(draft: &'a Draft) -> Self {
        Self { draft, blocks: Vec::new(), open: Span::NONE, written: 0 }
    }

    fn step(&mut self, at: usize, instruction: &Instruction) -> Result<(), Refusal> {
        self.close_skips(at)?;
        match *instruction {
            Instruction::Begin { dim, is_parallel, tile } => {
                self.begin(dim, is_parallel, tile == Tile::All)
            }
            Instruction::End => self.end(),
            Instruction::SkipUnless { scalar, instructions } => {
                self.known_scalar(scalar)?;
                self.skip(at, instructions)
            }
            Instruction::SkipUnlessAny { condition, instructions } => {
                self.mask(condition)?;
                self.skip(at, instructions)
            }
            Instruction::Load { target, source } => self.load(target, source),
            Instruction::Store { target, source } => self.store(target, source),
            Instruction::Gather { target, source, ref at, keeps_outside } => {
                self.gather(target, source, at, keeps_outside)
            }
            Instruction::Scatter { op, target, source, ref at, mask } => {
                let mask = mask.map(|mask| self.mask(mask)).transpose()?;
                self.scatter(op, target, source, at, mask)
            }
            Instruction::Constant { target, value } => self.constant(target, value),
            Instruction::Scalar { target, scalar } => self.scalar(target, scalar),
            Instruction::Index { target, dim } => self.index(target, dim),
            Instruction::Extent { target, dim } => self.extent(target, dim),
            Instruction::Random { word, target, seed, offset, index } => {
                self.random(word, target, [seed, offset, index])
            }
            Instruction::Unary { op, target, source } => self.unary(op, target, source),
            Instruction::Binary { op, target, left, right } => self.binary(op, target, left, right),
            Instruction::Compare { op, target, left, right } => {
                self.compare(op, target, left, right)
            }
            Instruction::Select { target, condition, yes, no } => {
                self.select(target, condition, yes, no)
            }
            Instruction::Convert { target, source } => self.convert(target, source),
            Instruction::Round { target, source, format } => self.round(target, source, format),
            Instruction::Reduce { op, target, source } => self.reduce(op, target, source),
            Instruction::Dot { target, left, right, k } => self.dot(target, left, right, k),
            Instruction::Scan { op, target, source, carry, dim } => {
                self.scan(op, target, source, carry, dim)
            }
            Instruction::Seek { value, place, source, dim, .. } => {
                self.seek(value, place, source, dim)
            }
            Instruction::Order { places, values, source, dim, .. } => {
                self.order(places, values, source, dim)
            }
            Instruction::Multiply { target, left, right } => self.multiply(target, left, right),
            Instruction::Patch { .. } => Err(Refusal::PatchInProgram),
        }
    }

    fn finish(&mut self) -> Result<(), Refusal> {
        self.close_skips(self.draft.instructions.len())?;
        match self.blocks.len() {
            0 => Ok(()),
            open => Err(Refusal::BeginWithoutEnd { open }),
        }
    }

    fn begin(&mut self, dim: Dim, is_parallel: bool, is_whole: bool) -> Result<(), Refusal> {
        self.known_dim(dim)?;
        if self.open.contains(dim) {
            return Err(Refusal::DimOpenTwice { dim });
        }
        self.open = self.open.with(dim);
        let traces = Traces::default();
        self.enter(BlockKind::Loop { dim, is_parallel, is_whole, traces });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        match self.blocks.pop() {
            None => Err(Refusal::EndWithoutBegin),
            Some(Block { kind: BlockKind::Skip { to }, .. }) => {
                Err(Refusal::SkipLeavesBlock { to })
            }
            Some(Block { kind: BlockKind::Loop { dim, .. }, written }) => {
                self.open = self.open.without(dim);
                self.written = written;
                Ok(())
            }
        }
    }

    fn skip(&mut self, at: usize, count: u32) -> Result<(), Refusal> {
        let to = at + 1 + count as usize;
        let skips = self.blocks.iter().filter_map(|block| match block.kind {
            BlockKind::Skip { to } => Some(to),
            BlockKind::Loop { .. } => None,
        });
        let end = skips.clone().min().unwrap_or(self.draft.instructions.len());
        match count {
            0 => Err(Refusal::SkipNothing),
            _ if to > end => Err(Refusal::SkipLeavesBlock { to }),
            _ if skips.count() >= MAX_SKIP_DEPTH => Err(Refusal::SkipsTooDeep),
            _ => {
                self.enter(BlockKind::Skip { to });
                Ok(())
            }
        }
    }

    /// Leaves the skips that end here; a loop that began inside one must have ended.
    fn close_skips(&mut self, at: usize) -> Result<(), Refusal> {
        while let Some(&Block { kind: BlockKind::Skip { to }, written }) = self.blocks.last()
            && to <= at
        {
            self.blocks.pop();
            self.written = written;
        }
        let passed = self.blocks.iter().find_map(|block| match block.kind {
            BlockKind::Skip { to } if to <= at => Some(to),
            _ => None,
        });
        passed.map_or(Ok(()), |to| Err(Refusal::SkipLeavesBlock { to }))
    }

    fn enter(&mut self, kind: BlockKind) {
        self.blocks.push(Block { kind, written: self.written });
    }

    fn load(&mut self, target: Register, source: Operand) -> Result<(), Refusal> {
        let register = self.known_register(target)?;
        let operand = self.readable(source)?;
        transfer(target, register, source, operand, operand.span.is_inside(register.span))?;
        self.write(target)
    }

    fn store(&mut self, target: Operand, source: Register) -> Result<(), Refusal> {
        let operand = self.known_operand(target)?;
        let register = self.read(source)?;
        if !operand.access.writes() {
            return Err(Refusal::Access { operand: target, access: operand.access.name() });
        }
        self.opened(|| target.to_string(), operand.span)?;
        transfer(source, register, target, operand, register.span.is_inside(operand.span))?;
        let shared = self.parallel().find(|(dim, _)| !operand.span.contains(*dim));
        if let Some((dim, _)) = shared {
            return Err(Refusal::ParallelStore { operand: target, dim });
        }
        self.stored(target)
    }

    fn constant(&mut self, target: Register, value: Constant) -> Result<(), Refusal> {
        let lane = self.known_register(target)?.lane;
        let expected = match value {
            Constant::Float(_) => "f32 or f64",
            Constant::Int(_) => "i64",
            Constant::Bool(_) => "bool",
        };
        expect_lane(target, lane, value.fits(lane), expected)?;
        self.write(target)
    }

    fn scalar(&mut self, target: Register, scalar: ScalarWord) -> Result<(), Refusal> {
        self.known_scalar(scalar)?;
        self.write(target)
    }

    fn index(&mut self, target: Register, dim: Dim) -> Result<(), Refusal> {
        self.known_dim(dim)?;
        self.result(target, Span::NONE.with(dim), Some(Lane::I64))
    }

    fn unary(&mut self, op: UnaryOp, target: Register, source: Register) -> Result<(), Refusal> {
        let input = self.read(source)?;
        let lane = op.result(input.lane);
        expect_lane(source, input.lane, lane.is_some(), "one that the operation takes")?;
        self.result(target, input.span, lane)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Refusal> {
        let inputs = self.read_pair(left, right)?;
        let lane = op.result(inputs.lane);
        expect_lane(left, inputs.lane, lane.is_some(), "one that the operation takes")?;
        self.result(target, inputs.span, lane)
    }

    fn compare(
        &mut self,
        _: CompareOp,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Refusal> {
        let inputs = self.read_pair(left, right)?;
        self.result(target, inputs.span, Some(Lane::Bool))
    }

    fn select(
        &mut self,
        target: Register,
        condition: Register,
        yes: Register,
        no: Register,
    ) -> Result<(), Refusal> {
        let chooser = self.read(condition)?;
        expect_lane(condition, chooser.lane, chooser.lane == Lane::Bool, "bool")?;
        let inputs = self.read_pair(yes, no)?;
        self.result(target, chooser.span | inputs.span, Some(inputs.lane))
    }

    fn convert(&mut self, target: Register, source: Register) -> Result<(), Refusal> {
        let span = self.read(source)?.span;
        self.result(target, span, None)
    }

    fn round(
        &mut self,
        target: Register,
        source: Register,
        format: DataFormat,
    ) -> Result<(), Refusal> {
        let RegisterType { lane, span } = self.read(source)?;
        if !lane.fits(format) {
            return Err(Refusal::TransferLane { register: source, lane, format });
        }
        self.result(target, span, Some(lane))
    }

    fn reduce(&mut self, op: ReduceOp, target: Register, source: Register) -> Result<(), Refusal> {
        let input = self.read(source)?;
        let held = self.read(target)?;
        expect_lane(source, input.lane, op.takes(input.lane), "one that the operation takes")?;
        expect_lane(target, held.lane, held.lane == input.lane, "the source's")?;
        if !held.span.is_inside(input.span) || held.span == input.span {
            let span = held.span;
            let source_span = input.span;
            return Err(Refusal::ReduceSpan { target, span, source_span });
        }
        self.write(target)
    }

    fn dot(
        &mut self,
        target: Register,
        left: Operand,
        right: Operand,
        k: Dim,
    ) -> Result<(), Refusal> {
        self.known_dim(k)?;
        let held = self.read(target)?;
        expect_lane(target, held.lane, held.lane.is_float(), "f32 or f64")?;
        let first = self.readable(left)?;
        let second = self.readable(right)?;
        for format in [first.format, second.format] {
            if !held.lane.multiplies(format) {
                return Err(Refusal::TransferLane { register: target, lane: held.lane, format });
            }
        }
        if !(first.span.contains(k) && second.span.contains(k)) {
            return Err(Refusal::DotDim { k, left, right });
        }
        let expected = (first.span | second.span).without(k);
        let summed = expected.minus(held.span);
        if !held.span.is_inside(expected) || !summed.is_inside(first.span & second.span) {
            return Err(Refusal::Span { target, span: held.span, expected });
        }
        self.write(target)
    }

    fn multiply(
        &mut self,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Refusal> {
        let first = self.read(left)?;
        let second = self.read(right)?;
        let held = self.read(target)?;
        let is_number = held.lane.is_float() || held.lane == Lane::I64;
        expect_lane(target, held.lane, is_number, "f32, f64 or i64")?;
        for (side, of) in [(left, first), (right, second)] {
            expect_lane(side, of.lane, of.lane == held.lane, held.lane.name())?;
        }
        let all = first.span | second.span;
        let both = first.span & second.span;
        let summed = all.minus(held.span);
        if summed.is_empty() || !summed.is_inside(both) || !held.span.is_inside(all) {
            let spans = [first.span, second.span];
            return Err(Refusal::MultiplySpan { target, span: held.span, left, right, spans });
        }
        self.write(target)
    }

    /// Writes `target`, which must span exactly this and have this lane, if it is known.
    fn result(&mut self, target: Register, span: Span, lane: Option<Lane>) -> Result<(), Refusal> {
        let found = self.known_register(target)?;
        if let Some(lane) = lane {
            expect_lane(target, found.lane, found.lane == lane, lane.name())?;
        }
        if found.span != span {
            return Err(Refusal::Span { target, span: found.span, expected: span });
        }
        self.write(target)
    }

    fn write(&mut self, target: Register) -> Result<(), Refusal> {
        let span = self.known_register(target)?.span;
        self.opened(|| target.to_string(), span)?;
        let held = self.parallel().find(|(_, written)| has(*written, target));
        if let Some((dim, _)) = held {
            return Err(Refusal::ParallelWrite { register: target, dim });
        }
        self.written |= 1 << target.index();
        Ok(())
    }

    fn read(&self, source: Register) -> Result<RegisterType, Refusal> {
        let register = self.known_register(source)?;
        if has(self.written, source) {
            Ok(register)
        } else {
            Err(Refusal::ReadBeforeWrite { register: source })
        }
    }

    /// Two registers of one lane, as if they were one that spans both.
    fn read_pair(&self, left: Register, right: Register) -> Result<RegisterType, Refusal> {
        let first = self.read(left)?;
        let second = self.read(right)?;
        expect_lane(right, second.lane, second.lane == first.lane, first.lane.name())?;
        Ok(RegisterType { lane: first.lane, span: first.span | second.span })
    }

    fn readable(&self, source: Operand) -> Result<OperandType, Refusal> {
        let operand = self.known_operand(source)?;
        if !operand.access.reads() {
            return Err(Refusal::Access { operand: source, access: operand.access.name() });
        }
        self.opened(|| source.to_string(), operand.span)?;
        Ok(operand)
    }

    fn opened(&self, what: impl Fn() -> String, span: Span) -> Result<(), Refusal> {
        if span.is_inside(self.open) {
            Ok(())
        } else {
            Err(Refusal::NotOpen { what: what(), span, open: self.open })
        }
    }

    /// The parallel loops around this place, with what was written when they began.
    fn parallel(&self) -> impl Iterator<Item = (Dim, u64)> {
        self.blocks.iter().filter_map(|block| match block.kind {
            BlockKind::Loop { dim, is_parallel: true, .. } => Some((dim, block.written)),
            _ => None,
        })
    }

    fn parallel_traces(&mut self) -> impl Iterator<Item = (Dim, &mut Traces)> {
        self.blocks.iter_mut().filter_map(|block| match &mut block.kind {
            BlockKind::Loop { dim, is_parallel: true, traces, .. } => Some((*dim, traces)),
            _ => None,
        })
    }

    fn known_dim(&self, dim: Dim) -> Result<(), Refusal> {
        let dims = self.draft.dims;
        if dim.index() < dims { Ok(()) } else { Err(Refusal::NoSuchDim { dim, dims }) }
    }

    fn known_register(&self, register: Register) -> Result<RegisterType, Refusal> {
        let registers = &self.draft.registers;
        let found = registers.get(register.index()).copied();
        found.ok_or(Refusal::NoSuchRegister { register, registers: registers.len() })
    }

    fn known_operand(&self, operand: Operand) -> Result<OperandType, Refusal> {
        let operands = &self.draft.operands;
        let found = operands.get(operand.index()).copied();
        found.ok_or(Refusal::NoSuchOperand { operand, operands: operands.len() })
    }

    fn known_scalar(&self, scalar: ScalarWord) -> Result<(), Refusal> {
        let scalars = self.draft.scalars;
        if scalar.index() < scalars {
            Ok(())
        } else {
            Err(Refusal::NoSuchScalar { scalar, scalars })
        }
    }
}

fn has(written: u64, register: Register) -> bool {
    written >> register.index() & 1 == 1
}

fn expect_lane(
    register: Register,
    lane: Lane,
    fits: bool,
    expected: &'static str,
) -> Result<(), Refusal> {
    if fits { Ok(()) } else { Err(Refusal::Lane { register, lane, expected }) }
}

/// Checks that loads and stores have in common.
fn transfer(
    register: Register,
    of_register: RegisterType,
    operand: Operand,
    of_operand: OperandType,
    spans_fit: bool,
) -> Result<(), Refusal> {
    let RegisterType { lane, span } = of_register;
    let format = of_operand.format;
    if !spans_fit {
        let operand_span = of_operand.span;
        return Err(Refusal::TransferSpan { operand, operand_span, register, span });
    }
    if lane.fits(format) { Ok(()) } else { Err(Refusal::TransferLane { register, lane, format }) }
}
