//! Ops that treat the two parts of complex numbers alike and apart from each other: they move elements,
//! or add them up. Such a call is two calls with real numbers, which lie in the same memory.

use smallvec::SmallVec;
use spyre_artifact::Constant;
use spyre_numerics::DType;

use crate::dtypes::{Category, is_complex, part_of, promoted};
use crate::recipe::{Function, OperandView, Recipe, TensorRef};
use crate::{Argument, Call, Decline, Number, TensorView};

/// An op of this kind.
struct PartwiseOp {
    name: &'static str,
    /// Argument that is a value: of a number, a part is given.
    value: Option<usize>,
    /// Numbers of 16-bit parts have no kernel: PyTorch has none for them.
    is_wide: bool,
}

const fn all(name: &'static str) -> PartwiseOp {
    PartwiseOp { name, value: None, is_wide: false }
}

const fn wide(name: &'static str) -> PartwiseOp {
    PartwiseOp { is_wide: true, ..all(name) }
}

impl PartwiseOp {
    const fn given(self, value: usize) -> Self {
        Self { value: Some(value), ..self }
    }

    fn takes(&self, call: &Call<'_>, dtype: DType) -> bool {
        is_apart(call) && !(self.is_wide && dtype == DType::Complex32)
    }
}

const OPS: &[PartwiseOp] = &[
    all("_index_put_impl_"),
    all("cat.out"),
    wide("cumsum.out"),
    all("fill_.Scalar").given(1),
    wide("flip"),
    wide("gather.out"),
    all("index.Tensor"),
    all("index.Tensor_out"),
    all("index_add.out"),
    all("index_copy.out"),
    all("index_fill_.int_Scalar").given(3),
    all("index_select"),
    all("index_select.out"),
    wide("reflection_pad1d_backward.grad_input"),
    wide("reflection_pad2d_backward"),
    wide("reflection_pad2d_backward.grad_input"),
    wide("reflection_pad3d_backward.grad_input"),
    wide("replication_pad1d_backward.grad_input"),
    wide("replication_pad2d_backward"),
    wide("replication_pad2d_backward.grad_input"),
    wide("replication_pad3d_backward"),
    wide("replication_pad3d_backward.grad_input"),
    all("roll"),
    wide("scatter.reduce_out"),
    wide("scatter.src_out"),
    wide("scatter.value_out").given(3),
    wide("scatter.value_reduce_out").given(3),
    wide("scatter_add.out"),
    wide("sum.IntList_out"),
    all("tril.out"),
    all("triu.out"),
    all("zero_"),
];

/// Returns the recipe of a call of `function`, which knows real numbers alone.
pub(crate) fn recipe(name: &str, function: Function, call: &Call<'_>) -> Result<Recipe, Decline> {
    let Some(dtype) = tensors(call.argument(0)).map(|tensor| tensor.dtype).find(|d| is_complex(*d))
    else {
        return function(call);
    };
    let Some(op) = OPS.iter().find(|op| op.name == name) else { return function(call) };
    if !op.takes(call, dtype) {
        return Err(Decline::DType { dtype });
    }
    // Both parts are multiplied by a real factor.
    let value = op.value.filter(|_| !multiplies(call));
    let mut whole = Recipe::default();
    for part in 0..2 {
        let Recipe { results, launches } = part_recipe(function, call, value, part)?;
        whole.results = results;
        whole.launches.extend(launches);
    }
    for result in whole.results.iter_mut().filter(|result| is_of_parts(result.dtype)) {
        result.dtype = promoted(result.dtype, DType::Complex32);
    }
    Ok(whole)
}

/// Returns true if the parts have nothing to do with each other: all that is not an index or a mask is
/// complex, and nothing is multiplied by a complex number.
fn is_apart(call: &Call<'_>) -> bool {
    let is_complex = |at: usize| tensors(call.argument(at)).all(|x| is_complex(x.dtype));
    let is_real = |argument: &Argument<'_>| match argument {
        Argument::Number(number) => !number.is_complex(),
        _ => false,
    };
    is_complex(0)
        && call.written.iter().all(|&at| is_complex(at))
        && !call.arguments.iter().any(|&x| tensors(x).any(|x| is_of_parts(x.dtype)))
        && (!multiplies(call) || is_real(&call.argument(3)))
}

/// Returns true if values are multiplied with what they are put on.
fn multiplies(call: &Call<'_>) -> bool {
    call.arguments.iter().any(|argument| matches!(argument, Argument::String("multiply")))
}

fn is_of_parts(dtype: DType) -> bool {
    Category::of(dtype) == Category::Float
}

fn tensors<'a>(argument: Argument<'a>) -> impl Iterator<Item = TensorView<'a>> {
    let (single, several) = match argument {
        Argument::Tensor(tensor) => (Some(tensor), &[][..]),
        Argument::Tensors(list) => (None, list),
        _ => (None, &[][..]),
    };
    single.into_iter().chain(several.iter().copied().flatten())
}

/// The recipe of the call of one part, with views of that part.
fn part_recipe(
    function: Function,
    call: &Call<'_>,
    value: Option<usize>,
    part: usize,
) -> Result<Recipe, Decline> {
    let lists = call.arguments.iter().map(|argument| match argument {
        Argument::Tensors(list) => list.iter().map(|tensor| tensor.map(seen_as_part)).collect(),
        _ => Vec::new(),
    });
    let lists: SmallVec<[Vec<Option<TensorView<'_>>>; 8]> = lists.collect();
    let arguments = call.arguments.iter().zip(&lists).enumerate();
    let arguments = arguments.map(|(at, (&argument, list))| match argument {
        Argument::Tensor(tensor) => Argument::Tensor(seen_as_part(tensor)),
        Argument::Tensors(_) => Argument::Tensors(list),
        Argument::Number(number) if value == Some(at) => {
            Argument::Number(part_of_number(number, part))
        }
        other => other,
    });
    let arguments: SmallVec<[Argument<'_>; 8]> = arguments.collect();
    let mut recipe = function(&Call { arguments: &arguments, ..*call })?;
    for launch in &mut recipe.launches {
        for view in &mut launch.operands {
            if is_complex_at(call, &recipe.results, view.place) {
                move_to_part(view, part);
            }
        }
    }
    Ok(recipe)
}

fn seen_as_part(tensor: TensorView<'_>) -> TensorView<'_> {
    TensorView { dtype: part_of(tensor.dtype), ..tensor }
}

fn part_of_number(number: Number, part: usize) -> Number {
    let value = if part == 0 { number.value } else { Constant::Float(number.imaginary) };
    Number { value, imaginary: 0.0, dtype: number.dtype.map(part_of) }
}

fn is_complex_at(call: &Call<'_>, made: &[crate::ResultShape], place: TensorRef) -> bool {
    let is_complex = |tensor: TensorView<'_>| is_complex(tensor.dtype);
    match place {
        TensorRef::Argument(at) => call.tensor(at).is_some_and(is_complex),
        TensorRef::Item(at, item) => match call.argument(at) {
            Argument::Tensors(list) => list.get(item).copied().flatten().is_some_and(is_complex),
            _ => false,
        },
        TensorRef::Result(at) => is_of_parts(made[at].dtype),
    }
}

/// A view that counts numbers becomes one that counts parts.
fn move_to_part(view: &mut OperandView, part: usize) {
    view.stride.iter_mut().for_each(|stride| *stride *= 2);
    view.offset = 2 * view.offset + part;
}
