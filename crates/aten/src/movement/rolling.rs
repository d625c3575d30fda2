//! `roll`: elements that leave at one end come in at the other.

use smallvec::{SmallVec, smallvec};

use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::views::{Numbers, like};
use crate::{Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[("roll", roll)];

/// Dims that kernels have.
const MOST_DIMS: usize = 8;

/// `roll(x, shifts, dims)`; without dims all elements are one row.
fn roll(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let shifts = call.ints(1).ok_or(Decline::Argument { argument: 1, expected: "shifts" })?;
    let dims = call.ints(2).unwrap_or_default();
    let wanted = if dims.is_empty() {
        Wanted::rows(x.dtype, x.size)
    } else {
        Wanted::image(x.dtype, x.size, &x)
    };
    let outputs = Outputs::of(call, &[wanted])?;
    let launch = {
        let (place, y) = outputs.get(0);
        match (dims, shifts) {
            _ if x.size.contains(&0) => None,
            ([], &[shift]) => Some(roll_flat((&x, shift), (place, &y))?),
            ([], _) => return Err(Decline::Shapes),
            _ => Some(launch(&x, &shifts_of(&x, shifts, dims)?, (place, &y))?),
        }
    };
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launch);
    Ok(recipe)
}

/// Returns the shift of each dim, less than its extent.
fn shifts_of(x: &TensorView<'_>, shifts: &[i64], dims: &[i64]) -> Result<Numbers, Decline> {
    let rank = x.size.len();
    if shifts.len() != dims.len() || rank > MOST_DIMS / 2 {
        return Err(Decline::Rank { dims: rank });
    }
    let mut moved: Numbers = smallvec![0; rank];
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let dim = if dim < 0 { dim + rank as i64 } else { dim };
        let dim = usize::try_from(dim).ok().filter(|&dim| dim < rank).ok_or(Decline::Shapes)?;
        let extent = x.size[dim] as i64;
        moved[dim] = (moved[dim] as i64 + shift.rem_euclid(extent)).rem_euclid(extent) as usize;
    }
    Ok(moved)
}

fn roll_flat(
    (x, shift): (&TensorView<'_>, i64),
    (place, y): (TensorRef, &TensorView<'_>),
) -> Result<Launch, Decline> {
    let rows = like(x.size, &[]);
    let mut dims = x.size.iter().zip(x.stride).zip(&rows);
    if !dims.all(|((&size, stride), row)| size < 2 || stride == row) {
        return Err(Decline::Argument { argument: 0, expected: "rows that follow each other" });
    }
    let count = [x.size.iter().product::<usize>()];
    let [x, y] = [x, y].map(|tensor| TensorView { size: &count, stride: &[1], ..*tensor });
    launch(&x, &[shift.rem_euclid(count[0] as i64) as usize], (place, &y))
}

fn launch(
    x: &TensorView<'_>,
    shifts: &[usize],
    (place, y): (TensorRef, &TensorView<'_>),
) -> Result<Launch, Decline> {
    let moves = shifts.iter().enumerate().filter(|(_, shift)| **shift > 0);
    let mask = moves.clone().fold(0, |mask, (dim, _)| mask | 1 << dim);
    let numbers: SmallVec<[u32; 8]> = smallvec![shifts.len() as u32, mask];
    let tensors = [(TensorRef::Argument(0), *x), (place, *y)];
    let mut launch = Generated::launch("roll", write, numbers, &tensors)?;
    launch.scalars.extend(moves.map(|(_, &shift)| shift as u64));
    Ok(launch)
}

fn write(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let moves = |dim: &usize| kernel.numbers[1] >> dim & 1 == 1;
    let moved: Vec<usize> = (0..own.len()).filter(moves).collect();
    for dim in &moved {
        text.line(format_args!("scalar by{dim}: i64"));
    }
    let mut axes = own.clone();
    for &dim in &moved {
        let name = &own[dim];
        text.line(format_args!(
            "at{dim} = where({name} < by{dim}, {name} - by{dim} + size({name}), {name} - by{dim})"
        ));
        axes[dim] = format!("at{dim}");
    }
    text.line(format_args!("y = x[{}]", axes.join(", ")));
    text.kernel(kernel.name)
}
