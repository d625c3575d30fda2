//! Functions that tests of recipes share.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use spyre_aten::{Argument, Call, Decline, Op, Recipe, TensorRef, TensorView};
use spyre_compiler::{CompileOptions, Kernel};
use spyre_numerics::DType::{self, Float32};

pub(crate) fn tensor<'a>(dtype: DType, size: &'a [usize], stride: &'a [usize]) -> Argument<'a> {
    Argument::Tensor(TensorView { dtype, size, stride, offset: 0 })
}

pub(crate) fn recipe(
    name: &str,
    arguments: &[Argument<'_>],
    written: &[usize],
) -> Result<Recipe, Decline> {
    let op = Op::named(name).unwrap_or_else(|| panic!("{name} is no op"));
    op.recipe(&Call { arguments, written, default: Float32 })
}

/// The recipe of a call, all of whose kernels compile, and whose views stay inside of what is made.
pub(crate) fn compiles(name: &str, arguments: &[Argument<'_>], written: &[usize]) -> Recipe {
    let recipe = recipe(name, arguments, written).unwrap_or_else(|error| panic!("{name}: {error}"));
    for launch in &recipe.launches {
        let text = launch.kernel.text();
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        let plan = kernel.compile(&CompileOptions::default());
        plan.unwrap_or_else(|error| panic!("{error}\n{text}"));
        for operand in &launch.operands {
            let TensorRef::Result(at) = operand.place else { continue };
            let result = &recipe.results[at];
            // A view of complex numbers counts their parts.
            let parts = if spyre_aten::part_of(result.dtype) == result.dtype { 1 } else { 2 };
            let room = parts * result.size.iter().product::<usize>();
            let steps = operand.size.iter().zip(&operand.stride);
            let last: usize = steps.map(|(size, stride)| (size - 1) * stride).sum();
            assert!(operand.offset + last < room, "{name}: {operand:?} in {room}\n{text}");
        }
    }
    recipe
}

/// The texts of a call's kernels, all of which compile.
pub(crate) fn texts(name: &str, arguments: &[Argument<'_>], written: &[usize]) -> Vec<String> {
    let recipe = compiles(name, arguments, written);
    recipe.launches.iter().map(|launch| launch.kernel.text()).collect()
}

/// The text of the only kernel of a call, which compiles.
pub(crate) fn text(name: &str, arguments: &[Argument<'_>], written: &[usize]) -> String {
    let texts = texts(name, arguments, written);
    let [text] = &texts[..] else { panic!("{name} has {} kernels", texts.len()) };
    text.clone()
}
