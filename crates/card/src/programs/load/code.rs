use std::fmt;

use spyre_artifact::{Code, Instruction, Lane, Program, Span};
use spyre_numerics::{Converter, DataFormat, Specials};

use crate::programs::execute::buffer::format_of;
use crate::programs::load::factors::{self, TensorFactor};
use crate::programs::schedule::reuse::ReuseAnalysis;
use crate::programs::schedule::stop::Stop;
use crate::programs::strips::plan::BlockPlan;

/// A verified program, and what is looked up while it runs.
pub(in crate::programs) struct LoadedCode {
    program: Program,
    steps: Vec<Step>,
    /// Bit i: operand i is accessed at coordinates that registers hold.
    indexed: u32,
    /// Bit i: operand i is a side of a product.
    multiplied: u32,
    /// The dims that loops go over.
    walked: Span,
    reuse: ReuseAnalysis,
    blocks: Vec<BlockPlan>,
}

/// Data that is derived from an instruction.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Index of its `End`, for a `Begin`.
    end: usize,
    /// True for a `Begin` at which no register holds a value: helpers can start with none.
    may_fork: bool,
    /// Converter there, and back again if it goes both ways; those of both sides of a product.
    converters: [Option<Converter>; 2],
    /// Plan of the block that begins here.
    block: Option<u16>,
    /// Right side of a product of registers, if the product takes it from where it lies.
    factor: Option<TensorFactor>,
    /// True for a load whose tile only a product reads that takes it from where it lies.
    is_of_factor: bool,
}

impl LoadedCode {
    /// Compute programs only: what else code images hold has its own images.
    pub(in crate::programs) fn new(code: &Code) -> Result<Self, Stop> {
        let program = match code {
            Code::Compute(program) => program.clone(),
            Code::Correction(_) => return Err(Stop::refused("its code is a correction")),
        };
        let mut steps = vec![Step::default(); program.instructions().len()];
        // Whether each open loop, and the program around them, has written registers so far. What a
        // loop has written does not count after its end.
        let mut open = Vec::new();
        let mut has_values = vec![false];
        let mut indexed = 0_u32;
        let mut multiplied = 0_u32;
        let mut walked = Span::NONE;
        for (at, &instruction) in program.instructions().iter().enumerate() {
            match instruction {
                Instruction::Begin { dim, .. } => {
                    walked = walked.with(dim);
                    steps[at].may_fork = !has_values.contains(&true);
                    open.push(at);
                    has_values.push(false);
                }
                Instruction::End => {
                    steps[open.pop().unwrap_or(at)].end = at;
                    has_values.pop();
                }
                Instruction::SkipUnless { .. }
                | Instruction::SkipUnlessAny { .. }
                | Instruction::Store { .. } => {}
                Instruction::Scatter { target, .. } => indexed |= 1 << target.index(),
                _ => has_values.iter_mut().last().into_iter().for_each(|has| *has = true),
            }
            if let Instruction::Gather { source, .. } = instruction {
                indexed |= 1 << source.index();
            }
            if let Instruction::Dot { left, right, .. } = instruction {
                multiplied |= 1 << left.index() | 1 << right.index();
            }
            steps[at].converters = converters(&program, instruction)?;
        }
        let reuse = ReuseAnalysis::of(&program);
        for (at, factor) in factors::all(&program, &reuse) {
            multiplied |= 1 << factor.right.operand.index();
            steps[at].factor = Some(factor);
            steps[factor.right.at].is_of_factor = true;
        }
        let is_idle = |at: usize| steps[at].is_of_factor;
        let blocks = BlockPlan::all(&program, &reuse, &is_idle);
        for (nth, block) in blocks.iter().enumerate() {
            steps[block.range.start].block = u16::try_from(nth).ok();
        }
        Ok(Self { program, steps, indexed, multiplied, walked, reuse, blocks })
    }

    pub(in crate::programs) fn program(&self) -> &Program {
        &self.program
    }

    /// Returns true if an operand is accessed at coordinates that registers hold.
    pub(in crate::programs) fn is_indexed(&self, operand: usize) -> bool {
        self.indexed >> operand & 1 == 1
    }

    /// Returns true if an operand is a side of a product.
    pub(in crate::programs) fn is_multiplied(&self, operand: usize) -> bool {
        self.multiplied >> operand & 1 == 1
    }

    /// The dims that loops go over: others are only as long as some tensor.
    pub(in crate::programs) fn walked(&self) -> Span {
        self.walked
    }

    /// Values that loops keep for later loops.
    #[inline]
    pub(in crate::programs) fn reuse(&self) -> &ReuseAnalysis {
        &self.reuse
    }

    /// Index of the end of the loop that begins here.
    pub(in crate::programs) fn end_of(&self, begin: usize) -> usize {
        self.steps[begin].end
    }

    /// Returns true if the loop that begins here holds a product of tensors and nothing else.
    pub(in crate::programs) fn is_product_loop(&self, begin: usize) -> bool {
        let body = &self.program.instructions()[begin..];
        matches!(body, [Instruction::Begin { .. }, Instruction::Dot { .. }, Instruction::End, ..])
    }

    /// Returns true if the tiles of the loop that begins here can start without registers.
    pub(in crate::programs) fn may_fork(&self, begin: usize) -> bool {
        self.steps[begin].may_fork
    }

    /// Right side of the product of registers here, if it takes it from where it lies.
    pub(in crate::programs) fn factor(&self, at: usize) -> Option<TensorFactor> {
        self.steps[at].factor
    }

    /// Returns true for a load whose tile only such a product reads: there is nothing to do.
    pub(in crate::programs) fn is_of_factor(&self, load: usize) -> bool {
        self.steps[load].is_of_factor
    }

    /// Plan of the block that begins here, if some of it runs strip by strip.
    #[inline]
    pub(in crate::programs) fn block_at(&self, at: usize) -> Option<&BlockPlan> {
        Some(&self.blocks[usize::from(self.steps[at].block?)])
    }

    /// Returns true if some of it runs strip by strip.
    pub(in crate::programs) fn has_strips(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Converter of the elements of the instruction here.
    pub(in crate::programs) fn converter(&self, at: usize, nth: usize) -> Result<&Converter, Stop> {
        let converter = self.steps[at].converters[nth].as_ref();
        converter.ok_or_else(|| Stop::refused("it converts nothing"))
    }
}

impl fmt::Debug for LoadedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadedCode({} instructions)", self.steps.len())
    }
}

fn converters(
    program: &Program,
    instruction: Instruction,
) -> Result<[Option<Converter>; 2], spyre_numerics::Error> {
    let lane = |register| program.register(register).lane;
    let format = |operand| program.operand(operand).format;
    let between = |from, to| {
        Converter::new(from, to).map(|converter| Some(converter.with_specials(Specials::Ordered)))
    };
    let load = |format: DataFormat, lane: Lane| between(format, format_of(lane));
    Ok(match instruction {
        Instruction::Load { target, source } | Instruction::Gather { target, source, .. } => {
            [load(format(source), lane(target))?, None]
        }
        Instruction::Store { target, source } => {
            [between(format_of(lane(source)), format(target))?, None]
        }
        Instruction::Scatter { target, source, .. } => {
            [between(format_of(lane(source)), format(target))?, load(format(target), lane(source))?]
        }
        Instruction::Convert { target, source } => {
            [between(format_of(lane(source)), format_of(lane(target)))?, None]
        }
        Instruction::Round { source, format, .. } => {
            let own = format_of(lane(source));
            [between(own, format)?, between(format, own)?]
        }
        Instruction::Dot { target, left, right, .. } => {
            [load(format(left), lane(target))?, load(format(right), lane(target))?]
        }
        _ => [None, None],
    })
}
