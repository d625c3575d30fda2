//! The largest of each window, and where it is.

use smallvec::smallvec;
use spyre_numerics::DType;

use super::pooling::{Pool, leading, pool_launch, write_begin, write_scalars};
use super::steps::lane_of;
use super::sums::Sums;
use crate::dtypes::lane;
use crate::generated::{Generated, Text};
use crate::op::Function;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::{Launch, Place, Recipe};
use crate::reductions::source;
use crate::{Call, Decline};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[
    ("max_pool2d_with_indices.out", |call| sliding(call, 2)),
    ("max_pool3d_with_indices", |call| sliding(call, 3)),
    ("max_pool3d_with_indices.out", |call| sliding(call, 3)),
    ("adaptive_max_pool2d.out", |call| forward(call, &Pool::shared(call, 2, 1)?, false)),
    ("adaptive_max_pool3d.out", |call| forward(call, &Pool::shared(call, 3, 1)?, false)),
    ("max_pool2d_with_indices_backward.grad_input", |call| backward(call, 7, 2)),
    ("max_pool3d_with_indices_backward", |call| backward(call, 7, 3)),
    ("max_pool3d_with_indices_backward.grad_input", |call| backward(call, 7, 3)),
    ("adaptive_max_pool2d_backward.grad_input", |call| backward(call, 2, 2)),
    ("adaptive_max_pool3d_backward.grad_input", |call| backward(call, 2, 3)),
];

fn sliding(call: &Call<'_>, dims: usize) -> Result<Recipe, Decline> {
    let ceils = call.truth(5).unwrap_or(false);
    forward(call, &Pool::sliding(call, dims, 1, true)?, ceils)
}

fn forward(call: &Call<'_>, pool: &Pool, ceils: bool) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let size = pool.result_size(&x, ceils)?;
    let wanted = [x.dtype, DType::Int64].map(|dtype| Wanted::image(dtype, &size, &x));
    let outputs = Outputs::of(call, &wanted)?;
    let launch = (!size.contains(&0)).then(|| {
        let leading = leading(&x, pool.dims())?;
        let sizes = pool.sizes(&x.size[leading..]);
        let [(y_place, y), (at_place, at)] = [outputs.get(0), outputs.get(1)];
        let tensors = [(Place::Argument(0), x), (y_place, y), (at_place, at)];
        let numbers = smallvec![leading as u32, pool.dims() as u32, u32::from(pool.is_shared())];
        let all = [sizes.iter().product()];
        let mut launch = pool_launch("max_pool", write_forward, numbers, &tensors, &all)?;
        launch.scalars = pool.words(&sizes);
        Ok::<Launch, Decline>(launch)
    });
    let launch = launch.transpose()?;
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launch);
    Ok(recipe)
}

/// The place along each dim of the `nth` of a window, as `{name}{dim}`.
fn write_places(text: &mut Text, dims: usize, name: &str, nth: &str) {
    let mut rest = nth.to_owned();
    for dim in (0..dims).rev() {
        let step = format!("{name}{dim}");
        match dim {
            0 => text.line(format_args!("{step} = {rest} * 1")),
            _ => text.line(format_args!("{step} = {rest} % z{dim}_")),
        }
        rest = format!("({rest} // z{dim}_)");
    }
}

fn write_forward(kernel: &Generated) -> String {
    let [leading, dims, shared] = [0, 1, 2].map(|at| kernel.numbers[at] as usize);
    let is_shared = shared == 1;
    let mut text = Text::default();
    let (n, o) = (text.dims("n", leading), text.dims("o", dims));
    let (k, x) = (text.dims("k", 1), text.dims("x", dims));
    let [of_x, of_y] = [&x, &o].map(|dims| [n.as_slice(), dims].concat());
    text.operand("in", "x", kernel.dtypes[0], &of_x);
    text.operand("in", "window", kernel.dtypes[1], &k);
    text.operand("out", "y", kernel.dtypes[2], &of_y);
    text.operand("out", "indices", kernel.dtypes[3], &of_y);
    write_scalars(&mut text, dims, is_shared);
    write_places(&mut text, dims, "t", "k0");
    for (dim, o) in o.iter().enumerate() {
        write_begin(&mut text, dim, is_shared, o);
        // The first place of a window that there is, so that ties lead to one inside.
        if is_shared {
            text.line(format_args!("f{dim} = b{dim} * 1"));
            text.line(format_args!("a{dim} = f{dim} + t{dim}"));
            text.line(format_args!("at{dim} = where(a{dim} < e{dim}, a{dim}, -1)"));
        } else {
            text.line(format_args!(
                "f{dim} = where(b{dim} < 0, b{dim} + (d{dim}_ - 1 - b{dim}) // d{dim}_ * d{dim}_, b{dim})"
            ));
            text.line(format_args!("a{dim} = f{dim} + t{dim} * d{dim}_"));
            text.line(format_args!("e{dim} = b{dim} + (z{dim}_ - 1) * d{dim}_"));
            text.line(format_args!("at{dim} = where(a{dim} <= e{dim}, a{dim}, -1)"));
        }
    }
    let places = |name: &str| {
        let places = (0..dims).map(|dim| format!("{name}{dim}"));
        n.iter().cloned().chain(places).collect::<Vec<_>>().join(", ")
    };
    text.line(format_args!("v = x[{}] else {}(-inf)", places("at"), lane_of(kernel.dtypes[0])));
    text.line(format_args!("best = argmax<k0>(v)"));
    write_places(&mut text, dims, "u", "best");
    for dim in 0..dims {
        let dilation = if is_shared { String::new() } else { format!(" * d{dim}_") };
        text.line(format_args!("h{dim} = f{dim} + u{dim}{dilation}"));
    }
    text.line(format_args!("y = x[{}]", places("h")));
    let flat =
        (1..dims).fold("h0".to_owned(), |flat, dim| format!("({flat}) * size(x{dim}) + h{dim}"));
    text.line(format_args!("indices = {flat}"));
    text.kernel(kernel.name)
}

/// Gradients go to where the largest were.
fn backward(call: &Call<'_>, indices: usize, dims: usize) -> Result<Recipe, Decline> {
    let tensor = |at| call.tensor(at).ok_or(Decline::Shapes);
    let (grad, x, indices_of) = (source(call)?, tensor(1)?, tensor(indices)?);
    let leading = leading(&x, dims)?;
    let is_alike = grad.size == indices_of.size
        && grad.size.len() == x.size.len()
        && grad.size[..leading] == x.size[..leading]
        && grad.dtype == x.dtype
        && indices_of.dtype == DType::Int64;
    if !is_alike {
        return Err(Decline::Shapes);
    }
    lane(grad.dtype)?;
    let sums = Sums::of(Outputs::of(call, &[Wanted::image(x.dtype, x.size, &x)])?);
    let adding = (!grad.size.contains(&0)).then(|| {
        let places = [Place::Argument(0), Place::Argument(indices)];
        let tensors = [(places[0], grad), (places[1], indices_of), sums.tensor()];
        let numbers = smallvec![leading as u32, dims as u32];
        Generated::launch("max_pool_backward", write_backward, numbers, &tensors)
    });
    let adding = adding.transpose()?;
    sums.recipe(adding)
}

fn write_backward(kernel: &Generated) -> String {
    let [leading, dims] = [0, 1].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let (n, o, x) = (text.dims("n", leading), text.dims("o", dims), text.dims("x", dims));
    let [of_x, of_y] = [&x, &o].map(|dims| [n.as_slice(), dims].concat());
    text.operand("in", "g", kernel.dtypes[0], &of_y);
    text.operand("in", "index", kernel.dtypes[1], &of_y);
    text.operand("inout", "dx", kernel.dtypes[2], &of_x);
    let mut rest = "index".to_owned();
    let mut places: Vec<String> = Vec::new();
    for dim in (0..dims).rev() {
        let place = if dim == 0 { rest.clone() } else { format!("{rest} % size(x{dim})") };
        places.insert(0, place);
        rest = format!("({rest} // size(x{dim}))");
    }
    let all = [n, places].concat().join(", ");
    text.line(format_args!("dx[{all}] += g"));
    text.kernel(kernel.name)
}
