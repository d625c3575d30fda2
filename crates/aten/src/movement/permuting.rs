//! Ops that give the elements of a tensor in another order.

use smallvec::smallvec;

use crate::generated::{AtLeastOne, Generated, Text};
use crate::indexing::{check_dims, finish};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::reductions::source;
use crate::views::{Numbers, preserved};
use crate::{Call, Decline};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[("flip", flip)];

/// Dims of an operand that a kernel can reach by other coordinates than its own.
const MOST_TURNED: u32 = 7;

/// `flip(x, dims)`: from the last to the first.
fn flip(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let dims = dims_of(call, 1)?;
    // A single element is its own last.
    let turned_dims = dims.iter().filter(|&&dim| x.size[dim] > 1);
    let mask = turned_dims.fold(0_u32, |mask, dim| mask | 1 << dim);
    if mask.count_ones() > MOST_TURNED {
        return Err(Decline::Rank { dims: dims.len() });
    }
    turned(call, mask)
}

fn dims_of(call: &Call<'_>, argument: usize) -> Result<Numbers, Decline> {
    let rank = source(call)?.size.len();
    let wrong = Decline::Argument { argument, expected: "dims, each once" };
    let mut dims = Numbers::new();
    for &dim in call.ints(argument).ok_or(wrong.clone())? {
        let dim = if dim < 0 { dim + rank as i64 } else { dim };
        let dim = usize::try_from(dim).ok().filter(|&dim| dim < rank).ok_or(wrong.clone())?;
        if dims.contains(&dim) {
            return Err(wrong);
        }
        dims.push(dim);
    }
    if rank == 0 { Err(wrong) } else { Ok(dims) }
}

fn turned(call: &Call<'_>, mask: u32) -> Result<Recipe, Decline> {
    let x = source(call)?;
    check_dims(x.size.len())?;
    let stride = preserved(x.size, x.stride);
    let wanted = Wanted { dtype: x.dtype, size: x.size.into(), stride };
    let outputs = Outputs::of(call, &[wanted])?;
    let mut launches = Vec::new();
    if !x.size.contains(&0) {
        let (place, y) = outputs.get(0);
        let [x, y] = [&x, &y].map(AtLeastOne::of);
        let tensors = [(TensorRef::Argument(0), x.tensor()), (place, y.tensor())];
        let numbers = smallvec![x.tensor().size.len() as u32, mask];
        launches.push(Generated::launch("flip", write, numbers, &tensors)?);
    }
    Ok(finish(outputs, launches))
}

fn write(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let coordinate = |(dim, name): (usize, &String)| match kernel.numbers[1] >> dim & 1 {
        1 => format!("size({name}) - 1 - {name}"),
        _ => name.clone(),
    };
    let axes: Vec<String> = own.iter().enumerate().map(coordinate).collect();
    text.line(format_args!("y = x[{}]", axes.join(", ")));
    text.kernel(kernel.name)
}
