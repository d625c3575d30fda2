//! Ops that carry something along a dim.

use smallvec::smallvec;
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::generated::{AtLeastOne, Generated, Text};
use crate::indexing::{check_dims, dim_of, finish, tensor};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::{Call, Decline};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("_cummax_helper", |call| furthest(call, true)),
    ("_cummin_helper", |call| furthest(call, false)),
    ("_logcumsumexp", log_sum),
    ("_logcumsumexp.out", log_sum),
];

/// `_cummax_helper(x, values!, places!, dim)`: the largest so far, and where it was last.
fn furthest(call: &Call<'_>, is_largest: bool) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let values = tensor(call, 1)?;
    let places = tensor(call, 2)?;
    let dim = dim_of(call, 3, x.size.len())?;
    check_dims(x.size.len())?;
    if values.size != x.size || places.size != x.size {
        return Err(Decline::Shapes);
    }
    let mut recipe = Recipe::default();
    if !x.size.contains(&0) {
        let [x, values, places] = [&x, &values, &places].map(AtLeastOne::of);
        let tensors = [&x, &values, &places].map(AtLeastOne::tensor);
        let tensors = [0, 1, 2].map(|at| (TensorRef::Argument(at), tensors[at]));
        let rank = x.tensor().size.len() as u32;
        let numbers = smallvec![rank, dim as u32, u32::from(is_largest)];
        recipe.launches.push(Generated::launch("cummax", write_furthest, numbers, &tensors)?);
    }
    Ok(recipe)
}

fn write_furthest(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let dim = &own[kernel.numbers[1] as usize];
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "values", kernel.dtypes[1], &own);
    text.operand("out", "places", kernel.dtypes[2], &own);
    let op = if kernel.numbers[2] == 1 { "scan_max" } else { "scan_min" };
    let is_float = Category::of(kernel.dtypes[0]) == Category::Float;
    let is_truth = kernel.dtypes[0] == DType::Bool;
    let is_it = if is_float { "(n == v) | is_nan(n)" } else { "n == v" };
    // Truth values have no order of their own.
    text.line(format_args!("n = {}", if is_truth { "i64(x)" } else { "x" }));
    text.line(format_args!("v = {op}<{dim}>(n)"));
    text.line(format_args!("values = {}", if is_truth { "v != 0" } else { "v" }));
    text.line(format_args!("places = scan_max<{dim}>(where({is_it}, {dim}, 0))"));
    text.kernel(kernel.name)
}

/// `_logcumsumexp(x, dim)`. Sums are wider than elements, so that small ones do not vanish beside large ones.
fn log_sum(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let dim = dim_of(call, 1, x.size.len())?;
    check_dims(x.size.len())?;
    if Category::of(x.dtype) != Category::Float || x.dtype == DType::Float64 {
        return Err(Decline::DType { dtype: x.dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, x.size)])?;
    let mut launches = Vec::new();
    if !x.size.contains(&0) {
        let (place, y) = outputs.get(0);
        let [x, y] = [&x, &y].map(AtLeastOne::of);
        let tensors = [(TensorRef::Argument(0), x.tensor()), (place, y.tensor())];
        let numbers = smallvec![x.tensor().size.len() as u32, dim as u32];
        launches.push(Generated::launch("logcumsumexp", write_log_sum, numbers, &tensors)?);
    }
    Ok(finish(outputs, launches))
}

fn write_log_sum(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let dim = &own[kernel.numbers[1] as usize];
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let lane = lane(kernel.dtypes[1]).map_or("f32", spyre_artifact::Lane::name);
    text.line(format_args!("y = {lane}(scan_logsumexp<{dim}>(f64(x)))"));
    text.kernel(kernel.name)
}
