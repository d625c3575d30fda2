//! Convolutions, as products of kernels with columns of what windows see.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::channels::{Channels, launch, per_channel};
use super::columns::{Columns, Tap, Way};
use super::depthwise;
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

/// Columns that are written before they are multiplied: about what the caches of a machine hold.
const MOST_COLUMNS: usize = 1 << 21;

/// Rows of a product that are worth one of its own.
const LEAST_ROWS: usize = 32;

/// Places that are worth a product of their own; images of fewer share one.
const LEAST_PLACES: usize = 64;

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

    fn columns(&self, way: Way) -> Columns {
        let [summed, _] = self.channels(way);
        let sizes: [&[usize]; 2] = match way {
            Way::Gather => [&self.places, &self.counts],
            Way::Spread => [&self.counts, &self.places],
        };
        let inner: usize = self.windows[1..].iter().map(|window| window.size).product();
        // Sums in several steps are rounded after each: only where that is as good.
        let is_wide = matches!(self.dtype, DType::Float32 | DType::Float64);
        let is_whole = !is_wide || self.windows[0].size == 1 || summed * inner < LEAST_ROWS;
        Columns::new(way, &self.windows, sizes, self.groups * summed, is_whole)
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
        let columns = self.columns(way);
        let left = self.left(steps, way, &columns, weight)?;
        let step = self.chunk(&columns);
        let direct = self.direct(way, source);
        let matrix = match direct {
            Some(_) => None,
            None => Some(steps.make(self.dtype, &columns.size(step))),
        };
        if let Some(matrix) = &matrix {
            columns.clear(steps, matrix)?;
        }
        for first in (0..self.images).step_by(step) {
            let images = step.min(self.images - first);
            let source = source.clone().from(first * source.view.stride[0]);
            let target = target.clone().from(first * target.view.stride[0]);
            if let Some(matrix) = &matrix {
                columns.write(steps, &source, matrix, [images, step])?;
            }
            for (nth, tap) in columns.products().into_iter().enumerate() {
                let right = match (&matrix, &direct) {
                    (Some(matrix), _) => self.right(way, &columns, matrix, tap, [images, step]),
                    (None, Some(all)) => {
                        let view = &all.view;
                        let dims = view.size.iter().copied().zip(view.stride.iter().copied());
                        let first = first * view.stride[0];
                        all.seen_as(std::iter::once((images, view.stride[0])).chain(dims.skip(1)))
                            .from(first)
                    }
                    (None, None) => return Err(Decline::Shapes),
                };
                let left = left.clone().from(tap.tap * left.view.stride[0]);
                let target = self.target(way, &columns, &target, images);
                let bias = bias.filter(|_| nth == 0);
                steps.push(self.multiply([&left, &right, &target], bias, nth > 0)?);
            }
        }
        Ok(())
    }

    /// Returns the number of images whose columns are written at a time.
    fn chunk(&self, columns: &Columns) -> usize {
        let [rows, width] = columns.size(1);
        (MOST_COLUMNS / (rows * width).max(1)).clamp(1, self.images)
    }

    /// A source whose places are columns already: images, groups, rows, columns.
    fn direct(&self, way: Way, source: &Block) -> Option<Block> {
        let [summed, _] = self.channels(way);
        let stride = &source.view.stride;
        let sizes = &source.view.size[2..];
        let is_line = rows_of(sizes)
            .iter()
            .zip(&stride[2..])
            .all(|((size, row), stride)| *size == 1 || row == stride);
        let places = sizes.iter().product();
        let dims = [
            (self.images, stride[0]),
            (self.groups, summed * stride[1]),
            (summed, stride[1]),
            (places, 1),
        ];
        (self.is_pointwise() && is_line).then(|| source.seen_as(dims))
    }

    /// The kernel as a matrix for each product: products, groups, channels, rows of columns.
    fn left(
        &self,
        steps: &mut Steps,
        way: Way,
        columns: &Columns,
        weight: &Block,
    ) -> Result<Block, Decline> {
        let [summed, computed] = self.channels(way);
        let (source, size) = self.weight_view(way, columns, weight);
        let taps = columns.taps();
        let products = columns.products().len();
        let whole = [products, self.groups, computed, summed * taps];
        let rows = rows_of(&size);
        let mut strides = rows.iter().zip(&source.view.stride);
        if strides.all(|((size, row), stride)| *size == 1 || row == stride) {
            return Ok(source.seen_as(rows_of(&whole)));
        }
        let matrix = steps.make(self.dtype, &whole);
        steps.copy(&source, &matrix.seen_as(rows_of(&size)))?;
        Ok(matrix)
    }

    /// A kernel with its dims in the order of products: first taps, groups, channels that are
    /// computed, channels that are summed over, taps.
    fn weight_view(
        &self,
        way: Way,
        columns: &Columns,
        weight: &Block,
    ) -> (Block, SmallVec<[usize; 8]>) {
        let stride = &weight.view.stride;
        let inputs = (self.inputs, stride[1]);
        let outputs = (self.outputs, stride[0]);
        let [summed, computed] = match way {
            Way::Gather => [inputs, outputs],
            Way::Spread => [outputs, inputs],
        };
        let taps = self.windows.iter().map(|window| window.size).zip(stride[2..].iter().copied());
        let apart = usize::from(columns.products().len() > 1);
        let mut dims: SmallVec<[(usize, usize); 8]> = taps.clone().take(apart).collect();
        dims.extend([(self.groups, self.outputs * stride[0]), computed, summed]);
        dims.extend(taps.skip(apart));
        let size = dims.iter().map(|&(size, _)| size).collect();
        (weight.seen_as(dims), size)
    }

    /// The columns of one product: images, groups, rows, columns.
    fn right(
        &self,
        way: Way,
        columns: &Columns,
        matrix: &Block,
        tap: Tap,
        [images, room]: [usize; 2],
    ) -> Block {
        let width = matrix.view.stride[0];
        let rows = self.channels(way)[0] * columns.taps();
        let places = columns.target.iter().product();
        let dims = [
            (images, columns.per_image()),
            (self.groups, rows * width),
            (rows, width),
            (places, 1),
        ];
        matrix.seen_as(dims).from(columns.start(tap, room))
    }

    /// Views the target as images, groups, channels and places. It lies row by row.
    fn target(&self, way: Way, columns: &Columns, target: &Block, images: usize) -> Block {
        let places: usize = columns.target.iter().product();
        let computed = self.channels(way)[1];
        target.seen_as([
            (images, self.groups * computed * places),
            (self.groups, computed * places),
            (computed, places),
            (places, 1),
        ])
    }

    /// One product, to be set or added.
    fn multiply(
        &self,
        [left, right, target]: [&Block; 3],
        bias: Option<&Block>,
        adds: bool,
    ) -> Result<crate::Launch, Decline> {
        let groups = target.view.size[1];
        let rows = target.view.size[2];
        let k = right.view.size[2];
        let images = target.view.size[0];
        let places = target.view.size[3];
        let is_single = images > 1 && places < LEAST_PLACES;
        let matrix = [(groups, rows * k), (rows, k), (k, 1)];
        // A kernel that is the same for each image, so that every image has a product of its own.
        let left = if is_single {
            left.seen_as(matrix)
        } else {
            left.seen_as(std::iter::once((images, 0)).chain(matrix))
        };
        let mut operands: SmallVec<[_; 8]> = smallvec![left.operand(), right.operand()];
        if let Some(bias) = bias {
            let stride = bias.view.stride[0];
            operands.push(bias.seen_as([(groups, rows * stride), (rows, stride)]).operand());
        }
        operands.push(target.operand());
        let kind = if adds { 2 } else { u32::from(bias.is_some()) };
        launch("convolution", write_product, smallvec![u32::from(is_single), kind], operands)
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
        let columns = self.columns(Way::Gather);
        let step = self.chunk(&columns);
        let matrix = steps.make(self.dtype, &columns.size(step));
        columns.clear(steps, &matrix)?;
        let rows =
            steps.make(self.dtype, &[self.groups * self.outputs, step * columns.per_image()]);
        if columns.per_image() > self.counts.iter().product() {
            steps.clear(&rows)?;
        }
        let wide = if self.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
        let (target, size) = self.weight_view(Way::Gather, &columns, weight);
        let k = self.inputs * columns.taps();
        let products = columns.products();
        let sums = steps.make(wide, &[products.len(), self.groups, self.outputs, k]);
        for first in (0..self.images).step_by(step) {
            let images = step.min(self.images - first);
            let image = image.clone().from(first * image.view.stride[0]);
            columns.write(steps, &image, &matrix, [images, step])?;
            let grad = grad.clone().from(first * grad.view.stride[0]);
            self.turn_grad(steps, &columns, [&grad, &rows], images)?;
            for &tap in &products {
                let right = matrix.clone().from(columns.start(tap, step));
                let sums = sums.clone().from(tap.tap * sums.view.stride[0]);
                steps.push(self.sum([&rows, &right, &sums], &columns, images, first > 0)?);
            }
        }
        steps.copy(&sums.seen_as(rows_of(&size)), &target)
    }

    /// A result's gradient with its channels as rows, and images as far apart as those of columns.
    fn turn_grad(
        &self,
        steps: &mut Steps,
        columns: &Columns,
        [grad, rows]: [&Block; 2],
        images: usize,
    ) -> Result<(), Decline> {
        let channels = self.groups * self.outputs;
        let stride = &grad.view.stride;
        let places = self.counts.iter().copied();
        let from = [(channels, stride[1]), (images, stride[0])].into_iter();
        let from = from.chain(places.zip(stride[2..].iter().copied()));
        let width = rows.view.stride[0];
        let to = [(channels, width), (images, columns.per_image())].into_iter();
        let to = to.chain(rows_of(&self.counts));
        steps.copy(&grad.seen_as(from), &rows.seen_as(to))
    }

    /// The product of gradients with columns over all places of some images.
    fn sum(
        &self,
        [rows, right, sums]: [&Block; 3],
        columns: &Columns,
        images: usize,
        adds: bool,
    ) -> Result<crate::Launch, Decline> {
        let places: usize = self.counts.iter().product();
        let all = (images - 1) * columns.per_image() + places;
        let k = self.inputs * columns.taps();
        let [left_width, width] = [rows.view.stride[0], right.view.stride[0]];
        let left = [(self.groups, self.outputs * left_width), (self.outputs, left_width), (all, 1)];
        let operands = smallvec![
            rows.seen_as(left).operand(),
            right.seen_as([(self.groups, k * width), (k, width), (all, 1)]).operand(),
            sums.seen_as([(self.groups, self.outputs * k), (self.outputs, k), (k, 1)]).operand(),
        ];
        launch("convolution_weights", write_sum, smallvec![u32::from(adds)], operands)
    }
}

fn write_product(kernel: &Generated) -> String {
    let is_single = kernel.numbers[0] == 1;
    let kind = kernel.numbers[1];
    let mut text = Text::default();
    let [n, g, m, p, k] = ["n", "g", "m", "p", "k"].map(|letter| text.dims(letter, 1));
    let left = [g.clone(), m.clone(), k.clone()].concat();
    let left = if is_single { left } else { [n.clone(), left].concat() };
    text.operand("in", "w", kernel.dtypes[0], &left);
    text.operand("in", "x", kernel.dtypes[1], &[n.clone(), g.clone(), k, p.clone()].concat());
    if kind == 1 {
        text.operand("in", "b", kernel.dtypes[2], &[g.clone(), m.clone()].concat());
    }
    let role = if kind == 2 { "inout" } else { "out" };
    let y = kernel.dtypes[kernel.dtypes.len() - 1];
    text.operand(role, "y", y, &[n, g, m, p].concat());
    match kind {
        0 => text.line(format_args!("y = sum<k0>(w * x)")),
        1 => text.line(format_args!("y = sum<k0>(w * x) + b")),
        _ => text.line(format_args!("y = y + sum<k0>(w * x)")),
    }
    text.kernel(kernel.name)
}

fn write_sum(kernel: &Generated) -> String {
    let adds = kernel.numbers[0] == 1;
    let mut text = Text::default();
    let [g, m, k, q] = ["g", "m", "k", "q"].map(|letter| text.dims(letter, 1));
    text.operand("in", "a", kernel.dtypes[0], &[g.clone(), m.clone(), q.clone()].concat());
    text.operand("in", "b", kernel.dtypes[1], &[g.clone(), k.clone(), q].concat());
    let role = if adds { "inout" } else { "out" };
    text.operand(role, "y", kernel.dtypes[2], &[g, m, k].concat());
    text.line(format_args!("y = {}sum<q0>(a * b)", if adds { "y + " } else { "" }));
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
