//! Ops that put elements in order.

use smallvec::smallvec;
use spyre_numerics::DType;

use crate::generated::{AtLeastOne, Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::unsigned_bits::as_ordered;
use crate::views::Numbers;
use crate::{Call, Decline};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    // x, stable, dim, descending
    ("sort.values_stable", |call| ordered(call, 2, call.boolean(3).unwrap_or(false), None)),
    // x, k, dim, largest, sorted
    ("topk.values", |call| ordered(call, 2, call.boolean(3).unwrap_or(true), Some(1))),
];

/// Elements along a dim in their order, all or the first of them, and where they were.
fn ordered(
    call: &Call<'_>,
    dim: usize,
    is_descending: bool,
    count: Option<usize>,
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let rank = x.size.len().max(1);
    let along = call.int(dim).ok_or(Decline::Argument { argument: dim, expected: "a dim" })?;
    let along = if along < 0 { along + rank as i64 } else { along };
    let along = usize::try_from(along).ok().filter(|&dim| dim < rank).ok_or(Decline::Shapes)?;
    if rank > 7 {
        return Err(Decline::Rank { dims: rank });
    }
    let mut size = Numbers::from(x.size);
    let first = count.map(|at| call.int(at).and_then(|count| usize::try_from(count).ok()));
    if let (Some(first), Some(size)) = (first, size.get_mut(along)) {
        *size = first.filter(|first| first <= size).ok_or(Decline::Shapes)?;
    }
    let wanted = [x.dtype, DType::Int64].map(|dtype| Wanted::rows(dtype, &size));
    let outputs = Outputs::of(call, &wanted)?;
    let mut launches = Vec::new();
    if !size.contains(&0) {
        let [(values, y), (places, z)] = [outputs.get(0), outputs.get(1)];
        let [x, y, z] = [&x, &y, &z].map(AtLeastOne::of);
        let tensors =
            [(TensorRef::Argument(0), x.tensor()), (values, y.tensor()), (places, z.tensor())];
        let numbers = smallvec![rank as u32, along as u32, u32::from(is_descending)];
        launches.push(Generated::launch("sort", write, numbers, &tensors)?);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

fn write(kernel: &Generated) -> String {
    let rank = kernel.numbers[0] as usize;
    let along = kernel.numbers[1] as usize;
    let mut text = Text::default();
    let of_x = text.dims("i", rank);
    let first = text.dims("n", 1);
    let mut of_y = of_x.clone();
    of_y[along] = first[0].clone();
    text.operand("in", "x", kernel.dtypes[0], &of_x);
    text.operand("out", "values", kernel.dtypes[1], &of_y);
    text.operand("out", "places", kernel.dtypes[2], &of_y);
    let dim = &of_x[along];
    let order = if kernel.numbers[2] == 1 { "order_descending" } else { "order" };
    let key = match kernel.dtypes[0] {
        DType::Bool => "i64(x)".to_owned(),
        DType::UInt64 => as_ordered("x"),
        _ => "x".to_owned(),
    };
    text.line(format_args!("at = {order}<{dim}>({key})"));
    let mut axes = of_x.clone();
    axes[along] = "at".to_owned();
    let own = of_x.join(", ");
    text.line(format_args!("v = x[{}]", axes.join(", ")));
    text.line(format_args!("values[{own}] = v if {dim} < size(n0)"));
    text.line(format_args!("places[{own}] = at if {dim} < size(n0)"));
    text.kernel(kernel.name)
}
