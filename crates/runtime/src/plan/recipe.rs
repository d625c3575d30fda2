use std::collections::BTreeMap;

use smallvec::SmallVec;
use spyre_artifact::{
    Binding, CompilerOutput, CorrectionWord, Dim, Instruction, Intermediate, IntermediateDim,
    MAX_DIMS, Operand, OperandField, Program, ScalarWord, Span, Step, TableShape, TensorMetadata,
    TileFlag,
};
use spyre_hal::Label;

/// Recipe for a launch of one step: all that does not depend on tensors.
#[derive(Debug)]
pub(crate) struct StepRecipe {
    pub(crate) label: Label,
    pub(crate) correction_label: Label,
    pub(crate) table: TableShape,
    pub(crate) dims: SmallVec<[StepDim; MAX_DIMS]>,
    /// Dims from the outermost to the innermost of a tiled launch: reductions run innermost, so that
    /// one partial result is enough.
    pub(crate) order: SmallVec<[u8; MAX_DIMS]>,
    pub(crate) operands: Vec<OperandRecipe>,
    pub(crate) input: Vec<InputRun>,
    pub(crate) input_words: usize,
    /// True if the input is the table as it is, with flags in the place of scalars.
    pub(crate) is_whole_table: bool,
    /// The scalars that launches are given, in this order, and where the step's begin.
    pub(crate) scalars: Vec<ScalarWord>,
    pub(crate) first_scalar: usize,
}

/// A dim that the step's program walks over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepDim {
    /// Number of the dim in the plan.
    pub(crate) plan_dim: usize,
    /// True if a result does not have it.
    pub(crate) is_reduction: bool,
    /// True if the program gets a flag for the first tile.
    pub(crate) has_flags: bool,
    /// True if its extent is patched at launch, so that any part of a tile will do.
    pub(crate) has_extent: bool,
}

/// Recipe for one of the program's operands.
#[derive(Debug)]
pub(crate) struct OperandRecipe {
    pub(crate) binding: Binding,
    /// Dims of the program, and the dimensions of the tensor that they move along.
    pub(crate) moves: SmallVec<[(u8, u32); MAX_DIMS]>,
    pub(crate) span: Span,
    pub(crate) is_written: bool,
    /// Memory that lives within one tile, and does not move.
    pub(crate) is_local: bool,
    /// True if the program computes coordinates, which may be anywhere in the tensor.
    pub(crate) is_indexed: bool,
    /// True if the program stores every element of the tensor, whatever the data.
    stores_all: bool,
}

impl OperandRecipe {
    /// Number of the operand's word that is the stride along one of its dims.
    pub(crate) fn stride_word(&self, dim: u8) -> usize {
        OperandField::Stride(self.span.place(Dim(dim)) as u8).word()
    }
}

/// Some words of a correction's input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InputRun {
    /// Words of the table, from one place to another.
    Table { from: usize, to: usize, words: usize },
    /// A flag for the tile's place along a dim.
    Flag { to: usize, dim: usize, flag: TileFlag },
}

impl StepRecipe {
    /// Returns true if the step stores every element of a tensor, whatever the data.
    pub(crate) fn stores_all_of(&self, binding: Binding) -> bool {
        self.operands.iter().any(|operand| operand.binding == binding && operand.stores_all)
    }

    /// The recipes of all steps; `dims` says which dim of the plan a name is.
    pub(crate) fn all(output: &CompilerOutput, dims: &BTreeMap<&str, u32>) -> Vec<Self> {
        let mut first_scalar = 0;
        let steps = steps_of_intermediates(output);
        let recipe = |at| {
            let recipe = Self::new(output, dims, &steps, at, first_scalar);
            first_scalar += recipe.scalars.len();
            recipe
        };
        (0..output.steps.len()).map(recipe).collect()
    }

    fn new(
        output: &CompilerOutput,
        dims: &BTreeMap<&str, u32>,
        steps: &[u32],
        at: usize,
        first_scalar: usize,
    ) -> Self {
        let step = &output.steps[at];
        let words = &output.correction_metadata[at].words;
        let program = output.program(step.compute).expect("a plan that was checked");
        let table = program.table_shape();
        let operands: Vec<_> = step
            .bindings
            .iter()
            .zip(program.operands())
            .enumerate()
            .map(|(at, (&binding, operand))| OperandRecipe {
                binding,
                moves: moves(output, step, binding, operand.span),
                span: operand.span,
                is_written: operand.access.writes(),
                is_local: is_local(steps, binding),
                is_indexed: is_indexed(program, Operand(at as u8)),
                stores_all: stores_all(program, Operand(at as u8)),
            })
            .collect();
        let input = input_runs(words, table);
        let stays = |run: &InputRun| match run {
            InputRun::Table { from, to, .. } => from == to,
            InputRun::Flag { .. } => true,
        };
        let scalars = words.iter().filter_map(|word| match word {
            CorrectionWord::Scalar(scalar) => Some(*scalar),
            _ => None,
        });
        let dims = step_dims(step, dims, &operands, words);
        let mut order: SmallVec<[u8; MAX_DIMS]> = (0..dims.len() as u8).collect();
        order.sort_by_key(|&dim| dims[usize::from(dim)].is_reduction);
        Self {
            label: Label::named(&step.name),
            correction_label: Label::named(&format!("{}.correction", step.name)),
            table,
            dims,
            order,
            operands,
            is_whole_table: words.len() == table.words() && input.iter().all(stays),
            input,
            input_words: words.len(),
            scalars: scalars.collect(),
            first_scalar,
        }
    }
}

/// An intermediate that only one step names holds nothing from tile to tile but partial sums.
fn is_local(steps: &[u32], binding: Binding) -> bool {
    matches!(binding, Binding::Intermediate(at) if steps[at as usize] == 1)
}

fn is_indexed(program: &Program, operand: Operand) -> bool {
    program.instructions().iter().any(|instruction| match *instruction {
        Instruction::Gather { source, .. } => source == operand,
        Instruction::Scatter { target, .. } => target == operand,
        _ => false,
    })
}

/// Returns true if the program has a store of the operand's tiles that no data can skip.
fn stores_all(program: &Program, operand: Operand) -> bool {
    let mut skipped = 0_u32;
    program.instructions().iter().any(|instruction| {
        let is_certain = skipped == 0;
        skipped = skipped.saturating_sub(1);
        match *instruction {
            Instruction::SkipUnlessAny { instructions, .. } => {
                skipped = skipped.max(instructions);
                false
            }
            Instruction::Store { target, .. } => target == operand && is_certain,
            _ => false,
        }
    })
}

/// Per intermediate, how many steps name it.
fn steps_of_intermediates(output: &CompilerOutput) -> Vec<u32> {
    let mut steps = vec![0; output.intermediates.len()];
    for step in &output.steps {
        for (at, &binding) in step.bindings.iter().enumerate() {
            if let Binding::Intermediate(intermediate) = binding
                && !step.bindings[..at].contains(&binding)
            {
                steps[intermediate as usize] += 1;
            }
        }
    }
    steps
}

fn moves(
    output: &CompilerOutput,
    step: &Step,
    binding: Binding,
    span: Span,
) -> SmallVec<[(u8, u32); MAX_DIMS]> {
    let name = |dim: usize| match binding {
        Binding::Tensor(at) => output.tensor_input_metadata[at as usize].name_of(dim),
        Binding::Intermediate(at) => output.intermediates[at as usize].name_of(dim),
    };
    let rank = match binding {
        Binding::Tensor(at) => output.tensor_input_metadata[at as usize].dims.len(),
        Binding::Intermediate(at) => output.intermediates[at as usize].dims.len(),
    };
    let moved_by = |dim: usize| {
        let at = step.dims.iter().position(|known| Some(known.as_str()) == name(dim))?;
        span.contains(Dim(at as u8)).then_some((at as u8, dim as u32))
    };
    (0..rank).filter_map(moved_by).collect()
}

trait NameOf {
    fn name_of(&self, dim: usize) -> Option<&str>;
}

impl NameOf for TensorMetadata {
    fn name_of(&self, dim: usize) -> Option<&str> {
        Some(&self.dims.get(dim)?.name)
    }
}

impl NameOf for Intermediate {
    fn name_of(&self, dim: usize) -> Option<&str> {
        match self.dims.get(dim)? {
            IntermediateDim::Named(name) => Some(name),
            IntermediateDim::Fixed(_) => None,
        }
    }
}

fn step_dims(
    step: &Step,
    dims: &BTreeMap<&str, u32>,
    operands: &[OperandRecipe],
    words: &[CorrectionWord],
) -> SmallVec<[StepDim; MAX_DIMS]> {
    let results = || operands.iter().filter(|operand| operand.is_written && !operand.is_local);
    let names = |word: CorrectionWord| words.contains(&word);
    let dim = |(at, name): (usize, &String)| {
        let dim = Dim(at as u8);
        StepDim {
            plan_dim: dims[name.as_str()] as usize,
            is_reduction: results().any(|operand| !operand.span.contains(dim)),
            has_flags: [TileFlag::First, TileFlag::NotFirst]
                .into_iter()
                .any(|flag| names(CorrectionWord::Flag(dim, flag))),
            has_extent: names(CorrectionWord::Extent(dim)),
        }
    };
    step.dims.iter().enumerate().map(dim).collect()
}

/// Joins words that lie side by side in the table and in the input.
fn input_runs(words: &[CorrectionWord], table: TableShape) -> Vec<InputRun> {
    let mut runs = Vec::new();
    for (to, &word) in words.iter().enumerate() {
        match (word.table_word(table), word, runs.last_mut()) {
            (Some(at), _, Some(InputRun::Table { from, to: first, words }))
                if *from + *words == at && *first + *words == to =>
            {
                *words += 1;
            }
            (Some(from), ..) => runs.push(InputRun::Table { from, to, words: 1 }),
            (None, CorrectionWord::Flag(dim, flag), _) => {
                runs.push(InputRun::Flag { to, dim: dim.index(), flag });
            }
            (None, ..) => {}
        }
    }
    runs
}
