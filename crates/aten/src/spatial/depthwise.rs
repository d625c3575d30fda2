//! Convolutions of each channel by itself: a sum over the places of a window, one by one.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::channels::launch;
use super::convolution::Convolution;
use super::planes::Way;
use super::steps::{Block, Steps};
use super::windows::met;
use crate::Decline;
use crate::dtypes::is_wide;
use crate::generated::{Generated, Text};

/// Parts of an image and of a result that belong together, for one place of a window.
struct Met {
    /// Batch, channels, places.
    image: Block,
    result: Block,
    /// Elements of the kernel before this place.
    tap: usize,
    is_nothing: bool,
}

/// Computes the result from an image, or an image from a result.
pub(super) fn compute(
    convolution: &Convolution,
    steps: &mut Steps,
    way: Way,
    [source, weight, target]: [&Block; 3],
    bias: Option<&Block>,
) -> Result<(), Decline> {
    // Many small steps are rounded once, at the end.
    let is_wide = is_wide(convolution.dtype);
    let sums = if is_wide { target.clone() } else { steps.make(DType::Float32, &target.view.size) };
    match bias {
        Some(bias) => spread_bias(steps, bias, &sums)?,
        None => steps.clear(&sums)?,
    }
    let sides = match way {
        Way::Gather => [source, &sums],
        Way::Spread => [&sums, source],
    };
    for met in all_met(convolution, sides, weight).into_iter().filter(|met| !met.is_nothing) {
        let (from, to) = match way {
            Way::Gather => (&met.image, &met.result),
            Way::Spread => (&met.result, &met.image),
        };
        let each = (convolution.groups, weight.view.stride[0]);
        let weight = weight.seen_as([each]).from(met.tap);
        let operands = smallvec![from.operand(), weight.operand(), to.operand()];
        let numbers = smallvec![convolution.windows.len() as u32];
        steps.push(launch("depthwise", write_tap, numbers, operands)?);
    }
    if is_wide { Ok(()) } else { steps.copy(&sums, target) }
}

/// Computes the kernel's gradient from an image and a result's.
pub(super) fn weights(
    convolution: &Convolution,
    steps: &mut Steps,
    [image, grad, weight]: [&Block; 3],
) -> Result<(), Decline> {
    let all = all_met(convolution, [image, grad], weight);
    if all.iter().any(|met| met.is_nothing) {
        steps.clear(weight)?;
    }
    for met in all.into_iter().filter(|met| !met.is_nothing) {
        let each = (convolution.groups, weight.view.stride[0]);
        let weight = weight.seen_as([each]).from(met.tap);
        let operands = smallvec![met.image.operand(), met.result.operand(), weight.operand()];
        let numbers = smallvec![convolution.windows.len() as u32];
        steps.push(launch("depthwise_weights", write_weight, numbers, operands)?);
    }
    Ok(())
}

/// Every place of a window.
fn all_met(convolution: &Convolution, [image, result]: [&Block; 2], weight: &Block) -> Vec<Met> {
    let mut all = vec![Met {
        image: image.seen_as(leading(convolution, image)),
        result: result.seen_as(leading(convolution, result)),
        tap: 0,
        is_nothing: false,
    }];
    for (dim, window) in convolution.windows.iter().enumerate() {
        let places = convolution.places[dim];
        let count = convolution.counts[dim];
        let [inner, outer] = [image, result].map(|block| block.view.stride[2 + dim]);
        let longer = all.iter().flat_map(|known| {
            (0..window.size).map(move |tap| {
                let (at, first, count) = met(window, tap, places, count);
                Met {
                    image: with(&known.image, (count, window.step * inner), at * inner),
                    result: with(&known.result, (count, outer), first * outer),
                    tap: known.tap + tap * weight.view.stride[2 + dim],
                    is_nothing: known.is_nothing || count == 0,
                }
            })
        });
        all = longer.collect();
    }
    all
}

fn leading(convolution: &Convolution, block: &Block) -> [(usize, usize); 2] {
    let stride = &block.view.stride;
    [(convolution.images, stride[0]), (convolution.groups, stride[1])]
}

/// A block with one dim more.
fn with(block: &Block, dim: (usize, usize), offset: usize) -> Block {
    let view = &block.view;
    let dims: SmallVec<[(usize, usize); 6]> =
        view.size.iter().copied().zip(view.stride.iter().copied()).chain([dim]).collect();
    block.seen_as(dims).from(offset)
}

/// Sets all places of a channel to its bias.
pub(super) fn spread_bias(steps: &mut Steps, bias: &Block, target: &Block) -> Result<(), Decline> {
    let dims = target.view.size.iter().enumerate();
    let stride = bias.view.stride[0];
    let repeated = bias.seen_as(dims.map(|(dim, &size)| (size, if dim == 1 { stride } else { 0 })));
    steps.copy(&repeated, target)
}

fn write_tap(kernel: &Generated) -> String {
    let mut text = Text::default();
    let [n, c] = ["n", "c"].map(|letter| text.dims(letter, 1));
    let o = text.dims("o", kernel.numbers[0] as usize);
    let all = [n, c.clone(), o].concat();
    text.operand("in", "x", kernel.dtypes[0], &all);
    text.operand("in", "w", kernel.dtypes[1], &c);
    text.operand("inout", "y", kernel.dtypes[2], &all);
    text.line(format_args!("y = y + x * w"));
    text.kernel(kernel.name)
}

fn write_weight(kernel: &Generated) -> String {
    let mut text = Text::default();
    let [n, c] = ["n", "c"].map(|letter| text.dims(letter, 1));
    let o = text.dims("o", kernel.numbers[0] as usize);
    let over = [n.clone(), o.clone()].concat().join(", ");
    let all = [n, c.clone(), o].concat();
    text.operand("in", "x", kernel.dtypes[0], &all);
    text.operand("in", "g", kernel.dtypes[1], &all);
    text.operand("out", "y", kernel.dtypes[2], &c);
    text.line(format_args!("y = sum<{over}>(x * g)"));
    text.kernel(kernel.name)
}
