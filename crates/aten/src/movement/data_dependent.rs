//! Ops whose results are as long as their elements say. The caller has counted these elements already.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use crate::generated::{Generated, Text};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind. All their tensors but results are vectors.
pub(crate) const OPS: &[(&str, Function)] = &[
    // x, how many elements x has along each dim, result
    ("spyre::nonzero", nonzero),
    // x, mask, result
    ("spyre::masked_select", |call| masked(call, "masked_select", write_select)),
    // x, mask, source
    ("spyre::masked_scatter", |call| masked(call, "masked_scatter", write_scatter)),
];

fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<(TensorRef, TensorView<'a>), Decline> {
    let tensor = call.tensor(argument);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor" })?;
    Ok((TensorRef::Argument(argument), tensor))
}

/// The coordinates of elements that are not zero.
fn nonzero(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = tensor(call, 0)?;
    let y = tensor(call, 2)?;
    let Argument::Ints(sizes) = call.argument(1) else {
        return Err(Decline::Argument { argument: 1, expected: "sizes" });
    };
    let numbers = smallvec![sizes.len() as u32];
    let mut launch = Generated::launch("nonzero", write_nonzero, numbers, &[x, y])?;
    let mut step = 1;
    let mut words: SmallVec<[u64; 16]> = smallvec![];
    for &size in sizes.iter().rev() {
        words.extend([size.cast_unsigned(), step]);
        step *= size.cast_unsigned();
    }
    launch.scalars.extend(words.into_iter().rev());
    Ok(Recipe { launches: smallvec![launch], ..Recipe::default() })
}

fn write_nonzero(kernel: &Generated) -> String {
    let mut text = Text::default();
    text.named("i, n, k");
    text.line(format_args!("in x: {}[i]", kernel.dtypes[0]));
    text.line(format_args!("out y: {}[n, k]", kernel.dtypes[1]));
    for dim in 0..kernel.numbers[0] {
        text.line(format_args!("scalar step{dim}: i64"));
        text.line(format_args!("scalar size{dim}: i64"));
    }
    let is = if kernel.dtypes[0] == DType::Bool { "x" } else { "x != 0" };
    text.line(format_args!("is = {is}"));
    text.line(format_args!("at = scan_sum<i>(i64(is)) - 1"));
    for dim in 0..kernel.numbers[0] {
        text.line(format_args!("y[at, {dim}] = (i // step{dim}) % size{dim} if is"));
    }
    text.kernel(kernel.name)
}

fn masked(
    call: &Call<'_>,
    name: &'static str,
    write: fn(&Generated) -> String,
) -> Result<Recipe, Decline> {
    let tensors = [tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?];
    let launch = Generated::launch(name, write, smallvec![], &tensors)?;
    Ok(Recipe { launches: smallvec![launch], ..Recipe::default() })
}

fn write_select(kernel: &Generated) -> String {
    let mut text = Text::default();
    text.named("i, n");
    text.line(format_args!("in x: {}[i]", kernel.dtypes[0]));
    text.line(format_args!("in mask: {}[i]", kernel.dtypes[1]));
    text.line(format_args!("out y: {}[n]", kernel.dtypes[2]));
    text.line(format_args!("at = scan_sum<i>(i64(mask)) - 1"));
    text.line(format_args!("y[at] = x if mask"));
    text.kernel(kernel.name)
}

fn write_scatter(kernel: &Generated) -> String {
    let mut text = Text::default();
    text.named("i, n");
    text.line(format_args!("inout y: {}[i]", kernel.dtypes[0]));
    text.line(format_args!("in mask: {}[i]", kernel.dtypes[1]));
    text.line(format_args!("in source: {}[n]", kernel.dtypes[2]));
    text.line(format_args!("at = scan_sum<i>(i64(mask)) - 1"));
    text.line(format_args!("y = source[where(mask, at, 0)] if mask"));
    text.kernel(kernel.name)
}
