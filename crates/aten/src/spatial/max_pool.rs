//! The largest of each window, and where it is.

use smallvec::smallvec;
use spyre_numerics::DType;

use super::channels::launch;
use super::pooling::{Pool, check_float, leading, pool_launch, write_begin, write_scalars};
use super::steps::{Block, Steps, lane_of, rows_of};
use super::sums::Sums;
use super::taps::{Nothing, Taps, are_few, make_row, operands};
use super::windows::Windows;
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::{Call, Decline, TensorView};

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
    let ceils = call.boolean(5).unwrap_or(false);
    forward(call, &Pool::sliding(call, dims, 1, true)?, ceils)
}

fn forward(call: &Call<'_>, pool: &Pool, ceils: bool) -> Result<Recipe, Decline> {
    let x = source(call)?;
    if pool.is_shared() {
        check_float(x.dtype)?;
    }
    let size = pool.result_size(&x, ceils)?;
    let wanted = [x.dtype, DType::Int64].map(|dtype| Wanted::image(dtype, &size, &x));
    let outputs = Outputs::of(call, &wanted)?;
    if let Some(windows) = taken_one_by_one(pool, &x, &size, &outputs)? {
        return one_by_one(x, &windows, outputs);
    }
    let launch = (!size.contains(&0)).then(|| {
        let leading = leading(&x, pool.dims())?;
        let sizes = pool.sizes(&x.size[leading..]);
        let [(y_place, y), (at_place, at)] = [outputs.get(0), outputs.get(1)];
        let tensors = [(TensorRef::Argument(0), x), (y_place, y), (at_place, at)];
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

/// The windows of a pool that is taken place by place; `None` where one kernel looks all places up.
fn taken_one_by_one(
    pool: &Pool,
    x: &TensorView<'_>,
    size: &[usize],
    outputs: &Outputs<'_>,
) -> Result<Option<Windows>, Decline> {
    let is_plain = outputs.get(0).1.dtype == x.dtype && outputs.get(1).1.dtype == DType::Int64;
    if size.contains(&0) || !is_plain {
        return Ok(None);
    }
    let leading = leading(x, pool.dims())?;
    Ok(pool.even(&x.size[leading..]).filter(are_few))
}

/// Compares what windows see place by place. Keeps the largest, and its distance from the begin of
/// its window.
fn one_by_one(
    x: TensorView<'_>,
    windows: &Windows,
    outputs: Outputs<'_>,
) -> Result<Recipe, Decline> {
    let [y, at] =
        [0, 1].map(|nth| outputs.get(nth)).map(|(place, tensor)| Block::of(place, &tensor));
    let mut steps = Steps::after(outputs.into_recipe());
    let size = y.view.size.clone();
    let image = Block::of(TensorRef::Argument(0), &x);
    let taps = Taps::of(&mut steps, windows, image, &size, Nothing::Least)?;
    let best = make_row(&mut steps, x.dtype, &size);
    let far = make_row(&mut steps, DType::Int64, &size);
    let leading = size.len() - windows.len();
    taps.each(&mut steps, |steps, nth, seen| {
        let (name, write): (_, fn(&Generated) -> String) = match nth {
            0 => ("max_pool_first", write_first),
            _ => ("max_pool_next", write_next),
        };
        let mut launch = launch(name, write, smallvec![], operands([&seen, &best, &far]))?;
        launch.scalars.push(distance(windows, &x.size[leading..], nth) as u64);
        steps.push(launch);
        Ok(())
    })?;
    let [best, far] = [best, far].map(|row| row.seen_as(rows_of(&size)));
    steps.copy(&best, &y)?;
    steps.push(places(windows, &x, &far, &at)?);
    Ok(steps.into_recipe())
}

/// Elements of an image that lies row by row from where a window begins to the `nth` of its places.
fn distance(windows: &Windows, places: &[usize], nth: usize) -> usize {
    let mut rest = nth;
    let mut row = 1;
    let mut distance = 0;
    for (window, &places) in windows.iter().zip(places).rev() {
        distance += rest % window.size * window.dilation * row;
        rest /= window.size;
        row *= places;
    }
    distance
}

fn write_first(kernel: &Generated) -> String {
    let mut text = Text::default();
    write_compared(&mut text, kernel, "out");
    text.line(format_args!("y = x"));
    text.line(format_args!("far = here"));
    text.kernel(kernel.name)
}

fn write_next(kernel: &Generated) -> String {
    let mut text = Text::default();
    write_compared(&mut text, kernel, "inout");
    let is_float = Category::of(kernel.dtypes[0]) == Category::Float;
    let nan = if is_float { " | is_nan(x)" } else { "" };
    text.line(format_args!("more = (x > y){nan}"));
    text.line(format_args!("best = where(more, x, y)"));
    text.line(format_args!("best_far = where(more, here, far)"));
    text.line(format_args!("y = best"));
    text.line(format_args!("far = best_far"));
    text.kernel(kernel.name)
}

fn write_compared(text: &mut Text, kernel: &Generated, role: &str) {
    let own = text.dims("i", 1);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand(role, "y", kernel.dtypes[1], &own);
    text.operand(role, "far", kernel.dtypes[2], &own);
    text.line(format_args!("scalar here: i64"));
}

/// Makes places of an image of distances from where windows begin.
fn places(
    windows: &Windows,
    x: &TensorView<'_>,
    far: &Block,
    at: &Block,
) -> Result<Launch, Decline> {
    let leading = x.size.len() - windows.len();
    let is_framed = windows.iter().any(|window| window.padding > 0);
    // Windows that do not move along a dim need no loop for it.
    let moves = |dim: &usize| far.view.size[leading + dim] > 1;
    let moving = (0..windows.len()).filter(moves).fold(0, |mask, dim| mask | 1 << dim);
    let dims = |block: &Block| {
        let view = &block.view;
        let is_kept = |dim: &usize| *dim < leading || moves(&(dim - leading));
        let kept = (0..view.size.len()).filter(is_kept);
        block.seen_as(kept.map(|dim| (view.size[dim], view.stride[dim])))
    };
    let numbers = smallvec![leading as u32, windows.len() as u32, moving, u32::from(is_framed)];
    let operands = operands([&dims(far), &dims(at)]);
    let mut launch = launch("max_pool_places", write_places_of, numbers, operands)?;
    for (window, &places) in windows.iter().zip(&x.size[leading..]) {
        let words = [window.step, window.padding, window.dilation, places];
        launch.scalars.extend(words.map(|number| number as u64));
    }
    Ok(launch)
}

fn write_places_of(kernel: &Generated) -> String {
    let [leading, dims, moving, framed] = [0, 1, 2, 3].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let n = text.dims("n", leading);
    let o: Vec<String> =
        (0..dims).filter(|dim| moving >> dim & 1 == 1).map(|dim| format!("o{dim}")).collect();
    o.iter().for_each(|dim| text.named(dim));
    let all = [n, o].concat();
    text.operand("in", "far", kernel.dtypes[0], &all);
    text.operand("out", "at", kernel.dtypes[1], &all);
    for dim in 0..dims {
        for letter in ["s", "p", "d", "w"] {
            text.line(format_args!("scalar {letter}{dim}_: i64"));
        }
    }
    for dim in 0..dims {
        let begin =
            if moving >> dim & 1 == 1 { format!("o{dim} * s{dim}_") } else { "0".to_owned() };
        text.line(format_args!("b{dim} = {begin} - p{dim}_"));
        text.line(format_args!(
            "f{dim} = where(b{dim} < 0, b{dim} + (d{dim}_ - 1 - b{dim}) // d{dim}_ * d{dim}_, b{dim})"
        ));
    }
    let flat = |name: &str| {
        let row = |flat, dim| format!("({flat}) * w{dim}_ + {name}{dim}");
        (1..dims).fold(format!("{name}0"), row)
    };
    text.line(format_args!("begin = {}", flat("b")));
    if framed == 1 {
        // Where no place of a window is more than the frame, the first that there is.
        text.line(format_args!("first = {}", flat("f")));
        text.line(format_args!("at = where(far == 0, first, begin + far)"));
    } else {
        text.line(format_args!("at = begin + far"));
    }
    text.kernel(kernel.name)
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
    let n = text.dims("n", leading);
    let o = text.dims("o", dims);
    let k = text.dims("k", 1);
    let x = text.dims("x", dims);
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
    let grad = source(call)?;
    let x = tensor(1)?;
    let indices_of = tensor(indices)?;
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
        let places = [TensorRef::Argument(0), TensorRef::Argument(indices)];
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
    let n = text.dims("n", leading);
    let o = text.dims("o", dims);
    let x = text.dims("x", dims);
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
