use spyre_artifact::{
    Constant, Dim, EntryImage, Instruction, Lane, MAX_DIMS, Operand, Register, ScalarWord, Span,
    Tile,
};
use spyre_numerics::{Converter, DataFormat};

use super::Stop;
use super::buffer::{Buffer, format_of};
use super::code::LoadedCode;
use super::limits::{self, tile_elements};
use super::operand::Tensor;
use super::registers::{Registers, spread};
use super::tiles::Tiles;
use crate::work::Work;

/// One launch of a compute program.
///
/// Parallel loops run in order, on the thread that started the block. What it computes is the same
/// in any order: that is what makes them parallel.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) work: &'a Work<'a>,
    code: &'a LoadedCode,
    entry: &'a EntryImage,
    extents: [usize; MAX_DIMS],
    /// `None` for a tensor without elements, which no tile is of.
    operands: Vec<Option<Tensor>>,
    open: Vec<OpenLoop>,
    pub(super) tiles: Tiles,
    pub(super) registers: Registers,
    /// Elements on their way, in their storage format.
    raw: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct OpenLoop {
    begin: usize,
    dim: Dim,
    tile: Tile,
}

impl<'a> Machine<'a> {
    /// Checks everything that can be checked before it runs.
    pub(super) fn new(
        work: &'a Work<'a>,
        code: &'a LoadedCode,
        entry: &'a EntryImage,
    ) -> Result<Self, Stop> {
        let program = code.program();
        let mut extents = [0; MAX_DIMS];
        for (at, extent) in extents.iter_mut().enumerate().take(program.dims()) {
            *extent = usize::try_from(entry.extent(Dim(at as u8))).unwrap_or(usize::MAX);
        }
        limits::check(program, &extents)?;
        let mut machine = Self {
            work,
            code,
            entry,
            extents,
            operands: Vec::new(),
            open: Vec::new(),
            tiles: Tiles::default(),
            registers: Registers::of(program),
            raw: Vec::new(),
        };
        machine.bind()?;
        Ok(machine)
    }

    /// Runs it to its end, unless somebody wants it to end before.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(&instruction) = self.code.program().instructions().get(at) {
            self.check_turn()?;
            at = match instruction {
                Instruction::Begin { dim, tile, .. } => self.begin(at, dim, tile),
                Instruction::End => self.end(at),
                Instruction::SkipUnless { scalar, instructions } => match self.scalar(scalar) {
                    0 => at + 1 + instructions as usize,
                    _ => at + 1,
                },
                _ => {
                    self.step(instruction)?;
                    at + 1
                }
            };
        }
        Ok(())
    }

    pub(super) fn check_turn(&self) -> Result<(), Stop> {
        match self.work.turn.is_to_end() {
            true => Err(self.work.turn.cut_short().into()),
            false => Ok(()),
        }
    }

    fn bind(&mut self) -> Result<(), Stop> {
        for (at, &of) in self.code.program().operands().iter().enumerate() {
            let words = self.entry.operand(Operand(at as u8));
            let words = words.ok_or_else(|| Stop::refused("its table is too short"))?;
            let bound = words.map_err(Stop::from);
            let bound =
                bound.and_then(|words| Tensor::bind(self.work.memory, of, &words, &self.extents));
            self.operands.push(bound.map_err(|stop| match stop {
                Stop::Refused(why) => Stop::refused(format!("o{at}: {why}")),
                Stop::Fault(_) => stop,
            })?);
        }
        Ok(())
    }

    fn begin(&mut self, at: usize, dim: Dim, tile: Tile) -> usize {
        let extent = self.extents[dim.index()];
        if extent == 0 {
            return self.code.end_of(at) + 1;
        }
        self.open.push(OpenLoop { begin: at, dim, tile });
        self.tiles.starts[dim.index()] = 0;
        self.tiles.elements[dim.index()] = tile_elements(tile, extent);
        at + 1
    }

    /// The next tile of the innermost loop, or what follows it.
    fn end(&mut self, at: usize) -> usize {
        let Some(&OpenLoop { begin, dim, tile }) = self.open.last() else { return at + 1 };
        let (dim, extent) = (dim.index(), self.extents[dim.index()]);
        let start = self.tiles.starts[dim] + self.tiles.elements[dim];
        if start < extent {
            self.tiles.starts[dim] = start;
            self.tiles.elements[dim] = tile_elements(tile, extent - start);
            return begin + 1;
        }
        self.open.pop();
        // Operands that do not span the dim are not moved by it.
        (self.tiles.starts[dim], self.tiles.elements[dim]) = (0, 0);
        at + 1
    }

    fn step(&mut self, instruction: Instruction) -> Result<(), Stop> {
        match instruction {
            Instruction::Load { target, source } => self.load(target, source),
            Instruction::Store { target, source } => self.store(target, source),
            Instruction::Constant { target, value } => self.fill(target, value),
            Instruction::Scalar { target, scalar } => self.fill_scalar(target, scalar),
            Instruction::Index { target, dim } => self.index(target, dim),
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
            _ => Err(Stop::refused(format!("`{instruction}` is not for this card"))),
        }
    }

    fn load(&mut self, target: Register, source: Operand) -> Result<(), Stop> {
        let of = self.registers.type_of(target);
        let mut tile = std::mem::replace(self.registers.tile_mut(target), Buffer::empty(of.lane));
        let outcome = self.load_tile(source, of.lane, of.span.dims(), &mut tile);
        *self.registers.tile_mut(target) = tile;
        outcome
    }

    /// An operand's current tile, in the order of `dims`, outermost first.
    pub(super) fn load_tile(
        &mut self,
        source: Operand,
        lane: Lane,
        dims: impl IntoIterator<Item = Dim> + Clone,
        target: &mut Buffer,
    ) -> Result<(), Stop> {
        let tensor = tensor(&self.operands, source)?;
        let lengths = dims.clone().into_iter().map(|dim| self.tiles.elements[dim.index()]);
        let elements = lengths.product::<usize>();
        let target = target.resized(elements);
        let converter = Converter::new(tensor.format(), format_of(lane))?;
        if converter.is_copy() {
            tensor.gather(&self.tiles, dims, target)?;
            if lane == Lane::Bool {
                target.iter_mut().for_each(|truth| *truth = u8::from(*truth != 0));
            }
            return Ok(());
        }
        self.raw.resize(elements * tensor.element_bytes(), 0);
        tensor.gather(&self.tiles, dims, &mut self.raw)?;
        Ok(converter.convert(&self.raw, target)?)
    }

    fn store(&mut self, target: Operand, source: Register) -> Result<(), Stop> {
        let (of, tensor) = (self.registers.type_of(source), tensor(&self.operands, target)?);
        let span = self.code.program().operand(target).span;
        let tiles = self.tiles;
        let wide;
        let tile = match self.registers.tile(source) {
            tile if of.span == span => tile,
            tile => {
                wide = tile.spread(&tiles, of.span, span);
                &wide
            }
        };
        let converter = Converter::new(format_of(of.lane), tensor.format())?;
        if converter.is_copy() {
            return tensor.scatter(&tiles, span.dims(), tile.bytes());
        }
        self.raw.resize(tiles.elements_of(span) * tensor.element_bytes(), 0);
        converter.convert(tile.bytes(), &mut self.raw)?;
        tensor.scatter(&tiles, span.dims(), &self.raw)
    }

    fn fill(&mut self, target: Register, value: Constant) -> Result<(), Stop> {
        let of = self.registers.type_of(target);
        let elements = self.tiles.elements_of(of.span);
        match value {
            Constant::Float(value) if of.lane == Lane::F32 => {
                self.registers.fill(target, value as f32, elements);
            }
            Constant::Float(value) => self.registers.fill(target, value, elements),
            Constant::Int(value) => self.registers.fill(target, value, elements),
            Constant::Bool(value) => self.registers.fill(target, u8::from(value), elements),
        }
        Ok(())
    }

    fn fill_scalar(&mut self, target: Register, scalar: ScalarWord) -> Result<(), Stop> {
        let word = self.scalar(scalar);
        let value = Constant::from_word(self.registers.type_of(target).lane, word);
        let value = value
            .ok_or_else(|| Stop::refused(format!("{scalar} is {word}, which is no truth value")))?;
        self.fill(target, value)
    }

    fn index(&mut self, target: Register, dim: Dim) -> Result<(), Stop> {
        let first = self.tiles.starts[dim.index()] as i64;
        let elements = self.tiles.elements[dim.index()] as i64;
        *self.registers.tile_mut(target) = Buffer::I64((first..first + elements).collect());
        Ok(())
    }

    fn convert(&mut self, target: Register, source: Register) -> Result<(), Stop> {
        if target == source {
            return Ok(());
        }
        let [from, to] = [source, target].map(|register| self.registers.type_of(register).lane);
        let converter = Converter::new(format_of(from), format_of(to))?;
        let mut result = std::mem::replace(self.registers.tile_mut(target), Buffer::empty(to));
        let source = self.registers.tile(source);
        let elements = source.bytes().len() / from.element_bytes();
        let converted = converter.convert(source.bytes(), result.resized(elements));
        *self.registers.tile_mut(target) = result;
        Ok(converted?)
    }

    fn round(
        &mut self,
        target: Register,
        source: Register,
        format: DataFormat,
    ) -> Result<(), Stop> {
        let lane = self.registers.type_of(source).lane;
        let narrow = Converter::new(format_of(lane), format)?;
        let widen = Converter::new(format, format_of(lane))?;
        let source = self.registers.tile(source).bytes();
        let elements = source.len() / lane.element_bytes();
        self.raw.resize(elements * format.element_bytes().unwrap_or(1), 0);
        narrow.convert(source, &mut self.raw)?;
        Ok(widen.convert(&self.raw, self.registers.tile_mut(target).resized(elements))?)
    }

    fn scalar(&self, scalar: ScalarWord) -> u64 {
        let at = self.entry.header().shape.scalar_word(scalar);
        self.entry.table().get(at).copied().unwrap_or(0)
    }

    pub(super) fn span_of(&self, operand: Operand) -> Span {
        self.code.program().operand(operand).span
    }
}

/// Loops over an empty dim do not run, so a tensor without elements is never asked for.
fn tensor(operands: &[Option<Tensor>], operand: Operand) -> Result<&Tensor, Stop> {
    let bound = operands.get(operand.index()).and_then(Option::as_ref);
    bound.ok_or_else(|| Stop::refused(format!("{operand} has no elements")))
}

impl Buffer {
    /// A copy that spans more dims.
    fn spread(&self, tiles: &Tiles, from: Span, to: Span) -> Self {
        macro_rules! lane {
            ($lane:ident, $tile:expr) => {{
                let mut wide = Vec::new();
                spread(tiles, $tile, from, to.dims(), &mut wide);
                Self::$lane(wide)
            }};
        }
        match self {
            Self::F32(tile) => lane!(F32, tile),
            Self::F64(tile) => lane!(F64, tile),
            Self::I64(tile) => lane!(I64, tile),
            Self::Bool(tile) => lane!(Bool, tile),
        }
    }
}
