//! Random programs that follow all rules, from a tape of choices.

use spyre_artifact::*;
use spyre_numerics::DataFormat;

const FORMATS: [DataFormat; 6] = [
    DataFormat::IeeeFp16,
    DataFormat::Sen169Fp16,
    DataFormat::IeeeFp32,
    DataFormat::IeeeFp64,
    DataFormat::IeeeInt64,
    DataFormat::Bool,
];

/// Choices, one after another; an empty tape always chooses the first.
#[derive(Debug)]
pub(crate) struct Tape<'a> {
    choices: std::slice::Iter<'a, u16>,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(choices: &'a [u16]) -> Self {
        Self { choices: choices.iter() }
    }

    fn is_empty(&self) -> bool {
        self.choices.len() == 0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.choices.next().copied().unwrap_or(0)) % bound.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len());
        from.get(at).copied()
    }
}

#[derive(Clone, Copy, Debug)]
struct Value {
    register: Register,
    lane: Lane,
    span: Span,
}

/// Dims and values that the place at hand may use.
#[derive(Clone, Debug, Default)]
struct Scope {
    open: Span,
    /// Dims that one tile covers whole.
    whole: Span,
    parallel: Span,
    values: Vec<Value>,
    depth: usize,
}

#[derive(Debug)]
struct Author<'a> {
    tape: Tape<'a>,
    dims: Vec<Dim>,
    operands: Vec<(Operand, OperandType)>,
    scalars: Vec<ScalarWord>,
    /// Each operation may take a register, and there are 64.
    registers_left: usize,
}

/// A valid program, chosen by the tape.
pub(crate) fn program(choices: &[u16]) -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let mut tape = Tape::new(choices);
    let dims: Vec<Dim> = (0..tape.below(17)).map(|_| code.dim()).collect();
    let scalars: Vec<ScalarWord> = (0..tape.below(4)).map(|_| code.scalar_word()).collect();
    let mut operands = Vec::new();
    for _ in 0..tape.below(6) {
        let format = tape.pick(&FORMATS).unwrap_or(DataFormat::Bool);
        let access =
            tape.pick(&[Access::Read, Access::Write, Access::Both]).unwrap_or(Access::Both);
        let span: Vec<Dim> = subset(&mut tape, Span::of(&dims)).dims().take(8).collect();
        let span = Span::of(&span);
        operands.push((code.operand(format, access, span), OperandType { format, access, span }));
    }
    let mut author = Author { tape, dims, operands, scalars, registers_left: 60 };
    author.block(&mut code, Scope::default());
    code.build()
}

fn subset(tape: &mut Tape<'_>, of: Span) -> Span {
    Span::from_bits(of.bits() & tape.below(1 << 16) as u16)
}

impl Author<'_> {
    fn block(&mut self, code: &mut ProgramBuilder, mut place: Scope) {
        for _ in 0..1 + self.tape.below(8) {
            if self.tape.is_empty() || self.registers_left < 4 {
                return;
            }
            self.statement(code, &mut place);
        }
    }

    fn statement(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        match self.tape.below(21) {
            0..=2 => self.nest(code, place),
            3 => self.when(code, place),
            4 => self.constant(code, place),
            5 => self.index(code, place),
            6 => self.load(code, place),
            7 => self.store(code, place),
            8 => self.unary(code, place),
            9 => self.binary(code, place),
            10 => self.select(code, place),
            11 => self.convert(code, place),
            12 => self.reduce(code, place),
            13 => self.extent_or_random(code, place),
            14 => self.scan(code, place),
            15 => self.seek(code, place),
            16 => self.order(code, place),
            17 => self.gather(code, place),
            18 => self.scatter(code, place),
            19 => self.dot(code, place),
            _ => self.multiply(code, place),
        }
    }

    fn nest(&mut self, code: &mut ProgramBuilder, place: &Scope) {
        let closed: Vec<Dim> =
            self.dims.iter().copied().filter(|&dim| !place.open.contains(dim)).collect();
        let Some(dim) = self.tape.pick(&closed) else { return };
        let mut inner = place.clone();
        inner.open = inner.open.with(dim);
        inner.depth += 1;
        let tile = (self.tape.below(1000) as u32).saturating_sub(300);
        if tile == 0 {
            inner.whole = inner.whole.with(dim);
        }
        if self.tape.below(2) == 0 {
            code.each(dim, tile, |code| self.block(code, inner));
        } else {
            inner.parallel = inner.parallel.with(dim);
            code.each_parallel(dim, tile, |code| self.block(code, inner));
        }
    }

    fn when(&mut self, code: &mut ProgramBuilder, place: &Scope) {
        let mut inner = place.clone();
        inner.depth += 1;
        if inner.depth >= 8 {
            return;
        }
        let truths = place.values.iter().filter(|value| value.lane == Lane::Bool);
        let truths: Vec<Register> = truths.map(|value| value.register).collect();
        if let (Some(condition), 1) = (self.tape.pick(&truths), self.tape.below(2)) {
            code.when_any(condition, |code| self.block(code, inner));
        } else if let Some(scalar) = self.tape.pick(&self.scalars) {
            code.when(scalar, |code| self.block(code, inner));
        }
    }

    fn constant(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let lane = self.tape.pick(&Lane::ALL).unwrap_or(Lane::F32);
        let span = subset(&mut self.tape, place.open);
        let value = match lane {
            Lane::I64 => Constant::Int(self.tape.below(100) as i64 - 50),
            Lane::Bool => Constant::Bool(self.tape.below(2) == 1),
            _ => Constant::Float(f64::from_bits((self.tape.below(65536) as u64) << 48)),
        };
        self.keep(place, code.constant(lane, span, value), lane, span);
        if let (Some(scalar), true) = (self.tape.pick(&self.scalars), span == Span::NONE) {
            self.keep(place, code.scalar(lane, scalar), lane, span);
        }
    }

    fn index(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let open: Vec<Dim> = place.open.dims().collect();
        if let Some(dim) = self.tape.pick(&open) {
            self.keep(place, code.index(dim), Lane::I64, [dim].into());
        }
    }

    fn load(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        if let Some((operand, OperandType { format, span, .. })) = self.readable(place, |_| true)
            && let Some(lane) = Lane::of(format)
        {
            self.keep(place, code.load(operand), lane, span);
        }
    }

    fn store(&mut self, code: &mut ProgramBuilder, place: &Scope) {
        let Some(value) = self.tape.pick(&place.values) else { return };
        let fits = |operand: &OperandType| {
            operand.access.writes()
                && operand.span.is_inside(place.open)
                && place.parallel.is_inside(operand.span)
                && value.span.is_inside(operand.span)
                && value.lane.fits(operand.format)
        };
        let targets: Vec<Operand> =
            self.operands.iter().filter(|(_, o)| fits(o)).map(|(operand, _)| *operand).collect();
        if let Some(target) = self.tape.pick(&targets) {
            code.store(target, value.register);
        }
    }

    fn unary(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some(value) = self.tape.pick(&place.values) else { return };
        let Some(op) = self.tape.pick(UnaryOp::ALL) else { return };
        if let Some(lane) = op.result(value.lane) {
            self.keep(place, code.unary(op, value.register), lane, value.span);
        }
    }

    fn binary(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some((left, right)) = self.pair(place) else { return };
        let span = left.span | right.span;
        let first = left.register;
        let second = right.register;
        if let (Some(op), true) = (self.tape.pick(CompareOp::ALL), self.tape.below(3) == 0) {
            return self.keep(place, code.compare(op, first, second), Lane::Bool, span);
        }
        let Some(op) = self.tape.pick(BinaryOp::ALL) else { return };
        if let Some(lane) = op.result(left.lane) {
            self.keep(place, code.binary(op, first, second), lane, span);
        }
    }

    fn select(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let conditions: Vec<Value> =
            place.values.iter().copied().filter(|value| value.lane == Lane::Bool).collect();
        let Some(condition) = self.tape.pick(&conditions) else { return };
        let Some((yes, no)) = self.pair(place) else { return };
        let target = code.select(condition.register, yes.register, no.register);
        self.keep(place, target, yes.lane, condition.span | yes.span | no.span);
    }

    fn convert(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some(value) = self.tape.pick(&place.values) else { return };
        let format = self.tape.pick(&FORMATS).unwrap_or(DataFormat::Bool);
        if value.lane.fits(format) {
            self.keep(place, code.round(value.register, format), value.lane, value.span);
        }
        let lane = self.tape.pick(&Lane::ALL).unwrap_or(Lane::F32);
        self.keep(place, code.convert(lane, value.register), lane, value.span);
    }

    fn reduce(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let wide: Vec<Value> =
            place.values.iter().copied().filter(|value| !value.span.is_empty()).collect();
        let Some(source) = self.tape.pick(&wide) else { return };
        let Some(op) = self.tape.pick(ReduceOp::ALL) else { return };
        let span = subset(&mut self.tape, source.span);
        if !op.takes(source.lane) || span == source.span {
            return;
        }
        let start = match source.lane {
            Lane::I64 => Constant::Int(0),
            Lane::Bool => Constant::Bool(true),
            _ => Constant::Float(0.0),
        };
        let target = code.constant(source.lane, span, start);
        code.reduce(op, target, source.register);
        self.keep(place, target, source.lane, span);
    }

    fn extent_or_random(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        if let (Some(dim), true) = (self.tape.pick(&self.dims), self.tape.below(2) == 0) {
            return self.keep(place, code.extent(dim), Lane::I64, Span::NONE);
        }
        let numbers: Vec<Value> =
            place.values.iter().copied().filter(|value| value.lane == Lane::I64).collect();
        let sources = [(); 3].map(|()| self.tape.pick(&numbers));
        if let [Some(seed), Some(offset), Some(index)] = sources {
            let word = self.tape.below(4) as u8;
            let bits = code.random(word, seed.register, offset.register, index.register);
            self.keep(place, bits, Lane::I64, seed.span | offset.span | index.span);
        }
    }

    fn scan(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some((source, dim)) = self.along(place, place.open) else { return };
        let Some(op) = self.tape.pick(ScanOp::ALL) else { return };
        if !op.takes(source.lane) {
            return;
        }
        let is_wide = source.lane == Lane::F32 && self.tape.below(2) == 0;
        let lane = if is_wide { Lane::F64 } else { source.lane };
        let carry = code.constant(lane, source.span.without(dim), op.start(lane));
        self.registers_left -= 1;
        let scanned = code.scan(op, source.register, carry, dim);
        self.keep(place, scanned, source.lane, source.span);
    }

    fn seek(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some((source, dim)) = self.along(place, place.open) else { return };
        let Some(op) = self.tape.pick(SeekOp::ALL) else { return };
        let span = source.span.without(dim);
        let start = match source.lane {
            Lane::I64 => Constant::Int(0),
            Lane::Bool => Constant::Bool(true),
            _ => Constant::Float(0.0),
        };
        let best = code.constant(source.lane, span, start);
        let at = code.constant(Lane::I64, span, -1_i64);
        code.seek(op, best, at, source.register, dim);
        self.keep(place, best, source.lane, span);
        self.keep(place, at, Lane::I64, span);
    }

    fn order(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some((source, dim)) = self.along(place, place.whole) else { return };
        let Some(op) = self.tape.pick(OrderOp::ALL) else { return };
        let [places, values] = code.order(op, source.register, dim);
        self.keep(place, places, Lane::I64, source.span);
        self.keep(place, values, source.lane, source.span);
    }

    /// A value, and one of these dims that it spans.
    fn along(&mut self, place: &Scope, dims: Span) -> Option<(Value, Dim)> {
        let spans = |value: &Value| dims.dims().any(|dim| value.span.contains(dim));
        let wide: Vec<Value> = place.values.iter().copied().filter(spans).collect();
        let source = self.tape.pick(&wide)?;
        let along: Vec<Dim> = dims.dims().filter(|&dim| source.span.contains(dim)).collect();
        Some((source, self.tape.pick(&along)?))
    }

    fn dot(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let open: Vec<Dim> = place.open.dims().collect();
        let Some(k) = self.tape.pick(&open) else { return };
        let fits = |o: &OperandType| o.span.contains(k) && Lane::F64.fits(o.format);
        let Some((left, first)) = self.readable(place, fits) else { return };
        let Some((right, second)) = self.readable(place, fits) else { return };
        let span = (first.span | second.span).without(k);
        let target = code.constant(Lane::F64, span, 0.0);
        code.dot(target, left, right, k);
        self.keep(place, target, Lane::F64, span);
    }

    fn multiply(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let Some((left, right)) = self.pair(place) else { return };
        let both = left.span & right.span;
        let summed = subset(&mut self.tape, both);
        let start = match left.lane {
            Lane::F32 | Lane::F64 => Constant::Float(0.0),
            Lane::I64 => Constant::Int(0),
            _ => return,
        };
        if summed.is_empty() {
            return;
        }
        let span = (left.span | right.span).minus(summed);
        let target = code.constant(left.lane, span, start);
        code.multiply(target, left.register, right.register);
        self.keep(place, target, left.lane, span);
    }

    fn gather(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let all: Vec<(Operand, OperandType)> =
            self.operands.iter().copied().filter(|(_, o)| o.access == Access::Read).collect();
        let Some((operand, of)) = self.tape.pick(&all) else { return };
        let Some((at, span)) = self.coordinates(code, place, of.span) else { return };
        let Some(lane) = Lane::of(of.format) else { return };
        let target = code.gather(operand, at);
        if self.tape.below(2) == 0 {
            code.gather_inside(target, operand, at);
        }
        self.keep(place, target, lane, span);
    }

    fn scatter(&mut self, code: &mut ProgramBuilder, place: &mut Scope) {
        let all: Vec<(Operand, OperandType)> =
            self.operands.iter().copied().filter(|(_, o)| o.access.writes()).collect();
        let Some((operand, of)) = self.tape.pick(&all) else { return };
        let Some((at, span)) = self.coordinates(code, place, of.span) else { return };
        let Some(op) = self.tape.pick(ScatterOp::ALL) else { return };
        let fits = |value: &Value| {
            value.lane.fits(of.format) && span.is_inside(value.span) && op.takes(value.lane)
        };
        let sources: Vec<Value> = place.values.iter().copied().filter(fits).collect();
        let Some(source) = self.tape.pick(&sources) else { return };
        let masks: Vec<Register> = place
            .values
            .iter()
            .filter(|value| value.lane == Lane::Bool && value.span.is_inside(source.span))
            .map(|value| value.register)
            .collect();
        let mask = if self.tape.below(2) == 0 { self.tape.pick(&masks) } else { None };
        let reads = op == ScatterOp::Set || of.access.reads();
        if reads && place.parallel.is_inside(of.span.minus(at.dims())) {
            code.scatter(op, operand, source.register, at, mask);
        }
    }

    /// Coordinates for some dims of an operand, and what accesses there span.
    fn coordinates(
        &mut self,
        code: &mut ProgramBuilder,
        place: &mut Scope,
        span: Span,
    ) -> Option<(Coordinates, Span)> {
        let mut given = Vec::new();
        for (axis, dim) in span.dims().enumerate() {
            if place.open.contains(dim) && self.tape.below(3) > 0 {
                continue;
            }
            let integers: Vec<Value> =
                place.values.iter().copied().filter(|value| value.lane == Lane::I64).collect();
            let value = match self.tape.pick(&integers) {
                Some(value) => value,
                None => {
                    let own = subset(&mut self.tape, place.open);
                    let register = code.constant(Lane::I64, own, self.tape.below(9) as i64);
                    self.keep(place, register, Lane::I64, own);
                    *place.values.last()?
                }
            };
            given.push(Coordinate { axis: axis as u8, dim, register: value.register });
        }
        let at = Coordinates::new(&given)?;
        let spans = given.iter().filter_map(|one| {
            place.values.iter().find(|value| value.register == one.register).map(|value| value.span)
        });
        Some((at, spans.fold(span.minus(at.dims()), |all, span| all | span)))
    }

    fn readable(
        &mut self,
        place: &Scope,
        fits: impl Fn(&OperandType) -> bool,
    ) -> Option<(Operand, OperandType)> {
        let usable: Vec<(Operand, OperandType)> = self
            .operands
            .iter()
            .copied()
            .filter(|(_, o)| o.access.reads() && o.span.is_inside(place.open) && fits(o))
            .collect();
        self.tape.pick(&usable)
    }

    fn pair(&mut self, place: &Scope) -> Option<(Value, Value)> {
        let left = self.tape.pick(&place.values)?;
        let same: Vec<Value> =
            place.values.iter().copied().filter(|value| value.lane == left.lane).collect();
        Some((left, self.tape.pick(&same)?))
    }

    fn keep(&mut self, place: &mut Scope, register: Register, lane: Lane, span: Span) {
        self.registers_left -= 1;
        place.values.push(Value { register, lane, span });
    }
}
