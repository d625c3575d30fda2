//! Norms of each channel over a whole batch.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use super::channels::{Channels, common_lane, launch, per_channel};
use crate::dtypes::lane;
use crate::generated::{Generated, Text};
use crate::recipe::Function;
use crate::recipe::{OperandView, Recipe, ResultShape, TensorRef};
use crate::reductions::{float_of, source};
use crate::views::image_like;
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[
    ("native_batch_norm", |call| forward(call, Arguments::whole(call)?)),
    ("_native_batch_norm_legit", |call| forward(call, Arguments::whole(call)?)),
    ("_native_batch_norm_legit.no_stats", |call| forward(call, Arguments::without_stats(call)?)),
    ("_batch_norm_with_update", with_update),
    ("native_batch_norm_backward", |call| backward(call, false)),
    ("batch_norm_backward", |call| backward(call, true)),
];

type Operands = SmallVec<[(DType, OperandView); 8]>;

fn number(call: &Call<'_>, argument: usize) -> Result<f64, Decline> {
    match call.argument(argument) {
        Argument::Number(number) => Ok(float_of(&number)),
        _ => Err(Decline::Argument { argument, expected: "a number" }),
    }
}

fn word(number: f64) -> u64 {
    Constant::Float(number).word()
}

/// Arguments of a norm: places of its tensors among the call's arguments, and its numbers.
#[derive(Clone, Copy, Debug)]
struct Arguments {
    /// Running means and variances.
    running: Option<[usize; 2]>,
    trains: bool,
    momentum: f64,
    epsilon: f64,
}

impl Arguments {
    fn whole(call: &Call<'_>) -> Result<Self, Decline> {
        let has_running = call.tensor(3).is_some() && call.tensor(4).is_some();
        Ok(Self {
            running: has_running.then_some([3, 4]),
            trains: call.boolean(5).unwrap_or(false),
            momentum: number(call, 6)?,
            epsilon: number(call, 7)?,
        })
    }

    fn without_stats(call: &Call<'_>) -> Result<Self, Decline> {
        let momentum = number(call, 4)?;
        let epsilon = number(call, 5)?;
        let trains = call.boolean(3).unwrap_or(false);
        Ok(Self { running: None, trains, momentum, epsilon })
    }
}

/// A tensor with a number for each of so many channels.
fn channel_list<'a>(
    call: &Call<'a>,
    argument: usize,
    channels: usize,
) -> Result<Option<TensorView<'a>>, Decline> {
    match call.tensor(argument) {
        Some(tensor) if tensor.size == [channels] => Ok(Some(tensor)),
        Some(_) => Err(Decline::Shapes),
        None => Ok(None),
    }
}

/// Adds those of some lists of channels that there are; says which, as bits.
fn push_lists(
    call: &Call<'_>,
    arguments: &[usize],
    channels: usize,
    operands: &mut Operands,
) -> Result<u32, Decline> {
    let mut given = 0;
    for (nth, &argument) in arguments.iter().enumerate() {
        if let Some(list) = channel_list(call, argument, channels)? {
            operands.push(per_channel(TensorRef::Argument(argument), &list));
            given |= 1 << nth;
        }
    }
    Ok(given)
}

fn image(x: &TensorView<'_>) -> ResultShape {
    ResultShape { dtype: x.dtype, size: x.size.into(), stride: image_like(x.size, &[x]) }
}

fn list(dtype: DType, channels: usize) -> ResultShape {
    ResultShape { dtype, size: smallvec![channels], stride: smallvec![1] }
}

fn tensor_of(result: &ResultShape) -> TensorView<'_> {
    TensorView { dtype: result.dtype, size: &result.size, stride: &result.stride, offset: 0 }
}

/// The result, means and reciprocal deviations; running ones follow, and are given without training.
fn forward(call: &Call<'_>, arguments: Arguments) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let weights = [1, 2].map(|at| call.tensor(at).map(|weight| weight.dtype));
    let running = arguments.running.map(|running| running.map(|at| call.tensor(at)));
    let dtypes = running.iter().flatten().map(|list| list.map(|list| list.dtype));
    common_lane(&x, weights.into_iter().chain(dtypes.clone()))?;
    if !arguments.trains && arguments.running.is_none() {
        return Err(Decline::Shapes);
    }
    // Means are as weights are, if those are wider than the image.
    let measured = weights.into_iter().chain(dtypes).flatten().next().unwrap_or(x.dtype);
    let y = image(&x);
    let channels = Channels::of(&[x, tensor_of(&y)])?;
    let count = x.size[1];
    let mut operands: Operands = smallvec![channels.tensor(0, TensorRef::Argument(0), x.dtype)];
    let mut given = push_lists(call, &[1, 2], count, &mut operands)?;
    if let Some(running) = arguments.running {
        given |= push_lists(call, &running, count, &mut operands)? << 2;
    }
    operands.push(channels.tensor(1, TensorRef::Result(0), y.dtype));
    let lists = [list(measured, count), list(measured, count)];
    let views = lists.iter().zip(1..);
    operands.extend(views.map(|(list, at)| per_channel(TensorRef::Result(at), &tensor_of(list))));
    let numbers = smallvec![places(&channels), order(&x), given, u32::from(arguments.trains)];
    let mut launch = launch("batch_norm", write_forward, numbers, operands)?;
    launch.scalars = smallvec![word(arguments.epsilon)];
    if arguments.trains {
        let elements = channels.elements() as f64;
        launch.scalars.push(word(elements));
        if arguments.running.is_some() {
            launch.scalars.extend([arguments.momentum, elements / (elements - 1.0)].map(word));
        }
    }
    let [means, deviations] = lists;
    Ok(Recipe { results: smallvec![y, means, deviations], launches: smallvec![launch] })
}

/// `_batch_norm_with_update(x, weight, bias, mean, variance, momentum, epsilon)`: there is nothing in
/// reserve.
fn with_update(call: &Call<'_>) -> Result<Recipe, Decline> {
    let momentum = number(call, 5)?;
    let epsilon = number(call, 6)?;
    let arguments = Arguments { running: Some([3, 4]), trains: true, momentum, epsilon };
    let mut recipe = forward(call, arguments)?;
    recipe.results.push(list(DType::UInt8, 0));
    Ok(recipe)
}

fn places(channels: &Channels) -> u32 {
    (channels.size.len() - channels.first_place()) as u32
}

/// Returns 1 if channels lie closer than places, and 0 otherwise.
fn order(x: &TensorView<'_>) -> u32 {
    u32::from(x.size.len() > 2 && x.stride[1] < x.stride[x.size.len() - 1])
}

/// The dims of a kernel over images.
struct Image {
    text: Text,
    lane: &'static str,
    all: Vec<String>,
    channels: Vec<String>,
    /// All but channels.
    over: String,
}

impl Image {
    fn of(kernel: &Generated) -> Self {
        let mut text = Text::default();
        let places = kernel.numbers[0] as usize;
        let is_channels_last = kernel.numbers[1] == 1;
        let n = text.dims("n", 1);
        let (p, c) = if is_channels_last {
            (text.dims("p", places), text.dims("c", 1))
        } else {
            let c = text.dims("c", 1);
            (text.dims("p", places), c)
        };
        let over = [n.clone(), p.clone()].concat().join(", ");
        let lane = lane(kernel.dtypes[0]).map_or("f32", spyre_artifact::Lane::name);
        Self { text, lane, all: [n, c.clone(), p].concat(), channels: c, over }
    }
}

fn write_forward(kernel: &Generated) -> String {
    let Image { mut text, lane, all, channels, over } = Image::of(kernel);
    let given = kernel.numbers[2];
    let trains = kernel.numbers[3] == 1;
    let has = |bit: u32| given >> bit & 1 == 1;
    let mut dtypes = kernel.dtypes.iter();
    let mut operand = |text: &mut Text, role: &str, name: &str, dims: &[String]| {
        text.operand(role, name, dtypes.next().copied().unwrap_or(DType::Float32), dims);
    };
    operand(&mut text, "in", "x", &all);
    let running = if trains { "inout" } else { "in" };
    for (bit, role, name) in
        [(0, "in", "w"), (1, "in", "b"), (2, running, "means"), (3, running, "variances")]
    {
        if has(bit) {
            operand(&mut text, role, name, &channels);
        }
    }
    operand(&mut text, "out", "y", &all);
    operand(&mut text, "out", "mean", &channels);
    operand(&mut text, "out", "rstd", &channels);
    let mut scalars = vec!["epsilon"];
    if trains {
        scalars.push("count");
        scalars.extend(["momentum", "unbiased"].iter().filter(|_| has(2)));
    }
    scalars.iter().for_each(|name| text.line(format_args!("scalar {name}: {lane}")));
    if trains {
        text.line(format_args!("m = sum<{over}>(x) / count"));
        text.line(format_args!("d = x - m"));
        text.line(format_args!("v = sum<{over}>(d * d) / count"));
    } else {
        text.line(format_args!("m = means"));
        text.line(format_args!("d = x - m"));
        text.line(format_args!("v = variances"));
    }
    text.line(format_args!("r = rsqrt(v + epsilon)"));
    let weight = if has(0) { "r * w" } else { "r" };
    let bias = if has(1) { " + b" } else { "" };
    text.line(format_args!("y = d * ({weight}){bias}"));
    text.line(format_args!("mean = m * 1"));
    text.line(format_args!("rstd = r * 1"));
    if trains && has(2) {
        text.line(format_args!("means = means * (1 - momentum) + m * momentum"));
        text.line(format_args!("variances = variances * (1 - momentum) + v * unbiased * momentum"));
    }
    text.kernel(kernel.name)
}

/// `native_batch_norm_backward(grad, x, weight, mean, variance, saved mean, saved rstd, train,
/// epsilon, mask)`.
fn backward(call: &Call<'_>, has_reserve: bool) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let x = call.tensor(1).ok_or(Decline::Shapes)?;
    let trains = call.boolean(7).unwrap_or(false);
    let epsilon = number(call, 8)?;
    let lists = if trains { [5, 6] } else { [3, 4] };
    let given = [2, lists[0], lists[1]].map(|at| call.tensor(at).map(|list| list.dtype));
    common_lane(&x, given.into_iter().chain([Some(grad.dtype)]))?;
    let count = *x.size.get(1).ok_or(Decline::Shapes)?;
    let dx = image(&x);
    let weight = given[0].unwrap_or(x.dtype);
    let [dw, db] = [list(weight, count), list(weight, count)];
    let channels = Channels::of(&[grad, x, tensor_of(&dx)])?;
    let mut operands: Operands = smallvec![
        channels.tensor(0, TensorRef::Argument(0), grad.dtype),
        channels.tensor(1, TensorRef::Argument(1), x.dtype),
    ];
    let given = push_lists(call, &[2, lists[0], lists[1]], count, &mut operands)?;
    if given & 0b110 != 0b110 || has_reserve && call.tensor(10).is_none() {
        return Err(Decline::Shapes);
    }
    operands.push(channels.tensor(2, TensorRef::Result(0), dx.dtype));
    operands.push(per_channel(TensorRef::Result(1), &tensor_of(&dw)));
    operands.push(per_channel(TensorRef::Result(2), &tensor_of(&db)));
    let numbers = smallvec![places(&channels), order(&x), given & 1, u32::from(trains)];
    let mut launch = launch("batch_norm_backward", write_backward, numbers, operands)?;
    let scalar = if trains { channels.elements() as f64 } else { epsilon };
    launch.scalars.push(word(scalar));
    Ok(Recipe { results: smallvec![dx, dw, db], launches: smallvec![launch] })
}

fn write_backward(kernel: &Generated) -> String {
    let Image { mut text, lane, all, channels, over } = Image::of(kernel);
    let has_weight = kernel.numbers[2] == 1;
    let trains = kernel.numbers[3] == 1;
    let mut dtypes = kernel.dtypes.iter();
    let mut operand = |text: &mut Text, role: &str, name: &str, dims: &[String]| {
        text.operand(role, name, dtypes.next().copied().unwrap_or(DType::Float32), dims);
    };
    operand(&mut text, "in", "g", &all);
    operand(&mut text, "in", "x", &all);
    if has_weight {
        operand(&mut text, "in", "w", &channels);
    }
    operand(&mut text, "in", "mean", &channels);
    operand(&mut text, "in", if trains { "rstd" } else { "variance" }, &channels);
    operand(&mut text, "out", "dx", &all);
    operand(&mut text, "out", "dw", &channels);
    operand(&mut text, "out", "db", &channels);
    text.line(format_args!("scalar {}: {lane}", if trains { "count" } else { "epsilon" }));
    if !trains {
        text.line(format_args!("rstd = rsqrt(variance + epsilon)"));
    }
    text.line(format_args!("h = (x - mean) * rstd"));
    text.line(format_args!("sg = sum<{over}>(g * 1)"));
    text.line(format_args!("sh = sum<{over}>(g * h)"));
    let scale = if has_weight { "w * rstd" } else { "rstd" };
    if trains {
        text.line(format_args!("dx = {scale} * (g - (sg + h * sh) / count)"));
    } else {
        text.line(format_args!("dx = {scale} * g"));
    }
    text.line(format_args!("dw = sh * 1"));
    text.line(format_args!("db = sg * 1"));
    text.kernel(kernel.name)
}
