//! Ops that give the elements of a tensor in another order.

use smallvec::smallvec;

use crate::generated::{AtLeastOne, Generated, Text};
use crate::indexing::{check_dims, finish};
use crate::op::Function;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::{Place, Recipe};
use crate::reductions::source;
use crate::views::{Numbers, like};
use crate::{Call, Decline};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[("flip", flip), ("roll", roll)];

/// `flip(x, dims)`: from the last to the first.
fn flip(call: &Call<'_>) -> Result<Recipe, Decline> {
    let dims = dims_of(call, 1)?;
    let mask = dims.iter().fold(0, |mask, dim| mask | 1 << dim);
    turned(call, "flip", write_flip, mask, &[])
}

fn write_flip(kernel: &Generated) -> String {
    let mask = kernel.numbers[1];
    write(kernel, |dim, name| match mask >> dim & 1 {
        1 => format!("size({name}) - 1 - {name}"),
        _ => name.to_owned(),
    })
}

/// `roll(x, shifts, dims)`: each element so many places further, and round the end.
fn roll(call: &Call<'_>) -> Result<Recipe, Decline> {
    let (x, dims) = (source(call)?, dims_of(call, 2)?);
    let wrong = Decline::Argument { argument: 1, expected: "a shift for each dim" };
    let shifts = call.wholes(1).filter(|shifts| shifts.len() == dims.len()).ok_or(wrong)?;
    let mut by: Numbers = smallvec![0; x.size.len()];
    for (&dim, &shift) in dims.iter().zip(shifts) {
        let size = x.size[dim].max(1);
        by[dim] = (by[dim] + shift.rem_euclid(size as i64) as usize) % size;
    }
    turned(call, "roll", write_roll, 0, &by)
}

fn write_roll(kernel: &Generated) -> String {
    write(kernel, |dim, name| format!("({name} + size({name}) - by{dim}) % size({name})"))
}

fn dims_of(call: &Call<'_>, argument: usize) -> Result<Numbers, Decline> {
    let rank = source(call)?.size.len();
    let wrong = Decline::Argument { argument, expected: "dims, each once" };
    let mut dims = Numbers::new();
    for &dim in call.wholes(argument).ok_or(wrong.clone())? {
        let dim = if dim < 0 { dim + rank as i64 } else { dim };
        let dim = usize::try_from(dim).ok().filter(|&dim| dim < rank).ok_or(wrong.clone())?;
        dims.push(dim);
    }
    // A roll may name a dim twice; none of its samples or users has a tensor without dims.
    if rank == 0 { Err(wrong) } else { Ok(dims) }
}

fn turned(
    call: &Call<'_>,
    name: &'static str,
    write: fn(&Generated) -> String,
    mask: u32,
    scalars: &[usize],
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    check_dims(x.size.len())?;
    let stride = like(x.size, &[Numbers::from(x.stride)]);
    let wanted = Wanted { dtype: x.dtype, size: x.size.into(), stride };
    let outputs = Outputs::of(call, &[wanted])?;
    let mut launches = Vec::new();
    if !x.size.contains(&0) {
        let (place, y) = outputs.get(0);
        let [x, y] = [&x, &y].map(AtLeastOne::of);
        let tensors = [(Place::Argument(0), x.tensor()), (place, y.tensor())];
        let numbers = smallvec![x.tensor().size.len() as u32, mask];
        let mut launch = Generated::launch(name, write, numbers, &tensors)?;
        launch.scalars.extend(scalars.iter().map(|&number| number as u64));
        launches.push(launch);
    }
    Ok(finish(outputs, launches))
}

fn write(kernel: &Generated, coordinate: impl Fn(usize, &str) -> String) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let axes: Vec<String> =
        own.iter().enumerate().map(|(dim, name)| coordinate(dim, name)).collect();
    for dim in (0..own.len()).filter(|dim| axes[*dim].contains(&format!("by{dim}"))) {
        text.line(format_args!("scalar by{dim}: i64"));
    }
    text.line(format_args!("y = x[{}]", axes.join(", ")));
    text.kernel(kernel.name)
}
