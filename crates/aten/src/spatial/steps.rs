//! Recipes of several launches, with memory for what lies between them.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Lane;
use spyre_numerics::DType;

use super::channels::launch;
use crate::dtypes::lane;
use crate::generated::{Generated, Text};
use crate::recipe::{Launch, OperandView, Recipe, ResultShape, TensorRef};
use crate::views::{Loops, Numbers, like};
use crate::{Decline, TensorView};

/// Recipe so far: tensors that are made, and launches. Results come before temporary tensors.
#[derive(Debug, Default)]
pub(super) struct Steps(Recipe);

/// A part of a tensor: what its elements are, and where they lie.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) dtype: DType,
    pub(super) view: OperandView,
}

impl Block {
    /// All of a tensor.
    pub(super) fn of(place: TensorRef, tensor: &TensorView<'_>) -> Self {
        let size = tensor.size.into();
        let stride = tensor.stride.into();
        Self { dtype: tensor.dtype, view: OperandView { place, size, stride, offset: 0 } }
    }

    /// Views the elements with other dims.
    pub(super) fn seen_as(&self, dims: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let (size, stride) = dims.into_iter().unzip();
        Self { dtype: self.dtype, view: OperandView { size, stride, ..self.view } }
    }

    /// Moves the first element by so many elements. The dims stay.
    pub(super) fn from(mut self, elements: usize) -> Self {
        self.view.offset += elements;
        self
    }

    pub(super) fn operand(&self) -> (DType, OperandView) {
        (self.dtype, self.view.clone())
    }

    fn is_empty(&self) -> bool {
        self.view.size.contains(&0)
    }
}

impl Steps {
    /// Makes a tensor that lies row by row: a result, as long as the op has more, or a temporary one.
    pub(super) fn make(&mut self, dtype: DType, size: &[usize]) -> Block {
        self.make_as(dtype, size, &like(size, &[]))
    }

    /// Makes a tensor like [`make`](Self::make) does, with these strides.
    pub(super) fn make_as(&mut self, dtype: DType, size: &[usize], stride: &[usize]) -> Block {
        let place = TensorRef::Result(self.0.results.len());
        self.0.results.push(ResultShape { dtype, size: size.into(), stride: stride.into() });
        Block::of(place, &TensorView { dtype, size, stride, offset: 0 })
    }

    pub(super) fn push(&mut self, launch: Launch) {
        self.0.launches.push(launch);
    }

    /// Sets all elements to zero.
    pub(super) fn clear(&mut self, target: &Block) -> Result<(), Decline> {
        if target.is_empty() {
            return Ok(());
        }
        let loops = Loops::over(&target.view.size, smallvec![target.view.stride.clone()])?;
        let numbers = smallvec![loops.size.len() as u32];
        let operands = smallvec![looped(target, &loops, 0).operand()];
        self.push(launch("image_zeros", write_zeros, numbers, operands)?);
        Ok(())
    }

    /// Copies one block to another of the same size.
    pub(super) fn copy(&mut self, source: &Block, target: &Block) -> Result<(), Decline> {
        self.put(source, target, false)
    }

    /// Adds one block to another of the same size.
    pub(super) fn add(&mut self, source: &Block, target: &Block) -> Result<(), Decline> {
        self.put(source, target, true)
    }

    fn put(&mut self, source: &Block, target: &Block, adds: bool) -> Result<(), Decline> {
        if target.is_empty() {
            return Ok(());
        }
        let strides = smallvec![source.view.stride.clone(), target.view.stride.clone()];
        let loops = Loops::over(&target.view.size, strides)?;
        let numbers = smallvec![loops.size.len() as u32, u32::from(adds)];
        let operands =
            smallvec![looped(source, &loops, 0).operand(), looped(target, &loops, 1).operand()];
        self.push(launch("image_copy", write_copy, numbers, operands)?);
        Ok(())
    }

    /// Begins with a recipe that makes the results of a call.
    pub(super) fn after(recipe: Recipe) -> Self {
        Self(recipe)
    }

    pub(super) fn into_recipe(self) -> Recipe {
        self.0
    }
}

/// A block in the order of loops, of which it is one operand.
fn looped(block: &Block, loops: &Loops, at: usize) -> Block {
    block.seen_as(loops.size.iter().copied().zip(loops.strides[at].iter().copied()))
}

/// The name of the lane that a dtype is computed in.
pub(super) fn lane_of(dtype: DType) -> &'static str {
    lane(dtype).map_or("f32", Lane::name)
}

pub(super) fn write_zeros(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("out", "y", kernel.dtypes[0], &own);
    text.line(format_args!("y = {}(0)", lane_of(kernel.dtypes[0])));
    text.kernel(kernel.name)
}

fn write_copy(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let (role, sum) = if kernel.numbers[1] == 1 { ("inout", "y + ") } else { ("out", "") };
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand(role, "y", kernel.dtypes[1], &own);
    text.line(format_args!("y = {sum}{}(x)", lane_of(kernel.dtypes[1])));
    text.kernel(kernel.name)
}

/// Sizes and strides of a tensor that lies row by row.
pub(super) fn rows_of(size: &[usize]) -> SmallVec<[(usize, usize); 8]> {
    let stride: Numbers = like(size, &[]);
    size.iter().copied().zip(stride).collect()
}
