//! Ops that ask which elements are among others, and how many are where.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use crate::dtypes::{Category, lane, promoted};
use crate::generated::{AtLeastOne, Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::spatial::sums::Sums;
use crate::{Argument, Call, Decline, Number, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] =
    &[("isin.Tensor_Tensor_out", isin), ("histc", histogram), ("histc.out", histogram)];

/// Dims that kernels have.
const MOST_DIMS: usize = 8;

fn second<'a>(call: &Call<'a>) -> Result<TensorView<'a>, Decline> {
    call.tensor(1).ok_or(Decline::Argument { argument: 1, expected: "a tensor" })
}

/// `isin(x, among, assume_unique, invert)`.
fn isin(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let among = second(call)?;
    let dims = x.size.len().max(1) + among.size.len().max(1);
    if dims > MOST_DIMS {
        return Err(Decline::Rank { dims });
    }
    let is_inverted = call.boolean(3).unwrap_or(false);
    let common = lane(promoted(x.dtype, among.dtype))?;
    let outputs = Outputs::of(call, &[Wanted::rows(DType::Bool, x.size)])?;
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    if !x.size.contains(&0) {
        let (place, y) = outputs.get(0);
        let [x, among, y] = [&x, &among, &y].map(AtLeastOne::of);
        let [x, among, y] = [&x, &among, &y].map(AtLeastOne::tensor);
        let numbers = smallvec![
            x.size.len() as u32,
            among.size.len() as u32,
            u32::from(is_inverted),
            common as u32,
            u32::from(among.size.contains(&0)),
        ];
        let mut tensors =
            vec![(TensorRef::Argument(0), x), (TensorRef::Argument(1), among), (place, y)];
        tensors.retain(|(_, tensor)| !tensor.size.contains(&0));
        launches.push(Generated::launch("isin", write_isin, numbers, &tensors)?);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

fn write_isin(kernel: &Generated) -> String {
    let [of_x, of_others] = [0, 1].map(|at| kernel.numbers[at] as usize);
    let not = if kernel.numbers[2] == 1 { "!" } else { "" };
    let mut text = Text::default();
    let own = text.dims("i", of_x);
    text.operand("in", "x", kernel.dtypes[0], &own);
    if kernel.numbers[4] == 1 {
        text.operand("out", "y", kernel.dtypes[1], &own);
        text.line(format_args!("y = {not}false"));
        return text.kernel(kernel.name);
    }
    let others = text.dims("n", of_others);
    text.operand("in", "among", kernel.dtypes[1], &others);
    text.operand("out", "y", kernel.dtypes[2], &own);
    // Truth values are compared as numbers.
    let lane =
        match [Lane::F32, Lane::F64].into_iter().find(|&lane| lane as u32 == kernel.numbers[3]) {
            Some(lane) => lane.name(),
            None => Lane::I64.name(),
        };
    let found = format!("any<{}>({lane}(x) == {lane}(among))", others.join(", "));
    text.line(format_args!("y = {not}({found})"));
    text.kernel(kernel.name)
}

/// `histc(x, bins, min, max)`: how many elements each of so many parts of a range has.
fn histogram(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let bins = call.int(1).and_then(|bins| usize::try_from(bins).ok()).filter(|&bins| bins > 0);
    let bins = bins.ok_or(Decline::Argument { argument: 1, expected: "a number of bins" })?;
    let own = match Category::of(x.dtype) {
        Category::Bool | Category::Complex => return Err(Decline::DType { dtype: x.dtype }),
        _ => lane(x.dtype)?,
    };
    let low = number(call, 2)?.in_lane(own);
    let high = number(call, 3)?.in_lane(own);
    if !is_less(low, high) {
        // The range is that of the elements, which are not known yet; or it makes no sense.
        return Err(Decline::Argument { argument: 2, expected: "less than what follows" });
    }
    // Counts past what a narrow float can tell apart would stand still.
    let sums = Sums::of(Outputs::of(call, &[Wanted::rows(x.dtype, &[bins])])?);
    let counting = (!x.size.contains(&0)).then(|| {
        let x = AtLeastOne::of(&x);
        let tensors = [(TensorRef::Argument(0), x.tensor()), sums.tensor()];
        let numbers = smallvec![x.tensor().size.len() as u32];
        let mut launch = Generated::launch("histc", write_histogram, numbers, &tensors)?;
        launch.scalars.extend([low.word(), high.word()]);
        Ok::<Launch, Decline>(launch)
    });
    let counting = counting.transpose()?;
    sums.recipe(counting)
}

fn number(call: &Call<'_>, argument: usize) -> Result<Number, Decline> {
    match call.argument(argument) {
        Argument::Number(number) => Ok(number),
        _ => Err(Decline::Argument { argument, expected: "a number" }),
    }
}

fn is_less(low: Constant, high: Constant) -> bool {
    match (low, high) {
        (Constant::Float(low), Constant::Float(high)) => low < high && high - low < f64::INFINITY,
        (Constant::Int(low), Constant::Int(high)) => low < high,
        _ => false,
    }
}

fn write_histogram(kernel: &Generated) -> String {
    let own = lane(kernel.dtypes[0]).unwrap_or(Lane::F32);
    let mut text = Text::default();
    let of_x = text.dims("i", kernel.numbers[0] as usize);
    let bins = text.dims("n", 1);
    text.operand("in", "x", kernel.dtypes[0], &of_x);
    text.operand("inout", "y", kernel.dtypes[1], &bins);
    text.line(format_args!("scalar low: {own}"));
    text.line(format_args!("scalar high: {own}"));
    let at = match own {
        Lane::I64 => "(x - low) * size(n0) // (high - low)".to_owned(),
        _ => format!("i64((x - low) / (high - low) * {own}(size(n0)))"),
    };
    // The last bin has both of its ends.
    text.line(format_args!("at = min({at}, size(n0) - 1)"));
    let sums = lane(kernel.dtypes[1]).unwrap_or(Lane::F32);
    text.line(format_args!("y[at] += {sums}(1) if (x >= low) & (x <= high)"));
    text.kernel(kernel.name)
}
