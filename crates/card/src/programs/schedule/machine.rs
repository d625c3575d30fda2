use std::ops::Range;
use std::slice;

use spyre_artifact::{
    Constant, Dim, Instruction, Lane, MAX_DIMS, Operand, Register, ScalarWord, Span, TableShape,
    Tile,
};
use spyre_layout::store_fence;
use spyre_numerics::Converter;

use crate::memory::MemorySlice;
use crate::programs::access::operand::{Piece, Tensor};
use crate::programs::access::prefetch::Ahead;
use crate::programs::execute::broadcast::spread;
use crate::programs::execute::buffer::{Buffer, Element};
use crate::programs::execute::registers::Registers;
use crate::programs::load::binding::LaunchBinding;
use crate::programs::load::code::LoadedCode;
use crate::programs::schedule::launch_buffers::LaunchBuffers;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tile_cache::{ActiveLoopNest, TileCache};
use crate::programs::schedule::tiles::{Tiles, dims};
use crate::programs::strips::buffers::StripBuffers;
use crate::work::Work;

/// One launch of a compute program.
///
/// Parallel loops over many elements run on several threads, each with a machine of its own. What
/// they compute is the same in any order: that is what makes them parallel.
#[derive(Debug)]
pub(in crate::programs) struct Machine<'a> {
    pub(in crate::programs) work: &'a Work<'a>,
    pub(in crate::programs) code: &'a LoadedCode,
    pub(in crate::programs) binding: &'a LaunchBinding,
    shape: TableShape,
    /// Runs tiles of a parallel loop for another machine.
    pub(in crate::programs) is_helper: bool,
    open: OpenLoops,
    pub(in crate::programs) tiles: Tiles,
    /// The first element of a tile that is a run of memory.
    pub(in crate::programs) flat: Option<usize>,
    pub(in crate::programs) registers: Registers,
    pub(in crate::programs) raw: Vec<u8>,
    pub(in crate::programs) tile_cache: TileCache,
    pub(in crate::programs) strips: StripBuffers,
    pub(in crate::programs) active_nest: Option<ActiveLoopNest>,
    /// True if stores past the cache may still be on their way.
    pub(in crate::programs) has_streamed: bool,
}

/// The loops that are under way, outermost first: each opens a dim of its own.
#[derive(Clone, Copy, Debug)]
struct OpenLoops {
    loops: [OpenLoop; MAX_DIMS],
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct OpenLoop {
    begin: usize,
    dim: Dim,
    tile: Tile,
}

impl<'a> Machine<'a> {
    /// A launch with this binding and these buffers.
    pub(in crate::programs) fn new(
        work: &'a Work<'a>,
        binding: &'a LaunchBinding,
        shape: TableShape,
        buffers: LaunchBuffers,
    ) -> Result<Self, Stop> {
        let code = binding.code()?;
        let LaunchBuffers { mut registers, raw, mut tile_cache, strips } = buffers;
        registers.prepare(code.program());
        tile_cache.clear(code.reuse().values.len());
        let none = OpenLoop { begin: 0, dim: Dim(0), tile: Tile::All };
        let open = OpenLoops { loops: [none; MAX_DIMS], count: 0 };
        let tiles = Tiles::default();
        let is_helper = false;
        let flat = None;
        let active_nest = None;
        Ok(Self {
            work,
            code,
            binding,
            shape,
            is_helper,
            open,
            tiles,
            flat,
            registers,
            raw,
            tile_cache,
            strips,
            active_nest,
            has_streamed: false,
        })
    }

    /// The buffers, for the next launch.
    pub(in crate::programs) fn into_buffers(self) -> LaunchBuffers {
        self.finish_stores();
        LaunchBuffers {
            registers: self.registers,
            raw: self.raw,
            tile_cache: self.tile_cache,
            strips: self.strips,
        }
    }

    /// Another machine that stands where this one does, with buffers of its own.
    pub(in crate::programs) fn helper(&self) -> Machine<'a> {
        let LaunchBuffers { mut registers, raw, mut tile_cache, strips } =
            self.work.programs.buffers();
        registers.prepare(self.code.program());
        tile_cache.clear(self.code.reuse().values.len());
        let Self { work, code, binding, shape, open, tiles, flat, .. } = *self;
        let is_helper = true;
        let active_nest = None;
        Machine {
            work,
            code,
            binding,
            shape,
            is_helper,
            open,
            tiles,
            flat,
            registers,
            raw,
            tile_cache,
            strips,
            active_nest,
            has_streamed: false,
        }
    }

    /// Orders stores past the cache before anything that is reported to other threads next. Loads of this
    /// thread see them anyway.
    pub(in crate::programs) fn finish_stores(&self) {
        if self.has_streamed {
            store_fence();
        }
    }

    /// Runs it to its end, unless the block is to end before.
    pub(in crate::programs) fn run(&mut self) -> Result<(), Stop> {
        match self.binding.flat {
            Some(flat) => self.run_flat(flat),
            None => self.run_body(0..self.code.program().instructions().len()),
        }
    }

    /// Runs some whole loops and instructions.
    pub(in crate::programs) fn run_body(&mut self, body: Range<usize>) -> Result<(), Stop> {
        let instructions = self.code.program().instructions();
        let mut at = body.start;
        while at < body.end {
            self.check_turn()?;
            // Not copied: what is stored whole and read in parts waits for all stores before.
            let instruction = &instructions[at];
            at = match *instruction {
                Instruction::Begin { dim, tile, is_parallel: true }
                    if self.is_worth_sharing(at, dim, tile) =>
                {
                    self.share(at, dim, tile)?;
                    self.code.end_of(at) + 1
                }
                Instruction::Begin { dim, tile, .. } => {
                    if self.code.is_product_loop(at) && self.dot_over_all(at + 1, dim)? {
                        self.code.end_of(at) + 1
                    } else {
                        self.begin(at, dim, tile)
                    }
                }
                Instruction::End => self.end(at),
                Instruction::SkipUnless { scalar, instructions } => match self.scalar(scalar) {
                    0 => at + 1 + instructions as usize,
                    _ => at + 1,
                },
                Instruction::SkipUnlessAny { condition, instructions } => {
                    let is_any = u8::of(self.registers.tile(condition)).contains(&1);
                    at + 1 + if is_any { 0 } else { instructions as usize }
                }
                _ => match self.run_block(at)? {
                    Some(end) => end,
                    None => self.step_or_recall(at, *instruction)?,
                },
            };
        }
        Ok(())
    }

    pub(in crate::programs) fn check_turn(&self) -> Result<(), Stop> {
        if self.work.turn.is_to_end() { Err(self.work.turn.cut_short().into()) } else { Ok(()) }
    }

    fn begin(&mut self, at: usize, dim: Dim, tile: Tile) -> usize {
        let extent = self.binding.extents[dim.index()];
        if extent == 0 {
            return self.code.end_of(at) + 1;
        }
        self.open.loops[self.open.count] = OpenLoop { begin: at, dim, tile };
        self.open.count += 1;
        self.tiles.starts[dim.index()] = 0;
        self.tiles.elements[dim.index()] = self.binding.steps.elements(dim, tile, extent);
        self.begin_nest(at);
        at + 1
    }

    /// The next tile of the innermost loop, or what follows it.
    fn end(&mut self, at: usize) -> usize {
        self.end_nest_tile(at);
        let open = &self.open.loops[..self.open.count];
        let Some(&OpenLoop { begin, dim, tile }) = open.last() else { return at + 1 };
        let at_dim = dim.index();
        let extent = self.binding.extents[at_dim];
        let start = self.tiles.starts[at_dim] + self.tiles.elements[at_dim];
        if start < extent {
            self.tiles.starts[at_dim] = start;
            self.tiles.elements[at_dim] = self.binding.steps.elements(dim, tile, extent - start);
            return begin + 1;
        }
        self.end_nest(at);
        self.open.count -= 1;
        // Operands that do not span the dim are not moved by it.
        (self.tiles.starts[at_dim], self.tiles.elements[at_dim]) = (0, 0);
        at + 1
    }

    /// Carries out an instruction, unless what it makes is kept from a loop before. The next one's place
    /// comes back.
    fn step_or_recall(&mut self, at: usize, instruction: Instruction) -> Result<usize, Stop> {
        let is_in_nest = self.active_nest.is_some();
        if is_in_nest && self.recalls(self.code.reuse().mark_of(at)) {
            return Ok(at + 1);
        }
        self.step(at, instruction)?;
        if is_in_nest {
            self.keep(self.code.reuse().mark_of(at));
        }
        Ok(at + 1)
    }

    pub(in crate::programs) fn step(
        &mut self,
        at: usize,
        instruction: Instruction,
    ) -> Result<(), Stop> {
        match instruction {
            Instruction::Load { .. } if self.code.is_of_factor(at) => Ok(()),
            Instruction::Load { target, source } => self.load(at, target, source),
            Instruction::Store { target, source } => self.store(at, target, source),
            Instruction::Gather { target, source, at: place, keeps_outside } => {
                self.gather(at, target, source, &place, keeps_outside)
            }
            Instruction::Scatter { op, target, source, at: place, mask } => {
                self.scatter(at, op, target, (source, mask), &place)
            }
            Instruction::Constant { target, value } => self.fill(target, value),
            Instruction::Scalar { target, scalar } => self.fill_scalar(target, scalar),
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
            Instruction::Convert { target, source } => self.convert(at, target, source),
            Instruction::Round { target, source, .. } => self.round(at, target, source),
            Instruction::Reduce { op, target, source } => self.reduce(op, target, source),
            Instruction::Dot { target, left, right, k } => self.dot(at, target, [left, right], k),
            Instruction::Scan { op, target, source, carry, dim } => {
                self.scan(op, target, source, carry, dim)
            }
            Instruction::Seek { op, value, place, source, dim } => {
                self.seek(op, value, place, source, dim)
            }
            Instruction::Order { op, places, values, source, dim } => {
                self.order(op, places, values, source, dim)
            }
            Instruction::Multiply { target, left, right } => self.multiply(at, target, left, right),
            _ => Err(Stop::refused(format!("`{instruction}` is not for this card"))),
        }
    }

    fn load(&mut self, at: usize, target: Register, source: Operand) -> Result<(), Stop> {
        let from = self.tensor(source)?;
        let converter = self.code.converter(at, 0)?;
        let along = dims(self.registers.type_of(target).span);
        let tiles = &self.tiles;
        let run = self.run_of(source, from.0);
        let pieces = run.as_ref().map(slice::from_ref).or(self.binding.plan.at(at));
        let tile = self.registers.tile_mut(target);
        let raw = &mut self.raw;
        load(from, tiles, converter, along, pieces, tile, raw)
    }

    /// An operand's current tile, in the order of `along`, outermost first; `pieces` are where it
    /// lies, if that is known.
    pub(in crate::programs) fn load_tile(
        &mut self,
        source: Operand,
        converter: &Converter,
        along: impl IntoIterator<Item = Dim> + Clone,
        pieces: Option<&[Piece]>,
        target: &mut Buffer,
    ) -> Result<(), Stop> {
        let from = self.tensor(source)?;
        load(from, &self.tiles, converter, along, pieces, target, &mut self.raw)
    }

    fn store(&mut self, at: usize, target: Operand, source: Register) -> Result<(), Stop> {
        let of = self.registers.type_of(source);
        let span = self.code.program().operand(target).span;
        // Taken out: the tile may be stored by way of buffers of the machine.
        let tile = self.registers.lend(source);
        let stored = if of.span == span {
            self.store_tile(at, target, &tile)
        } else {
            self.store_tile(at, target, &tile.spread(&self.tiles, of.span, span))
        };
        *self.registers.tile_mut(source) = tile;
        stored
    }

    /// Stores an operand's current tile by the store at a place.
    pub(in crate::programs) fn store_tile(
        &mut self,
        at: usize,
        target: Operand,
        tile: &Buffer,
    ) -> Result<(), Stop> {
        let (tensor, part) = self.tensor(target)?;
        let span = self.span_of(target);
        let tiles = &self.tiles;
        let run = self.run_of(target, tensor);
        let converter = self.code.converter(at, 0)?;
        let raw = &mut self.raw;
        let mut store = |piece| tensor.store(part, piece, converter, tile.bytes(), raw);
        match run.as_ref().map(slice::from_ref).or(self.binding.plan.at(at)) {
            Some(pieces) => pieces.iter().try_for_each(|&piece| store(piece)),
            None => tensor.each_series(tiles, dims(span), |series| {
                if tensor.store_sticks(part, series, converter, tile.bytes()) {
                    Ok(())
                } else {
                    series.pieces().try_for_each(&mut store)
                }
            }),
        }?;
        self.has_streamed |= tensor.is_streamed();
        Ok(())
    }

    /// Piece that an operand's tile is, if it is a run of memory.
    #[inline]
    fn run_of(&self, operand: Operand, tensor: &Tensor) -> Option<Piece> {
        let first = self.flat?;
        Some(tensor.run(first, self.tiles.elements_of(self.span_of(operand))))
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
        let tile = i64::of_mut(self.registers.tile_mut(target));
        tile.clear();
        tile.extend(first..first + elements);
        Ok(())
    }

    fn extent(&mut self, target: Register, dim: Dim) -> Result<(), Stop> {
        self.registers.fill(target, self.binding.extents[dim.index()] as i64, 1);
        Ok(())
    }

    fn convert(&mut self, at: usize, target: Register, source: Register) -> Result<(), Stop> {
        if target == source {
            return Ok(());
        }
        let mut result = self.registers.lend(target);
        let from = self.registers.type_of(source).lane;
        let source = self.registers.tile(source);
        let elements = source.bytes().len() / from.element_bytes();
        let converter = self.code.converter(at, 0)?;
        let converted = converter.convert(source.bytes(), result.resized(elements));
        *self.registers.tile_mut(target) = result;
        Ok(converted?)
    }

    fn round(&mut self, at: usize, target: Register, source: Register) -> Result<(), Stop> {
        let lane = self.registers.type_of(source).lane;
        let narrow = self.code.converter(at, 0)?;
        let widen = self.code.converter(at, 1)?;
        let source = self.registers.tile(source).bytes();
        let elements = source.len() / lane.element_bytes();
        self.raw.resize(elements * narrow.to().element_bytes().unwrap_or(1), 0);
        narrow.convert(source, &mut self.raw)?;
        Ok(widen.convert(&self.raw, self.registers.tile_mut(target).resized(elements))?)
    }

    fn scalar(&self, scalar: ScalarWord) -> u64 {
        let at = self.shape.scalar_word(scalar);
        self.binding.table().get(at).copied().unwrap_or(0)
    }

    /// Loops over an empty dim do not run, so a tensor without elements is never asked for.
    pub(in crate::programs) fn tensor(
        &self,
        operand: Operand,
    ) -> Result<(&'a Tensor, MemorySlice<'a>), Stop> {
        let bound = self.binding.tensor(operand);
        bound.ok_or_else(|| Stop::refused(format!("{operand} has no elements")))
    }

    pub(in crate::programs) fn span_of(&self, operand: Operand) -> Span {
        self.code.program().operand(operand).span
    }
}

/// A tensor's current tile, in the order of `along`.
fn load(
    (tensor, part): (&Tensor, MemorySlice<'_>),
    tiles: &Tiles,
    converter: &Converter,
    along: impl IntoIterator<Item = Dim> + Clone,
    pieces: Option<&[Piece]>,
    target: &mut Buffer,
    raw: &mut Vec<u8>,
) -> Result<(), Stop> {
    let lengths = along.clone().into_iter().map(|dim| tiles.elements[dim.index()]);
    let lane = target.lane();
    let tile = target.resized(lengths.product());
    let mut load = |piece, tile: &mut [u8]| tensor.load(part, piece, converter, tile, raw);
    match pieces {
        Some(pieces) => pieces.iter().try_for_each(|&piece| load(piece, tile))?,
        None => {
            let mut ahead = Ahead::default();
            tensor.each_series(tiles, along, |series| {
                if tensor.load_sticks(part, series, converter, tile) {
                    return Ok(());
                }
                series.pieces().try_for_each(|piece| {
                    tensor.prefetch(part, piece);
                    ahead.push(piece).map_or(Ok(()), |piece| load(piece, tile))
                })
            })?;
            ahead.rest().try_for_each(|piece| load(piece, tile))?;
        }
    }
    if lane == Lane::Bool && converter.is_copy() {
        tile.iter_mut().for_each(|truth| *truth = u8::from(*truth != 0));
    }
    Ok(())
}

impl Buffer {
    /// A copy that spans more dims.
    fn spread(&self, tiles: &Tiles, from: Span, to: Span) -> Self {
        macro_rules! lane {
            ($lane:ident, $tile:expr) => {{
                let mut wide = Vec::new();
                spread(tiles, $tile, from, dims(to), &mut wide);
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
