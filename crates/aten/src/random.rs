//! Random numbers: each element has a counter of its own, so that it is the same number however a
//! tensor lies and wherever it is computed.

mod distribution;

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use self::distribution::{
    ARRIVALS, BERNOULLI, BERNOULLI_OF, CAUCHY, Distribution, EXPONENTIAL, GEOMETRIC, LOG_NORMAL,
    NORMAL, NORMAL_OF, UNIFORM, WHOLE, digits,
};
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::{float_of, source};
use crate::views::{Loops, Numbers, broadcast, expanded, like};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("uniform_", uniform),
    ("normal_", |call| floats(call, &NORMAL, |_, deviation| deviation >= 0.0)),
    ("log_normal_", |call| floats(call, &LOG_NORMAL, |_, deviation| deviation > 0.0)),
    ("cauchy_", |call| floats(call, &CAUCHY, |_, sigma| sigma > 0.0)),
    ("exponential_", exponential),
    ("geometric_", geometric),
    ("bernoulli_.float", bernoulli),
    ("bernoulli_.Tensor", |call| bernoulli_of(call, 1)),
    ("bernoulli.out", |call| bernoulli_of(call, 0)),
    ("random_", |call| whole(call, Some(0), None, 1)),
    ("random_.to", |call| whole(call, Some(0), call.int(1), 2)),
    ("random_.from", |call| whole(call, call.int(1), call.int(2), 3)),
    ("randperm.generator_out", permutation),
    ("native_dropout", dropout),
    ("normal.Tensor_float", normal_of),
    ("normal.Tensor_float_out", normal_of),
    ("normal.float_Tensor", normal_of),
    ("normal.float_Tensor_out", normal_of),
    ("normal.Tensor_Tensor", normal_of),
    ("normal.Tensor_Tensor_out", normal_of),
    ("multinomial", multinomial),
    ("multinomial.out", multinomial),
];

/// Returns the seed and the offset that a generator gave a call.
fn generator(call: &Call<'_>, argument: usize) -> Result<[u64; 2], Decline> {
    match call.argument(argument) {
        Argument::Random { seed, offset } => Ok([seed, offset]),
        _ => Err(Decline::Argument { argument, expected: "a generator" }),
    }
}

fn number(call: &Call<'_>, argument: usize) -> Result<f64, Decline> {
    match call.argument(argument) {
        Argument::Number(number) => Ok(float_of(&number)),
        _ => Err(Decline::Argument { argument, expected: "a number" }),
    }
}

/// Declines a wrong number: the host says what is wrong with it.
fn check(is_right: bool, argument: usize) -> Result<(), Decline> {
    let expected = "a parameter of the distribution";
    if is_right { Ok(()) } else { Err(Decline::Argument { argument, expected }) }
}

fn check_float(dtype: DType) -> Result<(), Decline> {
    if Category::of(dtype) == Category::Float { Ok(()) } else { Err(Decline::DType { dtype }) }
}

/// `uniform_(x, from, to)`.
fn uniform(call: &Call<'_>) -> Result<Recipe, Decline> {
    let largest = largest(source(call)?.dtype);
    floats(call, &UNIFORM, |from, to| {
        from <= to && from.abs() <= largest && to.abs() <= largest && to - from <= largest
    })
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 65504.0,
        DType::Float64 => f64::MAX,
        DType::BFloat16 => f64::from_bits(0x47ef_e000_0000_0000),
        _ => f32::MAX.into(),
    }
}

/// A distribution of floats with two parameters.
fn floats(
    call: &Call<'_>,
    distribution: &'static Distribution,
    is_right: impl Fn(f64, f64) -> bool,
) -> Result<Recipe, Decline> {
    check_float(source(call)?.dtype)?;
    let first = number(call, 1)?;
    let second = number(call, 2)?;
    check(is_right(first, second), 2)?;
    fill(call, distribution, &[first, second], generator(call, 3)?)
}

/// `exponential_(x, lambda)`.
fn exponential(call: &Call<'_>) -> Result<Recipe, Decline> {
    check_float(source(call)?.dtype)?;
    let lambda = number(call, 1)?;
    check(lambda > 0.0, 1)?;
    fill(call, &EXPONENTIAL, &[lambda], generator(call, 2)?)
}

/// `geometric_(x, p)`.
fn geometric(call: &Call<'_>) -> Result<Recipe, Decline> {
    let p = number(call, 1)?;
    check(p > 0.0 && p < 1.0, 1)?;
    fill(call, &GEOMETRIC, &[(-p).ln_1p()], generator(call, 2)?)
}

/// `bernoulli_(x, p)`.
fn bernoulli(call: &Call<'_>) -> Result<Recipe, Decline> {
    let p = number(call, 1)?;
    check((0.0..=1.0).contains(&p), 1)?;
    fill(call, &BERNOULLI, &[p], generator(call, 2)?)
}

/// `bernoulli_(x, p)` and `bernoulli(p)`, with a tensor of probabilities.
fn bernoulli_of(call: &Call<'_>, probabilities: usize) -> Result<Recipe, Decline> {
    let argument = probabilities;
    let p = call.tensor(argument).ok_or(Decline::Argument { argument, expected: "a tensor" })?;
    check_float(p.dtype)?;
    let size = if probabilities == 0 { p.size } else { source(call)?.size };
    let outputs = Outputs::cast(call, &[Wanted::rows(DType::Bool, size)])?;
    let (place, y) = outputs.get(0);
    let strides = expanded(&p, y.size).ok_or(Decline::Shapes)?;
    let given = [(TensorRef::Argument(argument), p.dtype, strides)];
    let draw = Draw {
        distribution: &BERNOULLI_OF,
        numbers: &[],
        from: generator(call, probabilities + 1)?,
    };
    let launch = draw.launch(&given, &[(place, y)])?;
    Ok(finish(outputs, launch))
}

/// `random_(x, from, to)`: whole numbers. Without an end, all that the dtype has.
fn whole(
    call: &Call<'_>,
    from: Option<i64>,
    to: Option<i64>,
    random: usize,
) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let from = from.ok_or(Decline::Argument { argument: 1, expected: "a whole number" })?;
    let last = last_whole(x.dtype)?;
    let first = if Category::of(x.dtype) == Category::Float { -last } else { first_whole(x.dtype) };
    let end = to.unwrap_or(last.saturating_add(1));
    check(from < end && from >= first && end - 1 <= last, 1)?;
    // Half of the 64 bits are enough of a range, but for a few that the host may have.
    let count = i128::from(end) - i128::from(from) + i128::from(to.is_none() && last == i64::MAX);
    let count = i64::try_from(count).or_else(|_| {
        // All whole numbers that are not negative: as many as a word without its sign has.
        check(from == 0 && to.is_none(), 1).map(|()| 0)
    })?;
    let draw = Draw { distribution: &WHOLE, numbers: &[], from: generator(call, random)? };
    let mut launches = draw.launch(&[], &[(TensorRef::Argument(0), x)])?;
    if let Some(launch) = &mut launches {
        launch.scalars.extend([from.cast_unsigned(), count.cast_unsigned()]);
    }
    Ok(Recipe { launches: launches.into_iter().collect(), ..Recipe::default() })
}

/// The last whole number of a dtype of those that have no gaps.
fn last_whole(dtype: DType) -> Result<i64, Decline> {
    Ok(match dtype {
        DType::Bool => 1,
        DType::Int8 => i8::MAX.into(),
        DType::UInt8 => u8::MAX.into(),
        DType::Int16 => i16::MAX.into(),
        DType::UInt16 => u16::MAX.into(),
        DType::Int32 => i32::MAX.into(),
        DType::UInt32 => u32::MAX.into(),
        DType::Int64 | DType::UInt64 => i64::MAX,
        DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 => 1 << digits(dtype),
        _ => return Err(Decline::DType { dtype }),
    })
}

fn first_whole(dtype: DType) -> i64 {
    match dtype {
        DType::Int8 => i8::MIN.into(),
        DType::Int16 => i16::MIN.into(),
        DType::Int32 => i32::MIN.into(),
        DType::Int64 => i64::MIN,
        _ => 0,
    }
}

/// `randperm(n)`: the order of random keys.
fn permutation(call: &Call<'_>) -> Result<Recipe, Decline> {
    let count = call.int(0).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(Decline::Argument { argument: 0, expected: "a number of elements" })?;
    let y = call.tensor(2).ok_or(Decline::Argument { argument: 2, expected: "a tensor" })?;
    check(count as i64 <= last_whole(y.dtype)?, 0)?;
    if y.size != [count] {
        return Err(Decline::ResultShape { size: vec![count], stride: vec![1] });
    }
    let mut recipe = Recipe::default();
    if count > 0 {
        let tensors = [(TensorRef::Argument(2), y)];
        let mut launch =
            Generated::launch("permutation", write_permutation, smallvec![], &tensors)?;
        launch.scalars.extend(generator(call, 1)?);
        recipe.launches.push(launch);
    }
    Ok(recipe)
}

fn write_permutation(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", 1);
    text.operand("out", "y", kernel.dtypes[0], &own);
    text.line(format_args!("scalar seed: i64"));
    text.line(format_args!("scalar offset: i64"));
    text.line(format_args!(
        "key = (random(seed, offset, i0, 0) << 31) | (random(seed, offset, i0, 1) >> 1)"
    ));
    let lane = lane(kernel.dtypes[0]).map_or("i64", Lane::name);
    text.line(format_args!("y = {lane}(order<i0>(key))"));
    text.kernel(kernel.name)
}

/// `native_dropout(x, p, trains)`: what is left, and which elements that is.
fn dropout(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    check_float(x.dtype)?;
    let p = number(call, 1)?;
    check((0.0..=1.0).contains(&p), 1)?;
    let p = if call.boolean(2) == Some(false) { 0.0 } else { p };
    let stride = like(x.size, &[x.stride.into()]);
    let wanted = [x.dtype, DType::Bool].map(|dtype| Wanted {
        dtype,
        size: x.size.into(),
        stride: stride.clone(),
    });
    let outputs = Outputs::of(call, &wanted)?;
    let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    let launches = {
        let results = [outputs.get(0), outputs.get(1)];
        let from = generator(call, 3)?;
        let draw = Draw { distribution: &distribution::DROPOUT, numbers: &[1.0 - p, scale], from };
        draw.launch(&[(TensorRef::Argument(0), x.dtype, x.stride.into())], &results)?
    };
    Ok(finish(outputs, launches))
}

/// `normal(mean, deviation)`, of which one at least is a tensor.
fn normal_of(call: &Call<'_>) -> Result<Recipe, Decline> {
    let [mean, deviation] = [call.tensor(0), call.tensor(1)];
    let dtype = mean.or(deviation).ok_or(Decline::Shapes)?.dtype;
    check_float(dtype)?;
    let places = [(0, mean), (1, deviation)];
    let tensors = places.into_iter().filter_map(|(at, tensor)| Some((at, tensor?)));
    let tensors: SmallVec<[(usize, TensorView<'_>); 2]> = tensors.collect();
    let size = broadcast(tensors.iter().map(|(_, tensor)| tensor.size)).ok_or(Decline::Shapes)?;
    // A result of another shape stays as large as it is, if there is one deviation for all.
    let is_fixed = deviation.is_none() && !call.written.is_empty();
    if is_fixed && call.tensor(3).is_none_or(|out| out.size != &size[..]) {
        return Err(Decline::Shapes);
    }
    let outputs = Outputs::cast(call, &[Wanted::rows(dtype, &size)])?;
    let (place, y) = outputs.get(0);
    check_float(y.dtype)?;
    let mut given = SmallVec::<[_; 2]>::new();
    for &(at, tensor) in &tensors {
        let strides = expanded(&tensor, y.size).ok_or(Decline::Shapes)?;
        given.push((TensorRef::Argument(at), tensor.dtype, strides));
    }
    let (distribution, numbers) = match (mean, deviation) {
        (Some(_), None) => (&NORMAL_OF[0], smallvec![number(call, 1)?]),
        (None, _) => (&NORMAL_OF[1], smallvec![number(call, 0)?]),
        _ => (&NORMAL_OF[2], SmallVec::<[f64; 1]>::new()),
    };
    let draw = Draw { distribution, numbers: &numbers, from: generator(call, 2)? };
    let launch = draw.launch(&given, &[(place, y)])?;
    Ok(finish(outputs, launch))
}

/// `multinomial(x, samples, replacement)` for one row of probabilities, or several.
fn multinomial(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    check_float(x.dtype)?;
    let samples = call.int(1).and_then(|samples| usize::try_from(samples).ok());
    let samples = samples.ok_or(Decline::Argument { argument: 1, expected: "a count" })?;
    let is_repeated = call.boolean(2).unwrap_or(false) && samples > 1;
    let mut size = Numbers::from(x.size);
    *size.last_mut().ok_or(Decline::Shapes)? = samples;
    let outputs = Outputs::of(call, &[Wanted::rows(DType::Int64, &size)])?;
    let (place, y) = outputs.get(0);
    let x = as_rows(&x)?;
    let y = as_rows(&y)?;
    let x = x.tensor();
    let y = (place, y.tensor());
    if y.1.size.contains(&0) {
        return Ok(outputs.into_recipe());
    }
    if x.size[1] == 0 {
        return Err(Decline::Shapes);
    }
    // Sums or arrivals, which are kept beside the result.
    let is_wide = is_repeated || x.dtype == DType::Float64;
    let kept = Wanted::rows(if is_wide { DType::Float64 } else { DType::Float32 }, x.size);
    let temporary = TensorRef::Result(usize::from(call.written.is_empty()));
    let make = if is_repeated { samples_of_sums } else { samples_of_arrivals };
    let launches = make(x, (temporary, kept.tensor()), y, generator(call, 3)?)?;
    let mut recipe = outputs.into_recipe();
    recipe.launches = launches;
    let Wanted { dtype, size, stride } = kept;
    recipe.results.push(crate::ResultShape { dtype, size, stride });
    Ok(recipe)
}

type Launches = SmallVec<[Launch; 1]>;

/// A row or rows, as a matrix.
fn as_rows(tensor: &TensorView<'_>) -> Result<Wanted, Decline> {
    let mut size = Numbers::from(tensor.size);
    let mut stride = Numbers::from(tensor.stride);
    if size.len() == 1 {
        size.insert(0, 1);
        stride.insert(0, 0);
    }
    if size.len() == 2 {
        Ok(Wanted { dtype: tensor.dtype, size, stride })
    } else {
        Err(Decline::Shapes)
    }
}

/// Samples that may repeat: which share of the sum of a row so far holds a random number.
fn samples_of_sums(
    x: TensorView<'_>,
    sums: (TensorRef, TensorView<'_>),
    y: (TensorRef, TensorView<'_>),
    from: [u64; 2],
) -> Result<Launches, Decline> {
    let tensors = [(TensorRef::Argument(0), x), sums];
    let shares = Generated::launch("shares", write_shares, smallvec![], &tensors)?;
    let mut launch = Generated::launch("multinomial", write_multinomial, smallvec![], &[sums, y])?;
    launch.scalars.extend(from);
    Ok(Launches::from_iter([shares, launch]))
}

/// Samples that do not repeat: the elements that arrive first, at the rates of a row.
fn samples_of_arrivals(
    x: TensorView<'_>,
    arrivals: (TensorRef, TensorView<'_>),
    y: (TensorRef, TensorView<'_>),
    from: [u64; 2],
) -> Result<Launches, Decline> {
    let draw = Draw { distribution: &ARRIVALS, numbers: &[], from };
    let given = [(TensorRef::Argument(0), x.dtype, x.stride.into())];
    let mut launches: Launches = draw.launch(&given, &[arrivals])?.into_iter().collect();
    let first = if y.1.size[1] == 1 {
        let mut launch =
            Generated::launch("first_arrival", write_first, smallvec![], &[arrivals, y])?;
        launch.operands[1].size.pop();
        launch.operands[1].stride.pop();
        launch
    } else {
        Generated::launch("first_arrivals", write_firsts, smallvec![], &[arrivals, y])?
    };
    launches.push(first);
    Ok(launches)
}

fn write_first(kernel: &Generated) -> String {
    let x = kernel.dtypes[0];
    let y = kernel.dtypes[1];
    format!(
        "kernel aten_{}(r, c) {{\n    in x: {x}[r, c]\n    out y: {y}[r]\n    \
         y = argmax<c>(x)\n}}\n",
        kernel.name
    )
}

fn write_firsts(kernel: &Generated) -> String {
    let x = kernel.dtypes[0];
    let y = kernel.dtypes[1];
    format!(
        "kernel aten_{}(r, c, n) {{\n    in x: {x}[r, c]\n    out y: {y}[r, n]\n    \
         at = order_descending<c>(x)\n    y[r, c] = at if c < size(n)\n}}\n",
        kernel.name
    )
}

fn write_shares(kernel: &Generated) -> String {
    let x = kernel.dtypes[0];
    let y = kernel.dtypes[1];
    format!(
        "kernel aten_{}(r, c) {{\n    in x: {x}[r, c]\n    out y: {y}[r, c]\n    \
         y = scan_sum<c>(f64(x))\n}}\n",
        kernel.name
    )
}

fn write_multinomial(kernel: &Generated) -> String {
    let x = kernel.dtypes[0];
    let y = kernel.dtypes[1];
    format!(
        "kernel aten_{}(r, s, c) {{\n    in x: {x}[r, c]\n    out y: {y}[r, s]\n    \
         scalar seed: i64\n    scalar offset: i64\n    \
         index = r * size(s) + s\n    \
         u = f64(random(seed, offset, index, 0)) * 2.3283064365386963e-10f64\n    \
         limit = u * x[r, size(c) - 1]\n    \
         y = sum<c>(i64(x <= limit))\n}}\n",
        kernel.name
    )
}

/// A tensor that is filled where it is.
fn fill(
    call: &Call<'_>,
    distribution: &'static Distribution,
    numbers: &[f64],
    from: [u64; 2],
) -> Result<Recipe, Decline> {
    let launches = Draw { distribution, numbers, from }
        .launch(&[], &[(TensorRef::Argument(0), source(call)?)])?;
    Ok(Recipe { launches: launches.into_iter().collect(), ..Recipe::default() })
}

fn finish(outputs: Outputs<'_>, launch: Option<Launch>) -> Recipe {
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launch);
    recipe
}

/// Numbers that are drawn for every element of some tensors of one shape.
struct Draw<'a> {
    distribution: &'static Distribution,
    numbers: &'a [f64],
    /// Seed and offset.
    from: [u64; 2],
}

impl Draw<'_> {
    fn launch(
        &self,
        given: &[(TensorRef, DType, Numbers)],
        results: &[(TensorRef, TensorView<'_>)],
    ) -> Result<Option<Launch>, Decline> {
        let (_, y) = results[0];
        if y.size.contains(&0) {
            return Ok(None);
        }
        let mut strides: SmallVec<[Numbers; 4]> =
            given.iter().map(|(_, _, strides)| strides.clone()).collect();
        strides.extend(results.iter().map(|(_, tensor)| Numbers::from(tensor.stride)));
        // Loops go over rows, whatever lies beside what: elements are counted as their user does.
        strides.push(like(y.size, &[]));
        let loops = Loops::over(y.size, strides)?;
        let places = given.iter().map(|&(place, dtype, _)| (place, dtype));
        let places = places.chain(results.iter().map(|&(place, tensor)| (place, tensor.dtype)));
        let tensors: SmallVec<[(TensorRef, TensorView<'_>); 4]> = places
            .zip(&loops.strides)
            .map(|((place, dtype), stride)| {
                (place, TensorView { dtype, size: &loops.size, stride, offset: 0 })
            })
            .collect();
        let numbers = smallvec![loops.size.len() as u32, self.distribution.number];
        let mut launch = Generated::launch("random", distribution::write, numbers, &tensors)?;
        launch.scalars.extend(self.from);
        let words = self.numbers.iter().map(|&number| Constant::Float(number).word());
        launch.scalars.extend(words);
        Ok(Some(launch))
    }
}
