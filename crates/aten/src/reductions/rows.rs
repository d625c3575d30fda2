//! Ops that bring rows to a measure: softmax and its like, and norms.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::nest::{Nest, kept_strides};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::{float_of, source};
use crate::template::{Spans, Template, TemplateOperand};
use crate::views::{Numbers, like};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("_softmax.out", |call| along(call, &SOFTMAX, &[0], 1)),
    ("_log_softmax.out", |call| along(call, &LOG_SOFTMAX, &[0], 1)),
    ("_softmax_backward_data.out", |call| along(call, &SOFTMAX_BACKWARD, &[0, 1], 2)),
    ("_log_softmax_backward_data.out", |call| along(call, &LOG_SOFTMAX_BACKWARD, &[0, 1], 2)),
    ("native_layer_norm", layer_norm),
    ("_fused_rms_norm", rms_norm),
    ("native_layer_norm_backward", layer_norm_backward),
    ("_fused_rms_norm_backward", rms_norm_backward),
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

const MEAN_IN: TemplateOperand = TemplateOperand::read("mean", Spans::Kept);
const RSTD_IN: TemplateOperand = TemplateOperand::read("rstd", Spans::Kept);
const DX: TemplateOperand = TemplateOperand::written("dx", Spans::All);
const DW: TemplateOperand = TemplateOperand::written("dw", Spans::Kept);
const DB: TemplateOperand = TemplateOperand::written("db", Spans::Kept);
const MEAN_OF: TemplateOperand = TemplateOperand::read("mean", Spans::Reduced);
const RSTD_OF: TemplateOperand = TemplateOperand::read("rstd", Spans::Reduced);
const COUNT: &[(&str, Option<spyre_artifact::Lane>)] = &[("count", None)];

const fn backward(
    name: &'static str,
    operands: &'static [TemplateOperand],
    body: &'static str,
) -> Template {
    Template { name, dims: None, operands, scalars: COUNT, body }
}

macro_rules! layer_norm_dx {
    ($t:literal) => {
        concat!(
            "t = ",
            $t,
            "\nh = (x - mean) * rstd\n",
            "dx = rstd * (t - (sum<R>(t) + h * sum<R>(t * h)) / count)"
        )
    };
}

macro_rules! rms_norm_dx {
    ($t:literal) => {
        concat!("t = ", $t, "\nh = x * rstd\ndx = rstd * (t - h * (sum<R>(t * h) / count))")
    };
}

static LAYER_NORM_DX: [Template; 2] = [
    backward("layer_norm_dx", &[G, X, MEAN_IN, RSTD_IN, DX], layer_norm_dx!("g * 1")),
    backward("layer_norm_dx", &[G, X, MEAN_IN, RSTD_IN, W, DX], layer_norm_dx!("g * w")),
];
static RMS_NORM_DX: [Template; 2] = [
    backward("rms_norm_dx", &[G, X, RSTD_IN, DX], rms_norm_dx!("g * 1")),
    backward("rms_norm_dx", &[G, X, RSTD_IN, W, DX], rms_norm_dx!("g * w")),
];
// Along the other dims: what was kept is reduced, and weights are what is kept.
static LAYER_NORM_DW: Template =
    template("layer_norm_dw", &[G, X, MEAN_OF, RSTD_OF, DW], "dw = sum<R>(g * (x - mean) * rstd)");
static NORM_DB: Template = template("norm_db", &[G, DB], "db = sum<R>(g)");
static RMS_NORM_DW: Template =
    template("rms_norm_dw", &[G, X, RSTD_OF, DW], "dw = sum<R>(g * x * rstd)");

/// An op whose tensors all have one shape, along one dim of it.
fn along(
    call: &Call<'_>,
    template: &'static Template,
    inputs: &[usize],
    dim: usize,
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let rank = x.size.len() as i64;
    let dim = call.int(dim).ok_or(Decline::Argument { argument: dim, expected: "a dim" })?;
    let dim = if dim < 0 { dim + rank } else { dim };
    let given = call.written.first().and_then(|&at| call.tensor(at)).map(|y| y.dtype);
    let dtype = given.unwrap_or(x.dtype);
    if Category::of(dtype) != Category::Float {
        return Err(Decline::DType { dtype });
    }
    // Gradients may be of another dtype, and what is asked for as float32.
    if inputs.len() == 1 && dtype != x.dtype && call.boolean(2) != Some(true) {
        return Err(Decline::Cast { from: x.dtype, to: dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(dtype, x.size)])?;
    let mut nest = Nest::new(x.size, |at| at as i64 == dim);
    for &input in inputs {
        let tensor = call.tensor(input).filter(|tensor| tensor.size == x.size);
        let tensor = tensor.ok_or(Decline::Shapes)?;
        nest.push(TensorRef::Argument(input), tensor.dtype, tensor.stride);
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
    let shape = call.ints(1).ok_or(Decline::Argument { argument: 1, expected: "a shape" })?;
    let first = x.size.len().checked_sub(shape.len()).ok_or(Decline::Shapes)?;
    let fits = x.size[first..].iter().zip(shape).all(|(&size, &given)| size as i64 == given);
    let is_float = Category::of(x.dtype) == Category::Float;
    if !fits || !is_float || shape.is_empty() || x.size.contains(&0) {
        return Err(Decline::Shapes);
    }
    lane(x.dtype)?;
    let kept: Numbers =
        x.size.iter().enumerate().map(|(at, &size)| if at < first { size } else { 1 }).collect();
    let measured = if x.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
    let mut wanted: SmallVec<[Wanted; 3]> = smallvec![Wanted::rows(x.dtype, x.size)];
    // PyTorch's CPU keeps them as the tensor is.
    let measure = if has_half_statistics(call, weights) { x.dtype } else { measured };
    wanted.extend((0..statistics).map(|_| Wanted::rows(measure, &kept)));
    let outputs = Outputs::of(call, &wanted)?;
    let is_reduced = |dim: usize| dim >= first;
    let mut nest = Nest::new(x.size, is_reduced);
    nest.push(TensorRef::Argument(0), x.dtype, x.stride);
    for &at in weights {
        let Some(weight) = call.tensor(at) else { continue };
        if weight.size != &x.size[first..] {
            return Err(Decline::Shapes);
        }
        nest.push(TensorRef::Argument(at), weight.dtype, &reduced_strides(&weight, first));
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

/// Returns true if weights are of the tensor's own dtype: then means are, too.
fn has_half_statistics(call: &Call<'_>, weights: &[usize]) -> bool {
    let x = call.tensor(0).map(|x| x.dtype);
    weights.iter().filter_map(|&at| call.tensor(at)).all(|weight| Some(weight.dtype) == x)
}

fn reduced_strides(tensor: &TensorView<'_>, first: usize) -> Numbers {
    let missing = std::iter::repeat_n(0, first);
    missing.chain(tensor.stride.iter().copied()).collect()
}

/// Arguments of the backward forms of norms.
struct Backward<'a> {
    grad: TensorView<'a>,
    x: TensorView<'a>,
    /// The first dim of those that are measured together.
    first: usize,
    compute: DType,
}

impl<'a> Backward<'a> {
    fn of(call: &Call<'a>) -> Result<Self, Decline> {
        let grad = source(call)?;
        let x = call.tensor(1).ok_or(Decline::Shapes)?;
        let shape = call.ints(2).ok_or(Decline::Argument { argument: 2, expected: "a shape" })?;
        let first = x.size.len().checked_sub(shape.len()).ok_or(Decline::Shapes)?;
        if grad.size != x.size || x.size.contains(&0) {
            return Err(Decline::Shapes);
        }
        lane(x.dtype)?;
        let compute = if x.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
        Ok(Self { grad, x, first, compute })
    }

    /// Results: as the tensor is, and for `weights` of its parameters, as they are.
    fn outputs(&self, call: &Call<'a>, weights: usize) -> Result<Outputs<'a>, Decline> {
        let mut wanted: SmallVec<[Wanted; 3]> = smallvec![Wanted {
            dtype: self.x.dtype,
            size: self.x.size.into(),
            stride: like(self.x.size, &[self.x.stride.into()]),
        }];
        let measured = &self.x.size[self.first..];
        wanted.extend((0..weights).map(|_| Wanted::rows(self.x.dtype, measured)));
        Outputs::of(call, &wanted)
    }

    fn dx(
        &self,
        call: &Call<'_>,
        template: &'static Template,
        statistics: &[usize],
        weight: usize,
        outputs: &Outputs<'_>,
    ) -> Result<crate::Launch, Decline> {
        let is_reduced = |dim: usize| dim >= self.first;
        let rank = self.x.size.len();
        let mut nest = Nest::new(self.x.size, is_reduced);
        nest.push(TensorRef::Argument(0), self.grad.dtype, self.grad.stride);
        nest.push(TensorRef::Argument(1), self.x.dtype, self.x.stride);
        for &at in statistics {
            let tensor = call.tensor(at).ok_or(Decline::Shapes)?;
            nest.push(
                TensorRef::Argument(at),
                tensor.dtype,
                &kept_strides(&tensor, rank, is_reduced),
            );
        }
        if let Some(weight_tensor) = call.tensor(weight) {
            let strides = reduced_strides(&weight_tensor, self.first);
            nest.push(TensorRef::Argument(weight), weight_tensor.dtype, &strides);
        }
        let (place, y) = outputs.get(0);
        nest.push(place, y.dtype, y.stride);
        let count: usize = self.x.size[self.first..].iter().product();
        nest.launch(template, self.compute, smallvec![Constant::Float(count as f64).word()])
    }

    fn dw(
        &self,
        call: &Call<'_>,
        template: &'static Template,
        statistics: &[usize],
        outputs: &Outputs<'_>,
        result: usize,
    ) -> Result<crate::Launch, Decline> {
        let is_reduced = |dim: usize| dim < self.first;
        let rank = self.x.size.len();
        let mut nest = Nest::new(self.x.size, is_reduced);
        nest.push(TensorRef::Argument(0), self.grad.dtype, self.grad.stride);
        if template.operands.len() > 2 {
            nest.push(TensorRef::Argument(1), self.x.dtype, self.x.stride);
        }
        for &at in statistics {
            let tensor = call.tensor(at).ok_or(Decline::Shapes)?;
            let is_measured = |dim: usize| dim >= self.first;
            nest.push(
                TensorRef::Argument(at),
                tensor.dtype,
                &kept_strides(&tensor, rank, is_measured),
            );
        }
        let (place, y) = outputs.get(result);
        nest.push(place, y.dtype, &reduced_strides(&y, self.first));
        nest.launch(template, self.compute, smallvec![])
    }
}

/// `native_layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, mask)`.
fn layer_norm_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let backward = Backward::of(call)?;
    // What is not asked for is made all the same: the caller leaves it.
    let outputs = backward.outputs(call, 2)?;
    let template = &LAYER_NORM_DX[usize::from(call.tensor(5).is_some())];
    let launches = [
        backward.dx(call, template, &[3, 4], 5, &outputs)?,
        backward.dw(call, &LAYER_NORM_DW, &[3, 4], &outputs, 1)?,
        backward.dw(call, &NORM_DB, &[], &outputs, 2)?,
    ];
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

/// `_fused_rms_norm_backward(grad, x, shape, rstd, weight, mask)`.
fn rms_norm_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let backward = Backward::of(call)?;
    let outputs = backward.outputs(call, 1)?;
    let template = &RMS_NORM_DX[usize::from(call.tensor(4).is_some())];
    let launches = [
        backward.dx(call, template, &[3], 4, &outputs)?,
        backward.dw(call, &RMS_NORM_DW, &[3], &outputs, 1)?,
    ];
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}
