//! Matrix products, and ops that are made of them.

pub(crate) mod attention;
pub(crate) mod quantised;

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use crate::dtypes::lane;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, TensorRef};
use crate::reductions::{float_of, source};
use crate::template::{Spans, Template, TemplateOperand, Written};
use crate::views::{Numbers, expanded};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("mm.out", |call| product(call, &MATRICES, [0, 1])),
    ("bmm.out", |call| product(call, &BATCHES, [0, 1])),
    ("mv.out", |call| product(call, &VECTOR, [0, 1])),
    ("mv", |call| product(call, &VECTOR, [0, 1])),
    ("dot", |call| product(call, &VECTORS, [0, 1])),
    ("addmm.out", |call| added(call, &MATRICES)),
    ("baddbmm.out", |call| added(call, &BATCHES)),
    ("addmv.out", |call| added(call, &VECTOR)),
];

const fn read(name: &'static str, dims: &'static str) -> TemplateOperand {
    TemplateOperand::read(name, Spans::Named(dims))
}

const fn written(name: &'static str, dims: &'static str) -> TemplateOperand {
    TemplateOperand::written(name, Spans::Named(dims))
}

/// Templates of one kind of product: the product itself, with something added, and in proportion.
struct Products {
    plain: Template,
    added: Template,
    scaled: Template,
}

const SCALES: &[(&str, Option<spyre_artifact::Lane>)] = &[("beta", None), ("alpha", None)];
const SCALE: &[(&str, Option<spyre_artifact::Lane>)] = &[("alpha", None)];

macro_rules! products {
    ($name:literal, $dims:literal, $a:literal, $b:literal, $y:literal) => {
        Products {
            plain: Template {
                name: $name,
                dims: Some($dims),
                operands: &[read("a", $a), read("b", $b), written("y", $y)],
                scalars: &[],
                body: "y = sum<k>(a * b)",
            },
            added: Template {
                name: concat!("add", $name),
                dims: Some($dims),
                operands: &[read("c", $y), read("a", $a), read("b", $b), written("y", $y)],
                scalars: SCALES,
                body: "y = beta * c + alpha * sum<k>(a * b)",
            },
            scaled: Template {
                name: concat!("scaled_", $name),
                dims: Some($dims),
                operands: &[read("a", $a), read("b", $b), written("y", $y)],
                scalars: SCALE,
                body: "y = alpha * sum<k>(a * b)",
            },
        }
    };
}

static MATRICES: Products = products!("mm", "m, n, k", "m, k", "k, n", "m, n");
static BATCHES: Products =
    products!("bmm", "batch, m, n, k", "batch, m, k", "batch, k, n", "batch, m, n");
static VECTOR: Products = products!("mv", "m, k", "m, k", "k", "m");
static VECTORS: Products = products!("dot", "one, k", "one, k", "one, k", "one");

fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<TensorView<'a>, Decline> {
    let tensor = call.tensor(argument);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor" })?;
    lane(tensor.dtype)?;
    Ok(tensor)
}

fn product(call: &Call<'_>, forms: &'static Products, at: [usize; 2]) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let a = tensor(call, at[0])?;
    let b = tensor(call, at[1])?;
    if a.dtype != b.dtype || a.dtype == DType::Bool {
        return Err(Decline::DType { dtype: x.dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, &result_size(&a, &b)?)])?;
    let (place, y) = outputs.get(0);
    let operands = smallvec![
        (TensorRef::Argument(at[0]), a, a.stride.into()),
        (TensorRef::Argument(at[1]), b, b.stride.into()),
        (place, y, y.stride.into()),
    ];
    let launch = launch(&forms.plain, x.dtype, operands, smallvec![]);
    finish(outputs, launch)
}

/// `beta * c + alpha * (a @ b)`; without a beta, c is not looked at.
fn added(call: &Call<'_>, forms: &'static Products) -> Result<Recipe, Decline> {
    let c = tensor(call, 0)?;
    let a = tensor(call, 1)?;
    let b = tensor(call, 2)?;
    if a.dtype != b.dtype || a.dtype != c.dtype || a.dtype == DType::Bool {
        return Err(Decline::DType { dtype: a.dtype });
    }
    let number = |argument| match call.argument(argument) {
        Argument::Number(number) => Ok(number),
        _ => Err(Decline::Argument { argument, expected: "a number" }),
    };
    let beta = number(3)?;
    let alpha = number(4)?;
    let size = result_size(&a, &b)?;
    let outputs = Outputs::of(call, &[Wanted::rows(a.dtype, &size)])?;
    let (place, y) = outputs.get(0);
    let own = lane(a.dtype)?;
    let mut operands: SmallVec<[(TensorRef, TensorView<'_>, Numbers); 4]> = smallvec![
        (TensorRef::Argument(1), a, a.stride.into()),
        (TensorRef::Argument(2), b, b.stride.into()),
        (place, y, y.stride.into()),
    ];
    let mut scalars: SmallVec<[u64; 4]> = smallvec![alpha.in_lane(own).word()];
    let template = if float_of(&beta) == 0.0 {
        &forms.scaled
    } else {
        let stride = expanded(&c, &size).ok_or(Decline::Shapes)?;
        operands.insert(0, (TensorRef::Argument(0), TensorView { size: &size, ..c }, stride));
        scalars.insert(0, beta.in_lane(own).word());
        &forms.added
    };
    let launch = launch(template, a.dtype, operands, scalars);
    finish(outputs, launch)
}

fn finish(outputs: Outputs<'_>, launch: Launch) -> Result<Recipe, Decline> {
    let (_, y) = outputs.get(0);
    let is_empty = y.size.contains(&0);
    let mut recipe = outputs.into_recipe();
    if !is_empty {
        recipe.launches.push(launch);
    }
    Ok(recipe)
}

/// The shape of `a @ b`.
fn result_size(a: &TensorView<'_>, b: &TensorView<'_>) -> Result<Numbers, Decline> {
    let size: Numbers = match (a.size, b.size) {
        (&[m, k], &[other, n]) if k == other => smallvec![m, n],
        (&[batch, m, k], &[also, other, n]) if k == other && batch == also => {
            smallvec![batch, m, n]
        }
        (&[m, k], &[other]) if k == other => smallvec![m],
        (&[k], &[other]) if k == other => smallvec![],
        _ => return Err(Decline::Shapes),
    };
    Ok(size)
}

fn launch(
    template: &'static Template,
    compute: DType,
    operands: SmallVec<[(TensorRef, TensorView<'_>, Numbers); 4]>,
    scalars: SmallVec<[u64; 4]>,
) -> Launch {
    let dtypes = operands.iter().map(|(_, tensor, _)| tensor.dtype).collect();
    let kernel = Written { template, compute, dtypes, reduced: SmallVec::new() };
    let views =
        operands.into_iter().zip(template.operands).map(|((place, tensor, stride), operand)| {
            let mut view = OperandView { place, size: tensor.size.into(), stride, offset: 0 };
            // A vector is a matrix of one row.
            let Spans::Named(dims) = operand.spans else { return view };
            while view.size.len() < dims.split(',').count() {
                view.size.insert(0, 1);
                view.stride.insert(0, 1);
            }
            view
        });
    Launch { operands: views.collect(), kernel: KernelSource::Written(kernel), scalars }
}
