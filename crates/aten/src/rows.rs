//! Ops that bring rows to a measure: softmax and its like, and norms.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::nest::{Nest, kept_strides};
use crate::op::Function;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::{Place, Recipe};
use crate::reductions::{float_of, source};
use crate::template::{Spans, Template, TemplateOperand};
use crate::views::{Numbers, like};
use crate::{Argument, Call, Decline, Tensor};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("_softmax.out", |call| along(call, &SOFTMAX, &[0], 1)),
    ("_log_softmax.out", |call| along(call, &LOG_SOFTMAX, &[0], 1)),
    ("_softmax_backward_data.out", |call| along(call, &SOFTMAX_BACKWARD, &[0, 1], 2)),
    ("_log_softmax_backward_data.out", |call| along(call, &LOG_SOFTMAX_BACKWARD, &[0, 1], 2)),
    ("native_layer_norm", layer_norm),
    ("_fused_rms_norm", rms_norm),
];

const X: TemplateOperand = TemplateOperand::read("x", Spans::All);
const Y: TemplateOperand = TemplateOperand::written("y", Spans::All);
const G: TemplateOperand = TemplateOperand::read("g", Spans::All);
const W: TemplateOperand = TemplateOperand::read("w", Spans::Reduced);
const B: TemplateOperand = TemplateOperand::read("b", Spans::Reduced);
const MEAN: TemplateOperand = TemplateOperand::written("mean", Spans::Kept);
const RSTD: TemplateOperand = TemplateOperand::written("rstd", Spans::Kept);

const fn template(
    name: &'static str,
    operands: &'static [TemplateOperand],
    body: &'static str,
) -> Template {
    Template { name, dims: None, operands, scalars: &[], body }
}

static SOFTMAX: Template =
    template("softmax", &[X, Y], "e = exp(x - max<R>(x))\ny = e / sum<R>(e)");
static LOG_SOFTMAX: Template =
    template("log_softmax", &[X, Y], "d = x - max<R>(x)\ny = d - log(sum<R>(exp(d)))");
static SOFTMAX_BACKWARD: Template =
    template("softmax_backward", &[G, X, Y], "t = g * x\ny = t - x * sum<R>(t)");
static LOG_SOFTMAX_BACKWARD: Template =
    template("log_softmax_backward", &[G, X, Y], "y = g - exp(x) * sum<R>(g)");

const NORM_SCALARS: &[(&str, Option<spyre_artifact::Lane>)] = &[("count", None), ("epsilon", None)];
const fn norm(
    name: &'static str,
    operands: &'static [TemplateOperand],
    body: &'static str,
) -> Template {
    Template { name, dims: None, operands, scalars: NORM_SCALARS, body }
}

macro_rules! layer_norm_body {
    ($last:literal) => {
        concat!(
            "m = sum<R>(x) / count\nd = x - m\ns = rsqrt(sum<R>(d * d) / count + epsilon)\n",
            "mean = m\nrstd = s\ny = ",
            $last
        )
    };
}

static LAYER_NORM: [Template; 4] = [
    norm("layer_norm", &[X, Y, MEAN, RSTD], layer_norm_body!("d * s")),
    norm("layer_norm", &[X, W, Y, MEAN, RSTD], layer_norm_body!("d * s * w")),
    norm("layer_norm", &[X, B, Y, MEAN, RSTD], layer_norm_body!("d * s + b")),
    norm("layer_norm", &[X, W, B, Y, MEAN, RSTD], layer_norm_body!("d * s * w + b")),
];
static RMS_NORM: [Template; 2] = [
    norm(
        "rms_norm",
        &[X, Y, RSTD],
        "s = rsqrt(sum<R>(x * x) / count + epsilon)\nrstd = s\ny = x * s",
    ),
    norm(
        "rms_norm",
        &[X, W, Y, RSTD],
        "s = rsqrt(sum<R>(x * x) / count + epsilon)\nrstd = s\ny = x * s * w",
    ),
];

/// An op whose tensors all have one shape, along one dim of it.
fn along(
    call: &Call<'_>,
    template: &'static Template,
    inputs: &[usize],
    dim: usize,
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let rank = x.size.len() as i64;
    let dim = call.whole(dim).ok_or(Decline::Argument { argument: dim, expected: "a dim" })?;
    let dim = if dim < 0 { dim + rank } else { dim };
    let given = call.written.first().and_then(|&at| call.tensor(at)).map(|y| y.dtype);
    let dtype = given.unwrap_or(x.dtype);
    if Category::of(dtype) != Category::Float {
        return Err(Decline::DType { dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(dtype, x.size)])?;
    let mut nest = Nest::new(x.size, |at| at as i64 == dim);
    for &input in inputs {
        let tensor = call.tensor(input).filter(|tensor| tensor.size == x.size);
        let tensor = tensor.ok_or(Decline::Shapes)?;
        nest.push(Place::Argument(input), tensor.dtype, tensor.stride);
    }
    let (place, y) = outputs.get(0);
    nest.push(place, y.dtype, y.stride);
    let launch = (!x.size.contains(&0)).then(|| nest.launch(template, dtype, smallvec![]));
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launch.transpose()?);
    Ok(recipe)
}

/// `native_layer_norm(x, shape, weight, bias, epsilon)`: the result, means and reciprocal deviations.
fn layer_norm(call: &Call<'_>) -> Result<Recipe, Decline> {
    let has = |at| call.tensor(at).is_some();
    let template = &LAYER_NORM[usize::from(has(2)) + 2 * usize::from(has(3))];
    let epsilon = match call.argument(4) {
        Argument::Number(number) => float_of(&number),
        _ => return Err(Decline::Argument { argument: 4, expected: "a number" }),
    };
    normalise(call, template, &[2, 3], epsilon, 2)
}

/// `_fused_rms_norm(x, shape, weight, epsilon)`: the result and reciprocal roots.
fn rms_norm(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let epsilon = match call.argument(3) {
        Argument::Number(number) => float_of(&number),
        _ if x.dtype == DType::Float64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let template = &RMS_NORM[usize::from(call.tensor(2).is_some())];
    normalise(call, template, &[2], epsilon, 1)
}

fn normalise(
    call: &Call<'_>,
    template: &'static Template,
    weights: &[usize],
    epsilon: f64,
    statistics: usize,
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let shape = call.wholes(1).ok_or(Decline::Argument { argument: 1, expected: "a shape" })?;
    let first = x.size.len().checked_sub(shape.len()).ok_or(Decline::Shapes)?;
    let fits = x.size[first..].iter().zip(shape).all(|(&size, &given)| size as i64 == given);
    if !fits || Category::of(x.dtype) != Category::Float || x.size.contains(&0) {
        return Err(Decline::Shapes);
    }
    lane(x.dtype)?;
    let kept: Numbers =
        x.size.iter().enumerate().map(|(at, &size)| if at < first { size } else { 1 }).collect();
    let measured = if x.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
    let mut wanted: SmallVec<[Wanted; 3]> = smallvec![Wanted {
        dtype: x.dtype,
        size: x.size.into(),
        stride: like(x.size, &[x.stride.into()]),
    }];
    // PyTorch's CPU keeps them as the tensor is.
    let measure = if has_half_statistics(call, weights) { x.dtype } else { measured };
    wanted.extend((0..statistics).map(|_| Wanted::rows(measure, &kept)));
    let outputs = Outputs::of(call, &wanted)?;
    let is_reduced = |dim: usize| dim >= first;
    let mut nest = Nest::new(x.size, is_reduced);
    nest.push(Place::Argument(0), x.dtype, x.stride);
    for &at in weights {
        let Some(weight) = call.tensor(at) else { continue };
        if weight.size != &x.size[first..] {
            return Err(Decline::Shapes);
        }
        nest.push(Place::Argument(at), weight.dtype, &reduced_strides(&weight, first));
    }
    let (place, y) = outputs.get(0);
    nest.push(place, y.dtype, y.stride);
    for at in 1..=statistics {
        let (place, y) = outputs.get(at);
        nest.push(place, y.dtype, &kept_strides(&y, x.size.len(), is_reduced));
    }
    let count: usize = x.size[first..].iter().product();
    let scalars = [count as f64, epsilon].map(|number| Constant::Float(number).word());
    let launch = nest.launch(template, measured, SmallVec::from_slice(&scalars))?;
    let mut recipe = outputs.into_recipe();
    recipe.launches.push(launch);
    Ok(recipe)
}

/// Whether weights are of the tensor's own dtype: then means are, too.
fn has_half_statistics(call: &Call<'_>, weights: &[usize]) -> bool {
    let x = call.tensor(0).map(|x| x.dtype);
    weights.iter().filter_map(|&at| call.tensor(at)).all(|weight| Some(weight.dtype) == x)
}

fn reduced_strides(tensor: &Tensor<'_>, first: usize) -> Numbers {
    let missing = std::iter::repeat_n(0, first);
    missing.chain(tensor.stride.iter().copied()).collect()
}
