//! Norms of groups of channels, of each image by itself.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use super::channels::{Channels, common_lane, launch, per_channel};
use super::steps::Steps;
use crate::dtypes::lane;
use crate::generated::{Generated, Text};
use crate::recipe::Function;
use crate::recipe::{OperandView, Recipe, ResultShape, TensorRef};
use crate::reductions::{float_of, source};
use crate::views::{image_like, like};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] =
    &[("native_group_norm", forward), ("native_group_norm_backward", backward)];

type Operands = SmallVec<[(DType, OperandView); 8]>;

fn groups_of(call: &Call<'_>, argument: usize) -> Result<usize, Decline> {
    let groups = call.int(argument).and_then(|groups| usize::try_from(groups).ok());
    groups.ok_or(Decline::Argument { argument, expected: "a number of groups" })
}

/// A list of channels as an operand over groups and the channels of each.
fn grouped(
    call: &Call<'_>,
    argument: usize,
    channels: &Channels,
) -> Result<Option<(DType, OperandView)>, Decline> {
    let Some(list) = call.tensor(argument) else { return Ok(None) };
    let [groups, each] = [channels.size[1], channels.size[2]];
    if list.size != [groups * each] {
        return Err(Decline::Shapes);
    }
    let stride = list.stride[0];
    let size = smallvec![groups, each];
    let stride = smallvec![stride * each, stride];
    let view = OperandView { place: TensorRef::Argument(argument), size, stride, offset: 0 };
    Ok(Some((list.dtype, view)))
}

fn rows(dtype: DType, size: &[usize]) -> ResultShape {
    ResultShape { dtype, size: size.into(), stride: like(size, &[]) }
}

fn tensor_of(result: &ResultShape) -> TensorView<'_> {
    TensorView { dtype: result.dtype, size: &result.size, stride: &result.stride, offset: 0 }
}

fn numbers(channels: &Channels, x: &TensorView<'_>, given: u32) -> SmallVec<[u32; 8]> {
    let places = (channels.size.len() - channels.first_place()) as u32;
    let is_channels_last = x.size.len() > 2 && x.stride[1] < x.stride[x.size.len() - 1];
    smallvec![places, u32::from(is_channels_last), given]
}

/// `native_group_norm(x, weight, bias, batch, channels, places, groups, epsilon)`.
fn forward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let weights = [1, 2].map(|at| call.tensor(at).map(|weight| weight.dtype));
    common_lane(&x, weights)?;
    let epsilon = match call.argument(7) {
        Argument::Number(number) => float_of(&number),
        _ => return Err(Decline::Argument { argument: 7, expected: "a number" }),
    };
    let y = ResultShape { dtype: x.dtype, size: x.size.into(), stride: image_like(x.size, &[&x]) };
    let measured = weights.into_iter().flatten().next().unwrap_or(x.dtype);
    let groups = groups_of(call, 6)?;
    if x.size.first() == Some(&0) {
        let none = rows(measured, &[0, groups]);
        return Ok(Recipe { results: smallvec![y, none.clone(), none], launches: smallvec![] });
    }
    let channels = Channels::of(&[x, tensor_of(&y)])?.in_groups(groups)?;
    let mean = rows(measured, &channels.size[..2]);
    let rstd = mean.clone();
    let mut operands: Operands = smallvec![channels.tensor(0, TensorRef::Argument(0), x.dtype)];
    let weight = grouped(call, 1, &channels)?;
    let bias = grouped(call, 2, &channels)?;
    let given = u32::from(weight.is_some()) | u32::from(bias.is_some()) << 1;
    operands.extend(weight.into_iter().chain(bias));
    operands.push(channels.tensor(1, TensorRef::Result(0), y.dtype));
    operands.push(per_channel(TensorRef::Result(1), &tensor_of(&mean)));
    operands.push(per_channel(TensorRef::Result(2), &tensor_of(&rstd)));
    let numbers = numbers(&channels, &x, given);
    let mut launch = launch("group_norm", write_forward, numbers, operands)?;
    let count: usize = channels.size[2..].iter().product();
    launch.scalars.extend([count as f64, epsilon].map(|number| Constant::Float(number).word()));
    Ok(Recipe { results: smallvec![y, mean, rstd], launches: smallvec![launch] })
}

/// The dims of a kernel over groups of channels.
struct Groups {
    text: Text,
    lane: &'static str,
    all: Vec<String>,
    /// An image and a group: what is measured together.
    measured: Vec<String>,
    /// A group and a channel of it.
    channel: Vec<String>,
    /// Those that each of the two is without.
    in_group: String,
    in_batch: String,
}

impl Groups {
    fn of(kernel: &Generated) -> Self {
        let mut text = Text::default();
        let places = kernel.numbers[0] as usize;
        let is_channels_last = kernel.numbers[1] == 1;
        let n = text.dims("n", 1);
        let g = text.dims("g", 1);
        let (c, p) = if is_channels_last {
            let p = text.dims("p", places);
            (text.dims("c", 1), p)
        } else {
            (text.dims("c", 1), text.dims("p", places))
        };
        let join = |a: &[String], b: &[String]| [a, b].concat();
        Self {
            lane: lane(kernel.dtypes[0]).map_or("f32", spyre_artifact::Lane::name),
            all: [join(&n, &g), join(&c, &p)].concat(),
            measured: join(&n, &g),
            channel: join(&g, &c),
            in_group: join(&c, &p).join(", "),
            in_batch: join(&n, &p).join(", "),
            text,
        }
    }
}

fn write_forward(kernel: &Generated) -> String {
    let Groups { mut text, lane, all, measured, channel, in_group, .. } = Groups::of(kernel);
    let has = |bit: u32| kernel.numbers[2] >> bit & 1 == 1;
    let mut dtypes = kernel.dtypes.iter().copied();
    let mut operand = |text: &mut Text, role: &str, name: &str, dims: &[String]| {
        text.operand(role, name, dtypes.next().unwrap_or(DType::Float32), dims);
    };
    operand(&mut text, "in", "x", &all);
    for (bit, name) in [(0, "w"), (1, "b")] {
        if has(bit) {
            operand(&mut text, "in", name, &channel);
        }
    }
    operand(&mut text, "out", "y", &all);
    operand(&mut text, "out", "mean", &measured);
    operand(&mut text, "out", "rstd", &measured);
    text.line(format_args!("scalar count: {lane}"));
    text.line(format_args!("scalar epsilon: {lane}"));
    text.line(format_args!("m = sum<{in_group}>(x) / count"));
    text.line(format_args!("d = x - m"));
    text.line(format_args!("r = rsqrt(sum<{in_group}>(d * d) / count + epsilon)"));
    let weight = if has(0) { " * w" } else { "" };
    let bias = if has(1) { " + b" } else { "" };
    text.line(format_args!("y = d * r{weight}{bias}"));
    text.line(format_args!("mean = m * 1"));
    text.line(format_args!("rstd = r * 1"));
    text.kernel(kernel.name)
}

/// `native_group_norm_backward(grad, x, mean, rstd, weight, batch, channels, places, groups, mask)`.
fn backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let tensor = |at| call.tensor(at).ok_or(Decline::Shapes);
    let grad = source(call)?;
    let x = tensor(1)?;
    let mean = tensor(2)?;
    let rstd = tensor(3)?;
    let weight = call.tensor(4).map(|weight| weight.dtype);
    let others = [Some(grad.dtype), Some(mean.dtype), Some(rstd.dtype), weight];
    common_lane(&x, others)?;
    let dx = ResultShape { dtype: x.dtype, size: x.size.into(), stride: image_like(x.size, &[&x]) };
    if let [0, count, ..] = *x.size {
        return without_images(&dx, &rows(weight.unwrap_or(x.dtype), &[count]));
    }
    let channels = Channels::of(&[grad, x, tensor_of(&dx)])?.in_groups(groups_of(call, 8)?)?;
    let [n, groups, each] = [0, 1, 2].map(|dim| channels.size[dim]);
    if mean.size != [n, groups] || rstd.size != [n, groups] {
        return Err(Decline::Shapes);
    }
    let list = rows(weight.unwrap_or(x.dtype), &[groups * each]);
    let images = |at: usize, place, dtype| channels.tensor(at, place, dtype);
    let sources: Operands = smallvec![
        images(0, TensorRef::Argument(0), grad.dtype),
        images(1, TensorRef::Argument(1), x.dtype),
        per_channel(TensorRef::Argument(2), &mean),
        per_channel(TensorRef::Argument(3), &rstd),
    ];
    let mut of_x = sources.clone();
    let weight = grouped(call, 4, &channels)?;
    let numbers = numbers(&channels, &x, u32::from(weight.is_some()));
    of_x.extend(weight);
    of_x.push(images(2, TensorRef::Result(0), dx.dtype));
    let mut dx_launch = launch("group_norm_dx", write_dx, numbers.clone(), of_x)?;
    let count: usize = channels.size[2..].iter().product();
    dx_launch.scalars.push(Constant::Float(count as f64).word());
    let mut of_weights = sources;
    of_weights.extend([1, 2].map(|at| {
        let size = smallvec![groups, each];
        let stride = smallvec![each, 1];
        (list.dtype, OperandView { place: TensorRef::Result(at), size, stride, offset: 0 })
    }));
    let weights_launch = launch("group_norm_dw", write_dw, numbers, of_weights)?;
    let results = smallvec![dx, list.clone(), list];
    Ok(Recipe { results, launches: smallvec![dx_launch, weights_launch] })
}

/// Gradients of a batch of no images.
fn without_images(dx: &ResultShape, list: &ResultShape) -> Result<Recipe, Decline> {
    let mut steps = Steps::default();
    steps.make(dx.dtype, &dx.size);
    for _ in 0..2 {
        let gradient = steps.make(list.dtype, &list.size);
        steps.clear(&gradient)?;
    }
    Ok(steps.into_recipe())
}

/// The tensors that both backward kernels read.
fn write_sources(kernel: &Generated, groups: &mut Groups) {
    let [all, measured] = [&groups.all, &groups.measured];
    for (at, (name, dims)) in
        [("g", all), ("x", all), ("mean", measured), ("rstd", measured)].into_iter().enumerate()
    {
        groups.text.operand("in", name, kernel.dtypes[at], dims);
    }
}

fn write_dx(kernel: &Generated) -> String {
    let mut groups = Groups::of(kernel);
    write_sources(kernel, &mut groups);
    let Groups { mut text, lane, all, channel, in_group, .. } = groups;
    let has_weight = kernel.numbers[2] == 1;
    if has_weight {
        text.operand("in", "w", kernel.dtypes[4], &channel);
    }
    text.operand("out", "dx", kernel.dtypes[4 + usize::from(has_weight)], &all);
    text.line(format_args!("scalar count: {lane}"));
    text.line(format_args!("t = g * {}", if has_weight { "w" } else { "1" }));
    text.line(format_args!("h = (x - mean) * rstd"));
    text.line(format_args!("st = sum<{in_group}>(t)"));
    text.line(format_args!("sh = sum<{in_group}>(t * h)"));
    text.line(format_args!("dx = rstd * (t - (st + h * sh) / count)"));
    text.kernel(kernel.name)
}

fn write_dw(kernel: &Generated) -> String {
    let mut groups = Groups::of(kernel);
    write_sources(kernel, &mut groups);
    let Groups { mut text, channel, in_batch, .. } = groups;
    text.operand("out", "dw", kernel.dtypes[4], &channel);
    text.operand("out", "db", kernel.dtypes[5], &channel);
    text.line(format_args!("dw = sum<{in_batch}>(g * ((x - mean) * rstd))"));
    text.line(format_args!("db = sum<{in_batch}>(g * 1)"));
    text.kernel(kernel.name)
}
