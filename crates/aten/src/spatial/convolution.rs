//! Convolutions, as products of kernels with planes of images.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::channels::{Channels, launch, per_channel};
use super::depthwise;
use super::planes::{Parts, Planes, Way};
use super::steps::{Block, Steps, lane_of, rows_of};
use super::windows::{Windows, each, ints, windows};
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::views::{Numbers, image_like, like};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] =
    &[("convolution_overrideable", forward), ("convolution_backward_overrideable", backward)];

/// Elements of planes that are written before they are multiplied: about what the caches of a machine hold.
const MOST_ELEMENTS: usize = 1 << 21;

/// Results that are worth a product of their own; images of fewer share one.
const LEAST_RESULTS: usize = 24;

/// Rows of places at least three quarters of whose sticks are filled are multiplied where they lie.
const STICK: usize = 32;

/// A convolution from an image to a result; a transposed one goes the other way.
#[derive(Debug)]
pub(super) struct Convolution {
    pub(super) dtype: DType,
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Channels of the image and of the result in each group.
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) windows: Windows,
    /// Places of the image, and of the result.
    pub(super) places: Numbers,
    pub(super) counts: Numbers,
    is_transposed: bool,
}

impl Convolution {
    /// The one of some tensors, whose lists and numbers begin at an argument.
    fn of(
        call: &Call<'_>,
        x: &TensorView<'_>,
        weight: &TensorView<'_>,
        at: usize,
    ) -> Result<Self, Decline> {
        let dims = x.size.len().checked_sub(2).filter(|dims| (1..=3).contains(dims));
        let dims = dims.ok_or(Decline::Rank { dims: x.size.len() })?;
        let [steps, paddings, dilations] = [at, at + 1, at + 2].map(|at| ints(call, at));
        let is_transposed = call.boolean(at + 3).unwrap_or(false);
        let more = each(ints(call, at + 4)?, dims).ok_or(Decline::Shapes)?;
        let groups = call.int(at + 5).and_then(|groups| usize::try_from(groups).ok());
        let groups = groups.filter(|&groups| groups > 0).ok_or(Decline::Shapes)?;
        if weight.size.len() != dims + 2 || x.size.contains(&0) || weight.size.contains(&0) {
            return Err(Decline::Shapes);
        }
        let sizes: SmallVec<[i64; 3]> = weight.size[2..].iter().map(|&size| size as i64).collect();
        let windows = windows(dims, [&sizes, steps?, paddings?, dilations?]);
        let windows = windows.ok_or(Decline::Shapes)?;
        let own = &x.size[2..];
        let other = (0..dims).map(|dim| {
            if is_transposed {
                windows[dim].places(own[dim], more[dim])
            } else {
                windows[dim].count(own[dim])
            }
        });
        let other = other.collect::<Option<Numbers>>().ok_or(Decline::Shapes)?;
        let (places, counts) =
            if is_transposed { (other, own.into()) } else { (own.into(), other) };
        let known = if is_transposed { weight.size[0] } else { weight.size[1] * groups };
        if known != x.size[1] || !weight.size[0].is_multiple_of(groups) {
            return Err(Decline::Shapes);
        }
        let inputs = weight.size[1];
        let outputs = weight.size[0] / groups;
        let dtype = x.dtype;
        let images = x.size[0];
        let both =
            Self { dtype, images, groups, inputs, outputs, windows, places, counts, is_transposed };
        let is_something = !both.places.contains(&0) && !both.counts.contains(&0);
        if is_something { Ok(both) } else { Err(Decline::Shapes) }
    }

    fn image_size(&self) -> SmallVec<[usize; 5]> {
        let channels = self.groups * self.inputs;
        [self.images, channels].into_iter().chain(self.places.iter().copied()).collect()
    }

    fn result_size(&self) -> SmallVec<[usize; 5]> {
        let channels = self.groups * self.outputs;
        [self.images, channels].into_iter().chain(self.counts.iter().copied()).collect()
    }

    pub(super) fn is_depthwise(&self) -> bool {
        self.inputs == 1 && self.outputs == 1
    }

    /// Returns true if every window sees one place, and every place is seen by one window.
    fn is_pointwise(&self) -> bool {
        let is_one = |(window, places): (&super::windows::Window, (&usize, &usize))| {
            (window.size, window.step, window.padding) == (1, 1, 0) && places.0 == places.1
        };
        self.windows.iter().zip(self.places.iter().zip(&self.counts)).all(is_one)
    }

    /// Channels of each group that are summed over, and those that are computed.
    fn channels(&self, way: Way) -> [usize; 2] {
        match way {
            Way::Gather => [self.inputs, self.outputs],
            Way::Spread => [self.outputs, self.inputs],
        }
    }

    fn planes(&self, way: Way) -> Planes {
        let [summed, _] = self.channels(way);
        let sizes: [&[usize]; 2] = match way {
            Way::Gather => [&self.places, &self.counts],
            Way::Spread => [&self.counts, &self.places],
        };
        Planes::new(way, &self.windows, sizes, [self.groups * summed, summed])
    }

    /// Computes the result from an image, or an image from a result.
    pub(super) fn compute(
        &self,
        steps: &mut Steps,
        way: Way,
        [source, weight, target]: [&Block; 3],
        bias: Option<&Block>,
    ) -> Result<(), Decline> {
        if self.is_depthwise() {
            return depthwise::compute(self, steps, way, [source, weight, target], bias);
        }
        let planes = self.planes(way);
        let left = self.left(steps, way, &planes, weight)?;
        if self.is_direct([source, target]) {
            let left = self.left_part(way, &planes, &left, &planes.products()[0]);
            let [source, target] = [self.by_group(source), self.by_group(target)];
            steps.push(multiply([&left, &source, &target], bias, false)?);
            return Ok(());
        }
        let products = planes.products();
        if planes.has_gaps(&target.view.size[2..]) {
            match bias {
                Some(bias) => depthwise::spread_bias(steps, bias, target)?,
                None => steps.clear(target)?,
            }
        }
        let images = self.chunk(planes.image());
        let memory = planes.make(steps, self.dtype, images);
        planes.clear(steps, &memory)?;
        let computed = self.channels(way)[1];
        let cells = products.iter().map(|parts| planes.cells(parts)).max().unwrap_or(1);
        // Several products are rounded once, at the end.
        let is_summed = way == Way::Gather && products.len() > 1;
        let dtype = if is_summed { self.wide() } else { self.dtype };
        let sums = steps.make(dtype, &[images * self.groups * computed * cells]);
        for first in (0..self.images).step_by(images) {
            let images = images.min(self.images - first);
            let source = source.clone().from(first * source.view.stride[0]);
            let target = target.clone().from(first * target.view.stride[0]);
            planes.write(steps, &source, &memory, images)?;
            for (nth, parts) in products.iter().enumerate() {
                let left = self.left_part(way, &planes, &left, parts);
                let right = planes.right(&memory, parts, [images, self.groups]);
                let adds = is_summed && nth > 0;
                let bias = bias.filter(|_| !adds);
                let of_channel = self.groups * computed * cells;
                let results = sums.seen_as([
                    (images, of_channel),
                    (self.groups, computed * cells),
                    (computed, cells),
                    (planes.cells(parts), 1),
                ]);
                steps.push(multiply([&left, &right, &results], bias, adds)?);
                if !is_summed || nth + 1 == products.len() {
                    let mut from: SmallVec<[(usize, usize); 6]> =
                        smallvec![(images, of_channel), (self.groups * computed, cells)];
                    let mut to: SmallVec<[(usize, usize); 6]> = smallvec![
                        (images, target.view.stride[0]),
                        (self.groups * computed, target.view.stride[1])
                    ];
                    let mut start = 0;
                    for (dim, part) in parts.iter().enumerate() {
                        let stride = target.view.stride[2 + dim];
                        let results = part.results;
                        from.push((results.count, planes.pitches()[dim]));
                        to.push((results.count, results.step * stride));
                        start += results.first * stride;
                    }
                    steps.copy(&sums.seen_as(from), &target.seen_as(to).from(start))?;
                }
            }
        }
        Ok(())
    }

    /// The dtype that sums of several products have.
    fn wide(&self) -> DType {
        match self.dtype {
            DType::Float16 | DType::BFloat16 => DType::Float32,
            dtype => dtype,
        }
    }

    /// Returns the number of images whose planes are written at a time.
    fn chunk(&self, image: usize) -> usize {
        (MOST_ELEMENTS / image.max(1)).clamp(1, self.images)
    }

    /// Returns true if places are seen one by one, in rows that fill most of their sticks.
    fn is_direct(&self, sides: [&Block; 2]) -> bool {
        let row = self.counts.last().copied().unwrap_or(1);
        let is_in_rows = |side: &Block| side.view.stride.last() == Some(&1);
        let is_filled = row * 4 >= row.next_multiple_of(STICK) * 3;
        self.is_pointwise() && is_filled && sides.into_iter().all(is_in_rows)
    }

    /// A tensor of images as images, groups, channels of a group, places.
    fn by_group(&self, tensor: &Block) -> Block {
        let [size, stride] = [&tensor.view.size, &tensor.view.stride];
        let channels = size[1] / self.groups;
        let first = [(size[0], stride[0]), (self.groups, channels * stride[1])];
        let places = size[1..].iter().copied().zip(stride[1..].iter().copied());
        let places =
            places.enumerate().map(
                |(nth, (size, stride))| {
                    if nth == 0 { (channels, stride) } else { (size, stride) }
                },
            );
        tensor.seen_as(first.into_iter().chain(places))
    }

    /// The kernel as a matrix: groups, channels that are computed, taps that share rows, rows. Where results go back
    /// to places, taps are in reverse.
    fn left(
        &self,
        steps: &mut Steps,
        way: Way,
        planes: &Planes,
        weight: &Block,
    ) -> Result<Block, Decline> {
        let (source, size) = self.weight_view(way, planes, weight);
        let matrix = steps.make(self.dtype, &[size.iter().product()]);
        let rows = rows_of(&size);
        steps.copy(&source, &matrix.seen_as(rows.iter().copied()))?;
        let taps: usize = planes.taps().iter().product();
        if way == Way::Gather || taps == 1 {
            return Ok(matrix);
        }
        let reversed = steps.make(self.dtype, &[size.iter().product()]);
        let summed = size[2 + self.windows.len()..].iter().product();
        let lines = size[0] * size[1];
        for tap in 0..taps {
            let all = [(lines, taps * summed), (summed, 1)];
            let from = matrix.seen_as(all).from(tap * summed);
            steps.copy(&from, &reversed.seen_as(all).from((taps - 1 - tap) * summed))?;
        }
        Ok(reversed)
    }

    /// The left side of a product: groups, channels, taps, rows.
    fn left_part(&self, way: Way, planes: &Planes, matrix: &Block, parts: &Parts) -> Block {
        let [summed, computed] = self.channels(way);
        let rows = summed * planes.folded().iter().product::<usize>();
        let mut taps: SmallVec<[(usize, usize); 3]> = smallvec![];
        let mut first = 0;
        let mut stride = rows;
        for (part, size) in parts.iter().zip(planes.taps()).rev() {
            taps.push((part.taps.count, part.taps.step * stride));
            first += part.taps.first * stride;
            stride *= size;
        }
        let dims = [(self.groups, computed * stride), (computed, stride)].into_iter();
        let dims = dims.chain(taps.into_iter().rev()).chain([(rows, 1)]);
        matrix.seen_as(dims).from(first)
    }

    /// A kernel with its dims in the order of a matrix: groups, channels that are computed, taps that share rows,
    /// channels that are summed over, taps that have rows of their own. So the taps of a channel, which share sticks
    /// of the kernel, are copied together.
    fn weight_view(
        &self,
        way: Way,
        planes: &Planes,
        weight: &Block,
    ) -> (Block, SmallVec<[usize; 9]>) {
        let stride = &weight.view.stride;
        let inputs = (self.inputs, stride[1]);
        let outputs = (self.outputs, stride[0]);
        let [summed, computed] = match way {
            Way::Gather => [inputs, outputs],
            Way::Spread => [outputs, inputs],
        };
        let along =
            |sizes: SmallVec<[usize; 3]>| sizes.into_iter().zip(stride[2..].iter().copied());
        let mut dims: SmallVec<[(usize, usize); 9]> =
            smallvec![(self.groups, self.outputs * stride[0]), computed];
        dims.extend(along(planes.taps()));
        dims.push(summed);
        dims.extend(along(planes.folded()));
        let size = dims.iter().map(|&(size, _)| size).collect();
        (weight.seen_as(dims), size)
    }

    /// Computes the kernel's gradient from an image and a result's.
    fn weights(
        &self,
        steps: &mut Steps,
        [image, grad, weight]: [&Block; 3],
    ) -> Result<(), Decline> {
        if self.is_depthwise() {
            return depthwise::weights(self, steps, [image, grad, weight]);
        }
        let planes = self.planes(Way::Gather);
        let products = planes.products();
        let images = self.chunk(planes.image());
        let memory = planes.make(steps, self.dtype, images);
        planes.clear(steps, &memory)?;
        let cells = products.iter().map(|parts| planes.cells(parts)).max().unwrap_or(1);
        let channels = self.groups * self.outputs;
        let rows = steps.make(self.dtype, &[images * channels * cells]);
        if cells > self.counts.iter().product() {
            steps.clear(&rows)?;
        }
        let (target, size) = self.weight_view(Way::Gather, &planes, weight);
        let sums = steps.make(self.wide(), &[size.iter().product()]);
        for first in (0..self.images).step_by(images) {
            let images = images.min(self.images - first);
            let image = image.clone().from(first * image.view.stride[0]);
            planes.write(steps, &image, &memory, images)?;
            let grad = grad.clone().from(first * grad.view.stride[0]);
            let lines = [images, channels].into_iter().chain(self.counts.iter().copied());
            let pitches = [channels * cells, cells].into_iter();
            let to = lines.clone().zip(pitches.chain(planes.pitches().iter().copied()));
            steps.copy(
                &grad.seen_as(lines.zip(grad.view.stride.iter().copied())),
                &rows.seen_as(to),
            )?;
            for parts in &products {
                let right = planes.right(&memory, parts, [images, self.groups]);
                let sums = self.left_part(Way::Gather, &planes, &sums, parts);
                let left = rows.seen_as([
                    (images, channels * cells),
                    (self.groups, self.outputs * cells),
                    (self.outputs, cells),
                    (planes.cells(parts), 1),
                ]);
                steps.push(sum([&left, &right, &sums], first > 0)?);
            }
        }
        steps.copy(&sums.seen_as(rows_of(&size)), &target)
    }
}

/// One product, to be set or added. The left side: groups, channels, taps, rows. The right one: images, groups, taps,
/// rows, results; or without taps: results along several dims. The target: images, groups, channels, results.
fn multiply(
    [left, right, target]: [&Block; 3],
    bias: Option<&Block>,
    adds: bool,
) -> Result<crate::Launch, Decline> {
    let [images, groups, rows] = [0, 1, 2].map(|dim| target.view.size[dim]);
    let results = &target.view.size[3..];
    let taps = right.view.size.len() - 3 - results.len();
    let is_shared = images > 1 && results.iter().product::<usize>() < LEAST_RESULTS;
    let dims = left.view.size.iter().copied().zip(left.view.stride.iter().copied());
    // A right side without taps is seen from one place.
    let has_taps = |dim: usize| taps > 0 || dim < 2 || dim + 1 == left.view.size.len();
    let dims = dims.enumerate().filter(|(dim, _)| has_taps(*dim)).map(|(_, dim)| dim);
    // A kernel that is the same for each image, so that every image has a product of its own.
    let left = if is_shared {
        left.seen_as(dims)
    } else {
        left.seen_as(std::iter::once((images, 0)).chain(dims))
    };
    let mut operands: SmallVec<[_; 8]> = smallvec![left.operand(), right.operand()];
    if let Some(bias) = bias {
        let stride = bias.view.stride[0];
        operands.push(bias.seen_as([(groups, rows * stride), (rows, stride)]).operand());
    }
    operands.push(target.operand());
    let kind = if adds { 2 } else { u32::from(bias.is_some()) };
    let numbers = smallvec![u32::from(is_shared), kind, taps as u32, results.len() as u32];
    launch("convolution", write_product, numbers, operands)
}

/// The product of gradients with planes over all results of some images.
fn sum([left, right, sums]: [&Block; 3], adds: bool) -> Result<crate::Launch, Decline> {
    let taps = right.view.size.len() - 4;
    // The gradient is the same for every tap.
    let [images, groups, channels, results] =
        [0, 1, 2, 3].map(|dim| (left.view.size[dim], left.view.stride[dim]));
    let seen = right.view.size[2..2 + taps].iter().map(|&taps| (taps, 0));
    let left = left.seen_as([images, groups].into_iter().chain(seen).chain([channels, results]));
    let operands = smallvec![left.operand(), right.operand(), sums.operand()];
    launch("convolution_weights", write_sum, smallvec![u32::from(adds), taps as u32], operands)
}

fn write_product(kernel: &Generated) -> String {
    let [is_shared, kind, taps, results] = [0, 1, 2, 3].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let [n, g, m] = ["n", "g", "m"].map(|letter| text.dims(letter, 1));
    let p = text.dims("p", results);
    let t = text.dims("t", taps);
    let k = text.dims("k", 1);
    let left = [g.clone(), m.clone(), t.clone(), k.clone()].concat();
    let left = if is_shared == 1 { left } else { [n.clone(), left].concat() };
    text.operand("in", "w", kernel.dtypes[0], &left);
    let over = [t.clone(), k.clone()].concat();
    text.operand("in", "x", kernel.dtypes[1], &[&n[..], &g, &over, &p].concat());
    if kind == 1 {
        text.operand("in", "b", kernel.dtypes[2], &[g.clone(), m.clone()].concat());
    }
    let role = if kind == 2 { "inout" } else { "out" };
    let y = kernel.dtypes[kernel.dtypes.len() - 1];
    text.operand(role, "y", y, &[n, g, m, p].concat());
    let product = format!("sum<{}>(w * x)", over.join(", "));
    match kind {
        0 => text.line(format_args!("y = {product}")),
        1 => text.line(format_args!("y = {product} + b")),
        _ => text.line(format_args!("y = y + {product}")),
    }
    text.kernel(kernel.name)
}

fn write_sum(kernel: &Generated) -> String {
    let adds = kernel.numbers[0] == 1;
    let mut text = Text::default();
    let g = text.dims("g", 1);
    let t = text.dims("t", kernel.numbers[1] as usize);
    let [m, k, n, p] = ["m", "k", "n", "p"].map(|letter| text.dims(letter, 1));
    text.operand("in", "a", kernel.dtypes[0], &[&n[..], &g, &t, &m, &p].concat());
    text.operand("in", "b", kernel.dtypes[1], &[&n[..], &g, &t, &k, &p].concat());
    let role = if adds { "inout" } else { "out" };
    text.operand(role, "y", kernel.dtypes[2], &[&g[..], &m, &t, &k].concat());
    let over = [n, p].concat().join(", ");
    text.line(format_args!("y = {}sum<{over}>(a * b)", if adds { "y + " } else { "" }));
    text.kernel(kernel.name)
}

fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<TensorView<'a>, Decline> {
    call.tensor(argument).ok_or(Decline::Argument { argument, expected: "a tensor" })
}

/// A dtype of numbers that all tensors of a convolution are.
fn check_dtypes(x: &TensorView<'_>, others: &[Option<TensorView<'_>>]) -> Result<(), Decline> {
    lane(x.dtype)?;
    let is_other = |tensor: &&TensorView<'_>| tensor.dtype != x.dtype;
    match others.iter().flatten().find(is_other) {
        Some(tensor) => Err(Decline::DType { dtype: tensor.dtype }),
        None if Category::of(x.dtype) == Category::Bool => Err(Decline::DType { dtype: x.dtype }),
        None => Ok(()),
    }
}

/// `convolution(x, weight, bias, steps, paddings, dilations, transposed, output paddings, groups)`.
fn forward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let weight = tensor(call, 1)?;
    let bias = call.tensor(2);
    check_dtypes(&x, &[Some(weight), bias])?;
    let convolution = Convolution::of(call, &x, &weight, 3)?;
    let (way, size) = if convolution.is_transposed {
        (Way::Spread, convolution.image_size())
    } else {
        (Way::Gather, convolution.result_size())
    };
    if bias.is_some_and(|bias| bias.size != [size[1]]) {
        return Err(Decline::Shapes);
    }
    let mut steps = Steps::default();
    let stride = image_like(&size, &[&x, &weight]);
    let result = steps.make_as(x.dtype, &size, &stride);
    let is_in_rows = result.view.stride == like(&size, &[]);
    // Products write rows of places.
    let y = if is_in_rows { result.clone() } else { steps.make(x.dtype, &size) };
    let [x, weight] = [(0, x), (1, weight)].map(|(at, of)| Block::of(TensorRef::Argument(at), &of));
    let bias = bias.map(|bias| Block::of(TensorRef::Argument(2), &bias));
    convolution.compute(&mut steps, way, [&x, &weight, &y], bias.as_ref())?;
    if !is_in_rows {
        steps.copy(&y, &result)?;
    }
    Ok(steps.into_recipe())
}

/// `convolution_backward(grad, x, weight, .., mask)`: gradients of the image, the kernel and the bias;
/// what is not asked for has no elements.
fn backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let x = tensor(call, 1)?;
    let weight = tensor(call, 2)?;
    check_dtypes(&grad, &[Some(x), Some(weight)])?;
    let Argument::Bools(&[needs_x, needs_weight, needs_bias]) = call.argument(9) else {
        return Err(Decline::Argument { argument: 9, expected: "three booleans" });
    };
    let convolution = Convolution::of(call, &x, &weight, 3)?;
    let size = if convolution.is_transposed {
        convolution.image_size()
    } else {
        convolution.result_size()
    };
    if grad.size != &size[..] {
        return Err(Decline::Shapes);
    }
    let mut steps = Steps::default();
    let mut result =
        |needs: bool, size: &[usize]| steps.make(grad.dtype, if needs { size } else { &[0] });
    let dx = result(needs_x, x.size);
    let dw = result(needs_weight, weight.size);
    let db = result(needs_bias, &size[1..2]);
    let [g, a, w] =
        [(0, grad), (1, x), (2, weight)].map(|(at, of)| Block::of(TensorRef::Argument(at), &of));
    let (way, [image, result]) =
        if convolution.is_transposed { (Way::Gather, [&g, &a]) } else { (Way::Spread, [&a, &g]) };
    if needs_x {
        convolution.compute(&mut steps, way, [&g, &w, &dx], None)?;
    }
    if needs_weight {
        convolution.weights(&mut steps, [image, result, &dw])?;
    }
    if needs_bias {
        steps.push(bias_gradient(&grad, &db)?);
    }
    Ok(steps.into_recipe())
}

/// The sum of each channel.
fn bias_gradient(grad: &TensorView<'_>, target: &Block) -> Result<crate::Launch, Decline> {
    let channels = Channels::of(&[*grad])?;
    let places = (channels.size.len() - channels.first_place()) as u32;
    let list = TensorView { dtype: grad.dtype, size: &target.view.size, stride: &[1], offset: 0 };
    let operands = smallvec![
        channels.tensor(0, TensorRef::Argument(0), grad.dtype),
        per_channel(target.view.place, &list),
    ];
    launch("channel_sums", write_channel_sums, smallvec![places], operands)
}

fn write_channel_sums(kernel: &Generated) -> String {
    let mut text = Text::default();
    let [n, c] = ["n", "c"].map(|letter| text.dims(letter, 1));
    let p = text.dims("p", kernel.numbers[0] as usize);
    let over = [n.clone(), p.clone()].concat().join(", ");
    text.operand("in", "x", kernel.dtypes[0], &[n, c.clone(), p].concat());
    text.operand("out", "y", kernel.dtypes[1], &c);
    text.line(format_args!("y = {}(sum<{over}>(x))", lane_of(kernel.dtypes[1])));
    text.kernel(kernel.name)
}
