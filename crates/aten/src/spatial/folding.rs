//! Conversion of an image to columns that hold what windows see, and back: `unfold` and `fold`.

use smallvec::SmallVec;
use spyre_numerics::DType;

use super::steps::{Block, Steps};
use super::windows::{Windows, each, ints, met, windows};
use crate::dtypes::{Category, lane};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::{Call, Decline};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[("im2col", unfold), ("col2im", fold)];

fn windows_of(call: &Call<'_>, at: usize) -> Result<Windows, Decline> {
    let [sizes, dilations, paddings, steps] = [at, at + 1, at + 2, at + 3].map(|at| ints(call, at));
    let lists = [sizes?, steps?, paddings?, dilations?];
    let all = windows(2, lists).ok_or(Decline::Shapes)?;
    if lists[1].is_empty() { Err(Decline::Shapes) } else { Ok(all) }
}

/// Batch, channels and two dims of places, whether or not there is a batch.
fn batched(block: &Block) -> Option<SmallVec<[(usize, usize); 4]>> {
    let view = &block.view;
    let dims = view.size.iter().copied().zip(view.stride.iter().copied());
    match view.size.len() {
        3 => Some(std::iter::once((1, 0)).chain(dims).collect()),
        4 => Some(dims.collect()),
        _ => None,
    }
}

/// Returns, for every place of a window, the part of an image and the part of columns that it is.
/// Columns are `columns[batch, channels, taps, windows]`, with these strides.
fn pairs(
    image: &Block,
    columns: &Block,
    windows: &Windows,
    [batch, row]: [usize; 2],
) -> Option<Vec<[Block; 2]>> {
    let dims = batched(image)?;
    let counts = [0, 1].map(|dim| windows[dim].count(dims[2 + dim].0));
    let [counts_y, counts_x] = [counts[0]?, counts[1]?];
    let taps = windows[0].size * windows[1].size;
    let mut all = Vec::with_capacity(taps);
    for tap in 0..taps {
        let y = tap / windows[1].size;
        let x = tap % windows[1].size;
        let down = met(&windows[0], y, dims[2].0, counts_y);
        let across = met(&windows[1], x, dims[3].0, counts_x);
        let [(y_at, y_first, y_count), (x_at, x_first, x_count)] = [down, across];
        let inside = image
            .seen_as([
                dims[0],
                dims[1],
                (y_count, windows[0].step * dims[2].1),
                (x_count, windows[1].step * dims[3].1),
            ])
            .from(y_at * dims[2].1 + x_at * dims[3].1);
        let outside = columns
            .seen_as([
                (dims[0].0, batch),
                (dims[1].0, taps * row),
                (y_count, counts_x),
                (x_count, 1),
            ])
            .from(tap * row + y_first * counts_x + x_first);
        all.push([inside, outside]);
    }
    Some(all)
}

/// `im2col(x, size, dilation, padding, step)`.
fn unfold(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let windows = windows_of(call, 1)?;
    lane(x.dtype)?;
    if x.size[1.min(x.size.len())..].contains(&0) || Category::of(x.dtype) != Category::Float {
        return Err(Decline::Shapes);
    }
    let image = Block::of(TensorRef::Argument(0), &x);
    let dims = batched(&image).ok_or(Decline::Shapes)?;
    let counts = [0, 1].map(|dim| windows[dim].count(dims[2 + dim].0));
    let (Some(down), Some(across)) = (counts[0], counts[1]) else { return Err(Decline::Shapes) };
    let rows = dims[1].0 * windows[0].size * windows[1].size;
    let places = down * across;
    let size = [dims[0].0, rows, places];
    let mut steps = Steps::default();
    let columns = steps.make(x.dtype, if x.size.len() == 3 { &size[1..] } else { &size });
    let pairs = pairs(&image, &columns, &windows, [rows * places, places]);
    let pairs = pairs.ok_or(Decline::Shapes)?;
    let is_whole = |[_, part]: &[Block; 2]| part.view.size[2] * part.view.size[3] == places;
    if !pairs.iter().all(is_whole) {
        steps.clear(&columns)?;
    }
    for [inside, outside] in &pairs {
        steps.copy(inside, outside)?;
    }
    Ok(steps.into_recipe())
}

/// `col2im(columns, image size, size, dilation, padding, step)`.
fn fold(call: &Call<'_>) -> Result<Recipe, Decline> {
    let columns = source(call)?;
    let windows = windows_of(call, 2)?;
    let places = each(ints(call, 1)?, 2).ok_or(Decline::Shapes)?;
    let is_wide = matches!(columns.dtype, DType::Float32 | DType::Float64);
    let is_float = Category::of(columns.dtype) == Category::Float;
    let counts = [0, 1].map(|dim| windows[dim].count(places[dim]));
    let (Some(down), Some(across)) = (counts[0], counts[1]) else { return Err(Decline::Shapes) };
    let taps = windows[0].size * windows[1].size;
    let rank = columns.size.len();
    let [rows, width] = match columns.size {
        &[.., rows, width] if rank == 2 || rank == 3 => [rows, width],
        _ => return Err(Decline::Shapes),
    };
    let is_sound = width == down * across
        && rows.is_multiple_of(taps)
        && columns.stride[rank - 1] == 1
        && rows > 0;
    if !is_float || !is_sound {
        return Err(Decline::Shapes);
    }
    let mut size: SmallVec<[usize; 4]> = columns.size[..rank - 2].iter().copied().collect();
    size.extend([rows / taps, places[0], places[1]]);
    let mut steps = Steps::default();
    let result = steps.make(columns.dtype, &size);
    let image = if is_wide { result.clone() } else { steps.make(DType::Float32, &size) };
    let batch = if rank == 3 { columns.stride[0] } else { 0 };
    let block = Block::of(TensorRef::Argument(0), &columns);
    let pairs = pairs(&image, &block, &windows, [batch, columns.stride[rank - 2]]);
    steps.clear(&image)?;
    for [inside, outside] in pairs.ok_or(Decline::Shapes)? {
        steps.add(&outside, &inside)?;
    }
    if !is_wide {
        steps.copy(&image, &result)?;
    }
    Ok(steps.into_recipe())
}
