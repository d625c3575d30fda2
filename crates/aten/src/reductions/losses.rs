//! Losses.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::nest::Nest;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::template::{Spans, Template, TemplateOperand};
use crate::views::{Numbers, broadcast, expanded};
use crate::{Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("mse_loss.out", mse),
    ("nll_loss_forward.output", nll),
    ("nll_loss_backward.grad_input", nll_backward),
];

/// Reduction of the losses of all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    fn of(call: &Call<'_>, argument: usize) -> Result<Self, Decline> {
        match call.int(argument) {
            Some(0) => Ok(Self::None),
            Some(1) => Ok(Self::Mean),
            Some(2) => Ok(Self::Sum),
            _ => Err(Decline::Argument { argument, expected: "a reduction" }),
        }
    }
}

const A: TemplateOperand = TemplateOperand::read("a", Spans::All);
const B: TemplateOperand = TemplateOperand::read("b", Spans::All);
const EACH: TemplateOperand = TemplateOperand::written("y", Spans::All);
const ALL: TemplateOperand = TemplateOperand::written("y", Spans::Kept);

static MSE: Template = Template {
    name: "mse",
    dims: None,
    operands: &[A, B, EACH],
    scalars: &[],
    body: "d = a - b\ny = d * d",
};
static MSE_REDUCED: Template = Template {
    name: "mse_reduced",
    dims: None,
    operands: &[A, B, ALL],
    scalars: &[("count", None)],
    body: "d = a - b\ny = sum<R>(d * d) / count",
};

/// `mse_loss(x, target, reduction)`.
fn mse(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let target = call.tensor(1).ok_or(Decline::Shapes)?;
    let reduction = Reduction::of(call, 2)?;
    if x.dtype != target.dtype || Category::of(x.dtype) != Category::Float {
        return Err(Decline::DType { dtype: target.dtype });
    }
    let shape = broadcast([x.size, target.size]).ok_or(Decline::Shapes)?;
    let is_each = reduction == Reduction::None;
    let size: &[usize] = if is_each { &shape } else { &[] };
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, size)])?;
    let mut nest = Nest::new(&shape, |_| !is_each);
    for (at, tensor) in [x, target].iter().enumerate() {
        let strides = expanded(tensor, &shape).ok_or(Decline::Shapes)?;
        nest.push(TensorRef::Argument(at), tensor.dtype, &strides);
    }
    let (place, y) = outputs.get(0);
    let none: Numbers = smallvec![0; shape.len()];
    nest.push(place, y.dtype, if is_each { y.stride } else { &none });
    let count: usize = shape.iter().product();
    let divisor = if reduction == Reduction::Mean { count as f64 } else { 1.0 };
    let (template, scalars): (_, SmallVec<[u64; 4]>) = if is_each {
        (&MSE, smallvec![])
    } else {
        (&MSE_REDUCED, smallvec![Constant::Float(divisor).word()])
    };
    let launch = (!size.contains(&0)).then(|| nest.launch(template, x.dtype, scalars));
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launch.transpose()?);
    Ok(recipe)
}

/// Rows of log-probabilities, a class for each, and maybe weights of classes.
struct Classes<'a> {
    x: TensorView<'a>,
    target: TensorView<'a>,
    weight: Option<TensorView<'a>>,
}

impl<'a> Classes<'a> {
    fn of(call: &Call<'a>, x: usize) -> Result<Self, Decline> {
        let tensor = |at| call.tensor(at).ok_or(Decline::Shapes);
        let rows = tensor(x)?;
        let target = tensor(x + 1)?;
        let weight = call.tensor(x + 2);
        let is_row = rows.size.len() == 2 && target.size == [rows.size[0]];
        let is_plain = target.dtype == DType::Int64
            && weight.is_none_or(|weight| weight.dtype == rows.dtype)
            && Category::of(rows.dtype) == Category::Float;
        lane(rows.dtype)?;
        if is_row && is_plain && !rows.size.contains(&0) {
            Ok(Self { x: rows, target, weight })
        } else {
            Err(Decline::Shapes)
        }
    }
}

/// `nll_loss_forward(x, target, weight, reduction, ignored)`: the loss, and the weight of all rows.
fn nll(call: &Call<'_>) -> Result<Recipe, Decline> {
    let classes = Classes::of(call, 0)?;
    let reduction = Reduction::of(call, 3)?;
    let ignored = call.int(4).unwrap_or(-100);
    let rows = classes.x.size[0];
    let size: &[usize] = if reduction == Reduction::None { &[rows] } else { &[] };
    let dtype = classes.x.dtype;
    let outputs = Outputs::of(call, &[Wanted::rows(dtype, size), Wanted::rows(dtype, &[])])?;
    let [(loss, y), (total, w)] = [outputs.get(0), outputs.get(1)];
    let one = |tensor: TensorView<'_>| TensorView { size: &[1], stride: &[1], ..tensor };
    let mut tensors =
        vec![(TensorRef::Argument(0), classes.x), (TensorRef::Argument(1), classes.target)];
    tensors.extend(classes.weight.map(|weight| (TensorRef::Argument(2), weight)));
    tensors.push((loss, if size.is_empty() { one(y) } else { y }));
    tensors.push((total, one(w)));
    let kind = match reduction {
        Reduction::None => 0,
        Reduction::Mean => 1,
        Reduction::Sum => 2,
    };
    let numbers = smallvec![kind, u32::from(classes.weight.is_some())];
    let mut launch = Generated::launch("nll_loss", write_nll, numbers, &tensors)?;
    launch.scalars.push(ignored.cast_unsigned());
    let mut recipe = outputs.into_recipe();
    recipe.launches.push(launch);
    Ok(recipe)
}

/// The rows, classes and weights of a kernel, and `ok`, `w`: whether a row counts, and how much.
fn write_classes(kernel: &Generated, text: &mut Text, has_weight: bool, from: usize) -> usize {
    text.operand("in", "target", kernel.dtypes[from], &["n0".to_owned()]);
    if has_weight {
        text.operand("in", "weight", kernel.dtypes[from + 1], &["c0".to_owned()]);
    }
    from + 1 + usize::from(has_weight)
}

fn write_weights(kernel: &Generated, text: &mut Text, has_weight: bool) {
    let lane = lane(kernel.dtypes[0]).map_or("f32", Lane::name);
    text.line(format_args!("scalar ignored: i64"));
    text.line(format_args!("ok = target != ignored"));
    text.line(format_args!("class = where(ok, target, 0)"));
    let weight = if has_weight { "weight[class]".to_owned() } else { format!("1.0{lane}") };
    text.line(format_args!("w = where(ok, {weight}, 0)"));
}

fn write_nll(kernel: &Generated) -> String {
    let reduction = kernel.numbers[0];
    let has_weight = kernel.numbers[1] == 1;
    let mut text = Text::default();
    let n = text.dims("n", 1);
    let c = text.dims("c", 1);
    let one = text.dims("one", 1);
    text.operand("in", "x", kernel.dtypes[0], &[n.clone(), c].concat());
    let at = write_classes(kernel, &mut text, has_weight, 1);
    text.operand("out", "y", kernel.dtypes[at], if reduction == 0 { &n } else { &one });
    text.operand("out", "total", kernel.dtypes[at + 1], &one);
    write_weights(kernel, &mut text, has_weight);
    text.line(format_args!("v = -(w * x[n0, class])"));
    text.line(format_args!("weights = sum<n0>(w)"));
    match reduction {
        0 => text.line(format_args!("y = v")),
        1 => text.line(format_args!("y = sum<n0>(v) / weights")),
        _ => text.line(format_args!("y = sum<n0>(v)")),
    }
    let total = if reduction == 0 { "weights * 0" } else { "weights" };
    text.line(format_args!("total = {total}"));
    text.kernel(kernel.name)
}

/// `nll_loss_backward(grad, x, target, weight, reduction, ignored, total)`.
fn nll_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let classes = Classes::of(call, 1)?;
    let reduction = Reduction::of(call, 4)?;
    let ignored = call.int(5).unwrap_or(-100);
    let total = call.tensor(6).ok_or(Decline::Shapes)?;
    let dtype = classes.x.dtype;
    if grad.dtype != dtype || total.dtype != dtype {
        return Err(Decline::DType { dtype: grad.dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(dtype, classes.x.size)])?;
    let (place, y) = outputs.get(0);
    let rows: &[usize] = &[classes.x.size[0]];
    let stride = if reduction == Reduction::None { grad.stride } else { &[0] };
    let grad = TensorView { dtype, size: rows, stride, offset: 0 };
    let total = TensorView { dtype, size: &[1], stride: &[1], offset: 0 };
    let mut tensors =
        vec![(TensorRef::Argument(0), grad), (TensorRef::Argument(2), classes.target)];
    tensors.extend(classes.weight.map(|weight| (TensorRef::Argument(3), weight)));
    tensors.push((TensorRef::Argument(6), total));
    tensors.push((place, y));
    let is_mean = u32::from(reduction == Reduction::Mean);
    let numbers = smallvec![is_mean, u32::from(classes.weight.is_some())];
    let mut launch = Generated::launch("nll_loss_backward", write_nll_backward, numbers, &tensors)?;
    launch.scalars.push(ignored.cast_unsigned());
    let mut recipe = outputs.into_recipe();
    recipe.launches.push(launch);
    Ok(recipe)
}

fn write_nll_backward(kernel: &Generated) -> String {
    let is_mean = kernel.numbers[0] == 1;
    let has_weight = kernel.numbers[1] == 1;
    let mut text = Text::default();
    let n = text.dims("n", 1);
    let c = text.dims("c", 1);
    let one = text.dims("one", 1);
    text.operand("in", "grad", kernel.dtypes[0], &n);
    let at = write_classes(kernel, &mut text, has_weight, 1);
    text.operand("in", "total", kernel.dtypes[at], &one);
    text.operand("out", "y", kernel.dtypes[at + 1], &[n, c].concat());
    write_weights(kernel, &mut text, has_weight);
    let share = if is_mean { " / sum<one0>(total)" } else { "" };
    text.line(format_args!("g = -(w * grad){share}"));
    text.line(format_args!("y = where((c0 == class) & ok, g, 0)"));
    text.kernel(kernel.name)
}
