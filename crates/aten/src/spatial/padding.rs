//! Images with borders that are made from what is inside.

use smallvec::{SmallVec, smallvec};

use super::sums::Sums;
use super::windows::ints;
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::views::Numbers;
use crate::{Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[
    ("reflection_pad1d.out", |call| forward(call, 1, true)),
    ("reflection_pad2d", |call| forward(call, 2, true)),
    ("reflection_pad2d.out", |call| forward(call, 2, true)),
    ("reflection_pad3d", |call| forward(call, 3, true)),
    ("reflection_pad3d.out", |call| forward(call, 3, true)),
    ("replication_pad1d.out", |call| forward(call, 1, false)),
    ("replication_pad2d", |call| forward(call, 2, false)),
    ("replication_pad2d.out", |call| forward(call, 2, false)),
    ("replication_pad3d", |call| forward(call, 3, false)),
    ("replication_pad3d.out", |call| forward(call, 3, false)),
    ("reflection_pad1d_backward.grad_input", |call| backward(call, 1, true)),
    ("reflection_pad2d_backward", |call| backward(call, 2, true)),
    ("reflection_pad2d_backward.grad_input", |call| backward(call, 2, true)),
    ("reflection_pad3d_backward.grad_input", |call| backward(call, 3, true)),
    ("replication_pad1d_backward.grad_input", |call| backward(call, 1, false)),
    ("replication_pad2d_backward", |call| backward(call, 2, false)),
    ("replication_pad2d_backward.grad_input", |call| backward(call, 2, false)),
    ("replication_pad3d_backward", |call| backward(call, 3, false)),
    ("replication_pad3d_backward.grad_input", |call| backward(call, 3, false)),
];

/// The shape of an image with its borders, and how wide each is before the image.
fn padded(
    x: &TensorView<'_>,
    call: &Call<'_>,
    at: usize,
    dims: usize,
    reflects: bool,
) -> Result<(Numbers, SmallVec<[i64; 3]>), Decline> {
    lane(x.dtype)?;
    let list = ints(call, at)?;
    let leading = x.size.len().checked_sub(dims);
    let leading = leading.filter(|leading| (1..=2).contains(leading)).ok_or(Decline::Shapes)?;
    if list.len() != 2 * dims || x.size[leading - 1..].contains(&0) {
        return Err(Decline::Shapes);
    }
    let mut size = Numbers::from(&x.size[..leading]);
    let mut before = smallvec![];
    for (dim, &places) in x.size[leading..].iter().enumerate() {
        // The last dim comes first.
        let [first, last] = [0, 1].map(|side| list[2 * (dims - 1 - dim) + side]);
        let places = places as i64;
        let is_near = !reflects || (first < places && last < places);
        let longer = places + first + last;
        if !is_near || longer < 1 {
            return Err(Decline::Shapes);
        }
        size.push(longer as usize);
        before.push(first);
    }
    Ok((size, before))
}

fn numbers(x: &TensorView<'_>, dims: usize, reflects: bool) -> SmallVec<[u32; 8]> {
    smallvec![(x.size.len() - dims) as u32, dims as u32, u32::from(reflects)]
}

/// `pad(x, padding)`.
fn forward(call: &Call<'_>, dims: usize, reflects: bool) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let (size, before) = padded(&x, call, 1, dims, reflects)?;
    let outputs = Outputs::of(call, &[Wanted::image(x.dtype, &size, &x)])?;
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    if !size.contains(&0) {
        let tensors = [(TensorRef::Argument(0), x), outputs.get(0)];
        let numbers = numbers(&x, dims, reflects);
        let mut launch = Generated::launch("image_pad", write_forward, numbers, &tensors)?;
        launch.scalars = before.iter().map(|first| first.cast_unsigned()).collect();
        launches.push(launch);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

/// `pad_backward(grad, x, padding)`.
fn backward(call: &Call<'_>, dims: usize, reflects: bool) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let x = call.tensor(1).ok_or(Decline::Shapes)?;
    let (size, before) = padded(&x, call, 2, dims, reflects)?;
    if grad.size != &size[..] || grad.dtype != x.dtype || Category::of(x.dtype) != Category::Float {
        return Err(Decline::Shapes);
    }
    let sums = Sums::of(Outputs::of(call, &[Wanted::image(x.dtype, x.size, &x)])?);
    let tensors = [(TensorRef::Argument(0), grad), sums.tensor()];
    let numbers = numbers(&x, dims, reflects);
    let adding = (!size.contains(&0))
        .then(|| Generated::launch("image_pad_backward", write_backward, numbers, &tensors));
    let mut adding = adding.transpose()?;
    if let Some(launch) = &mut adding {
        launch.scalars = before.iter().map(|first| first.cast_unsigned()).collect();
    }
    sums.recipe(adding)
}

/// The dims of an image and of one with borders, and the place that each of the latter has inside.
fn write_places(kernel: &Generated, names: [(&str, &str, usize); 2], line: [&str; 2]) -> String {
    let [leading, dims, reflects] = [0, 1, 2].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let n = text.dims("n", leading);
    let o = text.dims("o", dims);
    let x = text.dims("x", dims);
    for (nth, (role, name, of)) in names.into_iter().enumerate() {
        let dims = [n.as_slice(), if of == 0 { &x } else { &o }].concat();
        text.operand(role, name, kernel.dtypes[nth], &dims);
    }
    (0..dims).for_each(|dim| text.line(format_args!("scalar before{dim}: i64")));
    let mut places = n.clone();
    for dim in 0..dims {
        let last = format!("(size(x{dim}) - 1)");
        match reflects {
            1 => {
                text.line(format_args!("j{dim} = abs(o{dim} - before{dim})"));
                text.line(format_args!("at{dim} = {last} - abs({last} - j{dim})"));
            }
            _ => text.line(format_args!("at{dim} = min(max(o{dim} - before{dim}, 0), {last})")),
        }
        places.push(format!("at{dim}"));
    }
    text.line(format_args!("{}[{}]{}", line[0], places.join(", "), line[1]));
    text.kernel(kernel.name)
}

fn write_forward(kernel: &Generated) -> String {
    write_places(kernel, [("in", "x", 0), ("out", "y", 1)], ["y = x", ""])
}

fn write_backward(kernel: &Generated) -> String {
    write_places(kernel, [("in", "g", 1), ("inout", "dx", 0)], ["dx", " += g"])
}
