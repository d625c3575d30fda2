//! Words that a launch gives a correction program as input.

use smallvec::SmallVec;
use spyre_artifact::{
    Binding, Dim, ExpectedSize, IntermediateDim, OPERAND_WORDS, Operand, OperandField,
};
use spyre_hal::{DeviceHandle, StreamPoint};
use spyre_layout::{SpyreTensorLayout, View};
use zerocopy::IntoBytes;

use crate::binary::note_use;
use crate::definition::Definition;
use crate::fit::Fit;
use crate::recipe::{InputRun, OperandRecipe, StepRecipe};
use crate::tiles::Tiles;
use crate::{Error, SpyreStream, SpyreTensor, StorageLayout, TensorMemory};

/// Tables and inputs of a stream's launches, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Words {
    table: Vec<u64>,
    input: Vec<u64>,
    intermediates: Vec<Option<Held>>,
}

/// An intermediate of the last launch.
#[derive(Debug)]
struct Held {
    view: View,
    memory: TensorMemory,
}

/// Sizes of an intermediate.
pub(crate) type Sizes = SmallVec<[usize; 8]>;

/// An operand's words and its view.
struct BoundOperand<'a> {
    words: &'a [u64; OPERAND_WORDS],
    view: &'a View,
}

impl Words {
    /// Sees to it that the plan's intermediates are there, and have these sizes.
    #[inline]
    pub(crate) fn hold_intermediates(
        &mut self,
        definition: &Definition,
        sizes: &[Sizes],
        stream: &SpyreStream,
        last: Option<StreamPoint>,
    ) -> Result<(), Error> {
        self.intermediates.resize_with(sizes.len(), || None);
        for (at, sizes) in sizes.iter().enumerate() {
            if self.intermediates[at].as_ref().is_some_and(|held| held.view.size() == &sizes[..]) {
                continue;
            }
            if let (Some(old), Some(last)) = (self.intermediates[at].take(), last) {
                note_use(stream.device(), old.memory.range().handle, last);
            }
            let format = definition.output().intermediates[at].format;
            let layout = SpyreTensorLayout::contiguous(sizes, format)?;
            let memory = TensorMemory::for_tensor(stream, StorageLayout::of_programs(layout))?;
            self.intermediates[at] = Some(Held { view: View::contiguous(sizes)?, memory });
        }
        Ok(())
    }

    /// Handle of an intermediate.
    pub(crate) fn intermediate(&self, at: u32) -> Option<DeviceHandle> {
        Some(self.intermediates.get(at as usize)?.as_ref()?.memory.range().handle)
    }

    /// Notes that launches up to this one use the intermediates.
    pub(crate) fn note_uses(&self, last: StreamPoint) {
        for held in self.intermediates.iter().flatten() {
            note_use(held.memory.device(), held.memory.range().handle, last);
        }
    }

    /// Fills the table with all that is the same in every tile.
    pub(crate) fn fill(&mut self, recipe: &StepRecipe, tensors: &[SpyreTensor], scalars: &[u64]) {
        let mut table = std::mem::take(&mut self.table);
        table.resize(recipe.table.words(), 0);
        table[recipe.table.extent_word(Dim(0))..].fill(0);
        for (at, operand) in recipe.operands.iter().enumerate() {
            let Some(place) = self.place(operand.binding, tensors) else { continue };
            let words = &mut table[recipe.table.operand_words(Operand(at as u8))];
            words.copy_from_slice(place.words);
            words[OperandField::Offset.word()] = place.view.offset() as u64;
            for &(dim, along) in &operand.moves {
                // A dim that a tensor has twice moves along both: its diagonal.
                words[operand.stride_word(dim)] += place.view.stride()[along as usize] as u64;
            }
        }
        for (scalar, value) in recipe.scalars.iter().zip(&scalars[recipe.first_scalar..]) {
            table[recipe.table.scalar_word(*scalar)] = *value;
        }
        self.table = table;
    }

    /// The bytes that a correction is given for a tile.
    pub(crate) fn input(
        &mut self,
        recipe: &StepRecipe,
        tensors: &[SpyreTensor],
        tiles: &Tiles<'_>,
    ) -> &[u8] {
        if tiles.are_many() {
            self.move_operands(recipe, tensors, tiles);
        }
        for dim in 0..recipe.dims.len() {
            self.table[recipe.table.extent_word(Dim(dim as u8))] = tiles.extent(dim);
        }
        if !recipe.is_whole_table {
            return self.gather(recipe, tiles);
        }
        for run in &recipe.input {
            if let InputRun::Flag { to, dim, flag } = *run {
                self.table[to] = tiles.holds(dim, flag).into();
            }
        }
        self.table.as_bytes()
    }

    /// The table, as it was filled last.
    pub(crate) fn table(&self) -> &[u64] {
        &self.table
    }

    /// The words of the table that a correction asks for, in its order.
    fn gather(&mut self, recipe: &StepRecipe, tiles: &Tiles<'_>) -> &[u8] {
        self.input.resize(recipe.input_words, 0);
        for run in &recipe.input {
            match *run {
                InputRun::Table { from, to, words } => {
                    self.input[to..to + words].copy_from_slice(&self.table[from..from + words]);
                }
                InputRun::Flag { to, dim, flag } => {
                    self.input[to] = tiles.holds(dim, flag).into();
                }
            }
        }
        self.input.as_bytes()
    }

    /// Has operands begin where the tile does.
    fn move_operands(&mut self, recipe: &StepRecipe, tensors: &[SpyreTensor], tiles: &Tiles<'_>) {
        for (at, operand) in recipe.operands.iter().enumerate() {
            let Some(offset) = self.offset(at, operand, tensors, tiles) else { continue };
            let word = recipe.table.operand_word(Operand(at as u8), OperandField::Offset);
            self.table[word] = offset;
        }
    }

    /// Host elements before an operand's tile; `None` if it does not move.
    fn offset(
        &self,
        at: usize,
        operand: &OperandRecipe,
        tensors: &[SpyreTensor],
        tiles: &Tiles<'_>,
    ) -> Option<u64> {
        if operand.is_local {
            return None;
        }
        let view = self.place(operand.binding, tensors)?.view;
        let words = &self.table[at * OPERAND_WORDS..];
        let dims: SmallVec<[u8; 8]> = operand.moves.iter().map(|&(dim, _)| dim).collect();
        let mut offset = view.offset() as u64;
        for (nth, &dim) in dims.iter().enumerate() {
            if !dims[..nth].contains(&dim) {
                let stride = words[operand.stride_word(dim)];
                offset += tiles.start(usize::from(dim)) * stride;
            }
        }
        Some(offset)
    }

    fn place<'a>(
        &'a self,
        binding: Binding,
        tensors: &'a [SpyreTensor],
    ) -> Option<BoundOperand<'a>> {
        match binding {
            Binding::Tensor(at) => {
                let tensor = tensors.get(at as usize)?;
                Some(BoundOperand {
                    words: tensor.memory().operand_words().ok()?,
                    view: tensor.view(),
                })
            }
            Binding::Intermediate(at) => {
                let held = self.intermediates.get(at as usize)?.as_ref()?;
                Some(BoundOperand { words: held.memory.operand_words().ok()?, view: &held.view })
            }
        }
    }
}

/// Sizes of a plan's intermediates.
pub(crate) fn intermediate_sizes(definition: &Definition, fit: &Fit) -> SmallVec<[Sizes; 1]> {
    (0..definition.output().intermediates.len()).map(|at| sizes(definition, fit, at)).collect()
}

/// Sizes of an intermediate: one tile if only one step uses it.
fn sizes(definition: &Definition, fit: &Fit, at: usize) -> Sizes {
    let binding = Binding::Intermediate(at as u32);
    let mut operands = definition.recipes().iter().flat_map(|recipe| &recipe.operands);
    let is_local =
        operands.find(|operand| operand.binding == binding).is_some_and(|known| known.is_local);
    let size = |dim: &IntermediateDim| match dim {
        IntermediateDim::Fixed(elements) => *elements as usize,
        IntermediateDim::Named(name) => {
            let known = definition.dims().iter().position(|known| known.name == *name);
            let Some(plan_dim) = known else { return 0 };
            let extent = fit.extents[plan_dim];
            match definition.dims()[plan_dim].size {
                ExpectedSize::Fixed(tile) if is_local => extent.min(tile.get()) as usize,
                _ => extent as usize,
            }
        }
    };
    definition.output().intermediates[at].dims.iter().map(size).collect()
}
