//! Ops that make tensors, and that put them together.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use crate::dtypes::{Category, lane, promoted};
use crate::generated::{AtLeastOne, Generated, Text, row_index};
use crate::indexing::check_dims;
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, OperandView, Recipe, TensorRef};
use crate::reductions::{float_of, source};
use crate::views::{Loops, Numbers};
use crate::{Argument, Call, Decline, Number, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("fill_.Scalar", fill),
    ("zero_", fill),
    ("arange.start_out", arange),
    ("cat.out", cat),
    ("tril.out", |call| triangle(call, "<=")),
    ("triu.out", |call| triangle(call, ">=")),
    ("cumsum.out", |call| scan(call, "scan_sum")),
    ("cumprod.out", |call| scan(call, "scan_product")),
];

fn word(number: &Number, lane: Lane) -> u64 {
    number.in_lane(lane).word()
}

/// `fill_(x, number)`; without a number, zero.
fn fill(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let value = match call.argument(1) {
        Argument::Number(number) if !number.is_complex() => word(&number, lane(x.dtype)?),
        Argument::None => Number { value: Constant::Int(0), imaginary: 0.0, dtype: None }
            .in_lane(lane(x.dtype)?)
            .word(),
        _ => return Err(Decline::Argument { argument: 1, expected: "a number" }),
    };
    let mut recipe = Recipe::default();
    if !x.size.contains(&0) {
        let loops = Loops::over(x.size, smallvec![x.stride.into()])?;
        let tensor =
            TensorView { dtype: x.dtype, size: &loops.size, stride: &loops.strides[0], offset: 0 };
        let numbers = smallvec![loops.size.len() as u32];
        let tensors = [(TensorRef::Argument(0), tensor)];
        let mut launch = Generated::launch("fill", write_fill, numbers, &tensors)?;
        launch.scalars.push(value);
        recipe.launches.push(launch);
    }
    Ok(recipe)
}

fn write_fill(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("out", "y", kernel.dtypes[0], &own);
    let lane = lane(kernel.dtypes[0]).map_or("f32", Lane::name);
    text.line(format_args!("scalar value: {lane}"));
    text.line(format_args!("y = value"));
    text.kernel(kernel.name)
}

/// `arange(start, end, step)`: the result has its length already, if it was made for it.
fn arange(call: &Call<'_>) -> Result<Recipe, Decline> {
    let y = call.tensor(3).ok_or(Decline::Argument { argument: 3, expected: "a tensor" })?;
    let number = |at| match call.argument(at) {
        Argument::Number(number) => Ok(number),
        _ => Err(Decline::Argument { argument: at, expected: "a number" }),
    };
    let start = number(0)?;
    let end = number(1)?;
    let step = number(2)?;
    let count = match y.dtype {
        DType::Int64 => int_count(&start, &end, &step).ok_or(Decline::Shapes)?,
        _ => ((float_of(&end) - float_of(&start)) / float_of(&step)).ceil(),
    };
    if !count.is_finite() || count < 0.0 {
        // What is wrong with these numbers is the host's to say.
        return Err(Decline::Shapes);
    }
    // A result of as many elements keeps its shape, and is filled row by row.
    if y.size.iter().product::<usize>() != count as usize {
        return Err(Decline::ResultShape { size: vec![count as usize], stride: vec![1] });
    }
    let mut recipe = Recipe::default();
    if count > 0.0 {
        // Coordinates are exact in both lanes, and floats are computed in the wider one.
        let own = if Category::of(y.dtype) == Category::Float { Lane::F64 } else { Lane::I64 };
        check_dims(y.size.len())?;
        let y = AtLeastOne::of(&y);
        let tensors = [(TensorRef::Argument(3), y.tensor())];
        let numbers = smallvec![y.tensor().size.len() as u32];
        let mut launch = Generated::launch("arange", write_arange, numbers, &tensors)?;
        launch.scalars.extend([word(&start, own), word(&step, own)]);
        recipe.launches.push(launch);
    }
    Ok(recipe)
}

/// Returns the number of elements of an int64 `arange`. Fractions are cut off first, as PyTorch does
/// for no other dtype.
fn int_count(start: &Number, end: &Number, step: &Number) -> Option<f64> {
    let [start, end, step] = [start, end, step].map(|number| float_of(number).trunc() as i128);
    (step != 0).then(|| ((end - start + step - step.signum()) / step) as f64)
}

fn write_arange(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let index = row_index(&own);
    let dtype = kernel.dtypes[0];
    let wide = Category::of(dtype) == Category::Float;
    let lane = lane(dtype).map_or("f32", Lane::name);
    let computed = if wide { "f64" } else { "i64" };
    text.operand("out", "y", dtype, &own);
    text.line(format_args!("scalar start: {computed}"));
    text.line(format_args!("scalar step: {computed}"));
    text.line(format_args!("y = {lane}(start + {computed}({index}) * step)"));
    text.kernel(kernel.name)
}

/// `cat(tensors, dim)`: each into its part of the result.
fn cat(call: &Call<'_>) -> Result<Recipe, Decline> {
    let Argument::Tensors(list) = call.argument(0) else {
        return Err(Decline::Argument { argument: 0, expected: "tensors" });
    };
    // Empty vectors go with everything.
    let is_nothing = |tensor: &TensorView<'_>| tensor.size == [0];
    let parts: Vec<(usize, TensorView<'_>)> = list
        .iter()
        .enumerate()
        .filter_map(|(at, tensor)| Some((at, (*tensor)?)))
        .filter(|(_, tensor)| !is_nothing(tensor))
        .collect();
    let given = list.iter().flatten().map(|tensor| tensor.dtype);
    let dtype = given.reduce(promoted).ok_or(Decline::Shapes)?;
    let Some(&(_, first)) = parts.first() else {
        return Ok(Outputs::cast(call, &[Wanted::rows(dtype, &[0])])?.into_recipe());
    };
    let rank = first.size.len();
    let dim = call.int(1).ok_or(Decline::Argument { argument: 1, expected: "a dim" })?;
    let dim = if dim < 0 { dim + rank as i64 } else { dim };
    let dim = usize::try_from(dim).ok().filter(|&dim| dim < rank).ok_or(Decline::Shapes)?;
    let mut size = Numbers::from(first.size);
    size[dim] = parts.iter().map(|(_, part)| part.size.get(dim).copied().unwrap_or(0)).sum();
    let fits = |part: &TensorView<'_>| {
        let others = |(at, (a, b)): (usize, (&usize, &usize))| at == dim || a == b;
        part.size.len() == rank && part.size.iter().zip(&size).enumerate().all(others)
    };
    if !parts.iter().all(|(_, part)| fits(part)) {
        return Err(Decline::Shapes);
    }
    let outputs = Outputs::cast(call, &[Wanted::rows(dtype, &size)])?;
    let mut launches: SmallVec<[Launch; 4]> = smallvec![];
    let (place, y) = outputs.get(0);
    let mut at = 0;
    for (item, part) in &parts {
        if !part.size.contains(&0) {
            launches.push(place_part(
                TensorRef::Item(0, *item),
                part,
                place,
                &y,
                at * y.stride[dim],
            )?);
        }
        at += part.size[dim];
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

/// A tensor into a part of another that has its shape, from `offset` elements on.
fn place_part(
    from: TensorRef,
    part: &TensorView<'_>,
    to: TensorRef,
    whole: &TensorView<'_>,
    offset: usize,
) -> Result<Launch, Decline> {
    let strides = smallvec![Numbers::from(part.stride), Numbers::from(whole.stride)];
    let loops = Loops::over(part.size, strides)?;
    let [source, target] = [(part.dtype, 0), (whole.dtype, 1)].map(|(dtype, at)| TensorView {
        dtype,
        size: &loops.size,
        stride: &loops.strides[at],
        offset: 0,
    });
    let tensors = [(from, source), (to, target)];
    let numbers = smallvec![loops.size.len() as u32];
    let mut launch = Generated::launch("cat", write_part, numbers, &tensors)?;
    launch.operands[1] = OperandView { offset, ..launch.operands[1].clone() };
    Ok(launch)
}

fn write_part(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let lane = lane(kernel.dtypes[1]).map_or("f32", Lane::name);
    text.line(format_args!("y = {lane}(x)"));
    text.kernel(kernel.name)
}

/// `tril(x, diagonal)` and `triu`: what is on the other side is zero.
fn triangle(call: &Call<'_>, keeps: &'static str) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let diagonal = call.int(1).ok_or(Decline::Argument { argument: 1, expected: "a number" })?;
    if x.size.len() < 2 {
        return Err(Decline::Shapes);
    }
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, x.size)])?;
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    let (place, y) = outputs.get(0);
    if !x.size.contains(&0) {
        let numbers = smallvec![x.size.len() as u32, u32::from(keeps == "<=")];
        let tensors = [(TensorRef::Argument(0), x), (place, y)];
        let mut launch = Generated::launch("triangle", write_triangle, numbers, &tensors)?;
        launch.scalars.push(diagonal.cast_unsigned());
        launches.push(launch);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

fn write_triangle(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let [row, column] = [2, 1].map(|back| &own[own.len() - back]);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    text.line(format_args!("scalar diagonal: i64"));
    let keeps = if kernel.numbers[1] == 1 { "<=" } else { ">=" };
    let nothing = if kernel.dtypes[0] == DType::Bool { "false" } else { "0" };
    text.line(format_args!("y = where({column} - {row} {keeps} diagonal, x, {nothing})"));
    text.kernel(kernel.name)
}

/// `cumsum(x, dim)` and its like.
fn scan(call: &Call<'_>, op: &'static str) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let rank = x.size.len().max(1) as i64;
    let dim = call.int(1).ok_or(Decline::Argument { argument: 1, expected: "a dim" })?;
    let dim = if dim < 0 { dim + rank } else { dim };
    let given = call.written.first().and_then(|&at| call.tensor(at)).map(|y| y.dtype);
    let dtype = given.unwrap_or(x.dtype);
    if Category::of(dtype) < Category::Int {
        return Err(Decline::DType { dtype });
    }
    let outputs = Outputs::of(call, &[Wanted::rows(dtype, x.size)])?;
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    {
        let (place, y) = outputs.get(0);
        if !x.size.contains(&0) {
            let [x, y] = [&x, &y].map(AtLeastOne::of);
            let tensors = [(TensorRef::Argument(0), x.tensor()), (place, y.tensor())];
            let numbers = smallvec![rank as u32, dim as u32, u32::from(op == "scan_sum")];
            launches.push(Generated::launch("scan", write_scan, numbers, &tensors)?);
        }
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

fn write_scan(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    let op = if kernel.numbers[2] == 1 { "scan_sum" } else { "scan_product" };
    let lane = lane(kernel.dtypes[1]).map_or("f32", Lane::name);
    text.line(format_args!("y = {op}<{}>({lane}(x))", own[kernel.numbers[1] as usize]));
    text.kernel(kernel.name)
}
