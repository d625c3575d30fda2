//! The mean of each window.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use super::channels::launch;
use super::pooling::{
    Pool, check_float, leading, longest, pool_launch, write_begin, write_scalars,
};
use super::steps::{Block, Steps, lane_of, rows_of};
use super::sums::Sums;
use super::taps::{Nothing, Taps, are_few, make_row, operands};
use super::windows::{Window, Windows};
use crate::dtypes::{Category, is_wide};
use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::views::Numbers;
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[
    ("avg_pool2d.out", |call| sliding(call, 2)),
    ("avg_pool3d.out", |call| sliding(call, 3)),
    ("_adaptive_avg_pool2d", |call| shared(call, 2)),
    ("_adaptive_avg_pool3d", |call| shared(call, 3)),
    ("adaptive_avg_pool2d.out", |call| shared(call, 2)),
    ("adaptive_avg_pool3d.out", |call| shared(call, 3)),
    ("avg_pool2d_backward.grad_input", |call| sliding_backward(call, 2)),
    ("avg_pool3d_backward.grad_input", |call| sliding_backward(call, 3)),
    ("_adaptive_avg_pool2d_backward", |call| shared_backward(call, 2)),
    ("_adaptive_avg_pool3d_backward", |call| shared_backward(call, 3)),
    ("adaptive_avg_pool3d_backward.grad_input", |call| shared_backward(call, 3)),
];

/// Divisor of a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Divisor {
    /// The places of a window that there are.
    Inside,
    /// The places of a window that there are, and those of padding.
    WithPadding,
    Number(f64),
}

impl Divisor {
    fn of(call: &Call<'_>, at: usize) -> Result<Self, Decline> {
        match (call.argument(at + 1), call.boolean(at)) {
            (Argument::None, Some(true)) => Ok(Self::WithPadding),
            (Argument::None, _) => Ok(Self::Inside),
            _ => match call.int(at + 1) {
                Some(number) if number != 0 => Ok(Self::Number(number as f64)),
                _ => Err(Decline::Argument { argument: at + 1, expected: "a divisor" }),
            },
        }
    }

    fn kind(self) -> u32 {
        match self {
            Self::Inside => 0,
            Self::WithPadding => 1,
            Self::Number(_) => 2,
        }
    }

    /// Its number, if it has one, for images of a dtype.
    fn word(self, dtype: DType) -> Option<u64> {
        let Self::Number(number) = self else { return None };
        match Category::of(dtype) {
            Category::Int => Some(Constant::Int(number as i64).word()),
            _ => Some(Constant::Float(number).word()),
        }
    }
}

fn sliding(call: &Call<'_>, dims: usize) -> Result<Recipe, Decline> {
    let ceils = call.boolean(4).unwrap_or(false);
    let divisor = Divisor::of(call, 5)?;
    forward(call, &Pool::sliding(call, dims, 1, false)?, ceils, divisor)
}

fn shared(call: &Call<'_>, dims: usize) -> Result<Recipe, Decline> {
    check_float(source(call)?.dtype)?;
    forward(call, &Pool::shared(call, dims, 1)?, false, Divisor::Inside)
}

fn forward(call: &Call<'_>, pool: &Pool, ceils: bool, divisor: Divisor) -> Result<Recipe, Decline> {
    let x = source(call)?;
    if x.dtype != DType::Int64 {
        check_float(x.dtype)?;
    }
    let size = pool.result_size(&x, ceils)?;
    // Volumes that share places are the exception: they lie in rows.
    let wanted = match (pool.dims(), pool.is_shared()) {
        (3, true) => Wanted::rows(x.dtype, &size),
        _ => Wanted::image(x.dtype, &size, &x),
    };
    let outputs = Outputs::of(call, &[wanted])?;
    if let Some(windows) = taken_one_by_one(pool, &x, &size, &outputs)? {
        return one_by_one(x, &windows, outputs, divisor);
    }
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    if !size.contains(&0) {
        let leading = leading(&x, pool.dims())?;
        let sizes = pool.sizes(&x.size[leading..]);
        let tensors = [(TensorRef::Argument(0), x), outputs.get(0)];
        let numbers = numbers(pool, leading, divisor);
        let mut launch = pool_launch("avg_pool", write_forward, numbers, &tensors, &sizes)?;
        launch.scalars = pool.words(&sizes);
        launch.scalars.extend(divisor.word(x.dtype));
        launches.push(launch);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

/// The windows of a pool that is summed place by place; `None` where one kernel looks all places up.
fn taken_one_by_one(
    pool: &Pool,
    x: &TensorView<'_>,
    size: &[usize],
    outputs: &Outputs<'_>,
) -> Result<Option<Windows>, Decline> {
    let is_plain = outputs.get(0).1.dtype == x.dtype && Category::of(x.dtype) == Category::Float;
    if size.contains(&0) || !is_plain {
        return Ok(None);
    }
    let leading = leading(x, pool.dims())?;
    Ok(pool.even(&x.size[leading..]).filter(are_few))
}

/// Adds what windows see place by place, and divides.
fn one_by_one(
    x: TensorView<'_>,
    windows: &Windows,
    outputs: Outputs<'_>,
    divisor: Divisor,
) -> Result<Recipe, Decline> {
    let (place, y) = outputs.get(0);
    let y = Block::of(place, &y);
    let mut steps = Steps::after(outputs.into_recipe());
    let size = y.view.size.clone();
    let image = Block::of(TensorRef::Argument(0), &x);
    let taps = Taps::of(&mut steps, windows, image, &size, Nothing::Zero)?;
    // Many small numbers are rounded once, at the end.
    let wide = if is_wide(x.dtype) { x.dtype } else { DType::Float32 };
    let sums = make_row(&mut steps, wide, &size);
    taps.each(&mut steps, |steps, nth, seen| match nth {
        0 => steps.copy(&seen, &sums),
        _ => steps.add(&seen, &sums),
    })?;
    let sums = sums.seen_as(rows_of(&size));
    let leading = size.len() - windows.len();
    let places = &x.size[leading..];
    let divisor = divisor_of_all(windows, places, &size[leading..], divisor);
    steps.push(divide(windows, places, &sums, &y, divisor)?);
    Ok(steps.into_recipe())
}

/// Returns the divisor of sums: one number for all, if no window is cut off.
fn divisor_of_all(
    windows: &Windows,
    places: &[usize],
    counts: &[usize],
    divisor: Divisor,
) -> Divisor {
    let is_inside = |(at, window): (usize, &Window)| {
        window.padding == 0 && (counts[at] - 1) * window.step + window.size <= places[at]
    };
    let all = windows.iter().map(|window| window.size).product::<usize>() as f64;
    match divisor {
        Divisor::Inside | Divisor::WithPadding if windows.iter().enumerate().all(is_inside) => {
            Divisor::Number(all)
        }
        _ => divisor,
    }
}

/// Divides sums by how many places each window has.
fn divide(
    windows: &Windows,
    places: &[usize],
    sums: &Block,
    y: &Block,
    divisor: Divisor,
) -> Result<Launch, Decline> {
    let leading = sums.view.size.len() - windows.len();
    let numbers = smallvec![leading as u32, windows.len() as u32, divisor.kind()];
    let mut launch = launch("pool_means", write_means, numbers, operands([sums, y]))?;
    for (window, &places) in windows.iter().zip(places) {
        let words = [window.size, window.step, window.padding, places];
        launch.scalars.extend(words.map(|number| number as u64));
    }
    launch.scalars.extend(divisor.word(y.dtype));
    Ok(launch)
}

fn write_means(kernel: &Generated) -> String {
    let [leading, dims, divisor] = [0, 1, 2].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let n = text.dims("n", leading);
    let o = text.dims("o", dims);
    let all = [n, o].concat();
    text.operand("in", "sums", kernel.dtypes[0], &all);
    text.operand("out", "y", kernel.dtypes[1], &all);
    for dim in 0..dims {
        for letter in ["z", "s", "p", "w"] {
            text.line(format_args!("scalar {letter}{dim}_: i64"));
        }
    }
    let lane = lane_of(kernel.dtypes[0]);
    if divisor == 2 {
        text.line(format_args!("scalar divisor: {lane}"));
        text.line(format_args!("y = sums / divisor"));
        return text.kernel(kernel.name);
    }
    for dim in 0..dims {
        text.line(format_args!("b{dim} = o{dim} * s{dim}_ - p{dim}_"));
        let count = match divisor {
            1 => format!("min(b{dim} + z{dim}_, w{dim}_ + p{dim}_) - b{dim}"),
            _ => format!("min(b{dim} + z{dim}_, w{dim}_) - max(b{dim}, 0)"),
        };
        text.line(format_args!("c{dim} = max({count}, 1)"));
    }
    let counts: Vec<String> = (0..dims).map(|dim| format!("c{dim}")).collect();
    text.line(format_args!("y = sums / {lane}({})", counts.join(" * ")));
    text.kernel(kernel.name)
}

fn numbers(pool: &Pool, leading: usize, divisor: Divisor) -> SmallVec<[u32; 8]> {
    let is_shared = u32::from(pool.is_shared());
    smallvec![leading as u32, pool.dims() as u32, is_shared, divisor.kind()]
}

/// Text of a kernel of means, with its dims and the kind of its windows and of its divisor.
struct Means {
    text: Text,
    lane: &'static str,
    n: Vec<String>,
    o: Vec<String>,
    k: Vec<String>,
    x: Vec<String>,
    is_shared: bool,
    divisor: u32,
}

impl Means {
    /// Begins a kernel whose dims are in the order of the tensor that is written.
    fn of(kernel: &Generated, is_backward: bool) -> Self {
        let [leading, dims] = [0, 1].map(|at| kernel.numbers[at] as usize);
        let mut text = Text::default();
        let n = text.dims("n", leading);
        let [written, other] = if is_backward { ["x", "o"] } else { ["o", "x"] };
        let first = text.dims(written, dims);
        let k = text.dims("k", dims);
        let last = text.dims(other, dims);
        let (o, x) = if is_backward { (last, first) } else { (first, last) };
        let lane = lane_of(kernel.dtypes[0]);
        let is_shared = kernel.numbers[2] == 1;
        let divisor = kernel.numbers[3];
        Self { text, lane, n, o, k, x, is_shared, divisor }
    }

    fn write_scalars(&mut self) {
        write_scalars(&mut self.text, self.k.len(), self.is_shared);
        if self.divisor == 2 {
            self.text.line(format_args!("scalar divisor: {}", self.lane));
        }
    }

    /// Writes the number of places that the window at `b{dim}` has along a dim, as `c{dim}`.
    fn write_count(&mut self, dim: usize) {
        let text = &mut self.text;
        match (self.is_shared, self.divisor) {
            (true, _) => text.line(format_args!("c{dim} = max(e{dim} - b{dim}, 1)")),
            (false, 1) => text.line(format_args!(
                "c{dim} = max(min(b{dim} + z{dim}_, size(x{dim}) + p{dim}_) - b{dim}, 1)"
            )),
            (false, _) => text.line(format_args!(
                "c{dim} = max(min(b{dim} + z{dim}_, size(x{dim})) - max(b{dim}, 0), 1)"
            )),
        }
    }

    /// Returns the expression that sums are divided by.
    fn divisor(&self) -> String {
        let counts = (0..self.k.len()).map(|dim| format!("c{dim}")).collect::<Vec<_>>();
        match self.divisor {
            2 => "divisor".to_owned(),
            _ => format!("{}({})", self.lane, counts.join(" * ")),
        }
    }

    fn all(&self, dims: &[String]) -> Vec<String> {
        [&self.n, dims].concat()
    }

    /// Coordinates `{name}{dim}` behind the leading ones.
    fn places(&self, name: &str) -> String {
        let places: Vec<String> = (0..self.k.len()).map(|dim| format!("{name}{dim}")).collect();
        self.all(&places).join(", ")
    }
}

fn write_forward(kernel: &Generated) -> String {
    let mut means = Means::of(kernel, false);
    let [of_x, of_y] = [means.all(&means.x), means.all(&means.o)];
    means.text.operand("in", "x", kernel.dtypes[0], &of_x);
    means.text.operand("in", "window", kernel.dtypes[1], &means.k);
    means.text.operand("out", "y", kernel.dtypes[2], &of_y);
    means.write_scalars();
    for dim in 0..means.k.len() {
        write_begin(&mut means.text, dim, means.is_shared, &means.o[dim]);
        means.text.line(format_args!("a{dim} = b{dim} + k{dim}"));
        if means.is_shared {
            means.text.line(format_args!("at{dim} = where(a{dim} < e{dim}, a{dim}, -1)"));
        } else {
            means.text.line(format_args!("at{dim} = a{dim} * 1"));
        }
        means.write_count(dim);
    }
    means.text.line(format_args!("v = x[{}] else 0", means.places("at")));
    means.text.line(format_args!("y = sum<{}>(v) / {}", means.k.join(", "), means.divisor()));
    means.text.kernel(kernel.name)
}

fn sliding_backward(call: &Call<'_>, dims: usize) -> Result<Recipe, Decline> {
    let ceils = call.boolean(5).unwrap_or(false);
    let divisor = Divisor::of(call, 6)?;
    let pool = Pool::sliding(call, dims, 2, false)?;
    let x = call.tensor(1).ok_or(Decline::Shapes)?;
    let size = pool.result_size(&x, ceils)?;
    let sizes = pool.sizes(&x.size[leading(&x, dims)?..]);
    backward(call, &pool, &x, &size, &sizes, divisor)
}

fn shared_backward(call: &Call<'_>, dims: usize) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let x = call.tensor(1).ok_or(Decline::Shapes)?;
    let leading = leading(&x, dims)?;
    let counts: Numbers = grad.size.get(leading..).ok_or(Decline::Shapes)?.into();
    if counts.len() != dims || counts.contains(&0) {
        return Err(Decline::Shapes);
    }
    // How many windows have a place, which is the same question from the other side.
    let windows = x.size[leading..].iter().zip(&counts);
    let sizes: Numbers = windows.map(|(&places, &count)| longest(count, places)).collect();
    let pool = Pool::Shared(counts);
    let size = pool.result_size(&x, false)?;
    backward(call, &pool, &x, &size, &sizes, Divisor::Inside)
}

fn backward(
    call: &Call<'_>,
    pool: &Pool,
    x: &TensorView<'_>,
    size: &[usize],
    sizes: &[usize],
    divisor: Divisor,
) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    if grad.size != size || grad.dtype != x.dtype {
        return Err(Decline::Shapes);
    }
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, x.size)])?;
    if size.contains(&0) {
        return Sums::of(outputs).recipe(None);
    }
    let tensors = [(TensorRef::Argument(0), grad), outputs.get(0)];
    let numbers = numbers(pool, leading(x, pool.dims())?, divisor);
    let mut launch = pool_launch("avg_pool_backward", write_backward, numbers, &tensors, sizes)?;
    launch.scalars = pool.words(sizes);
    launch.scalars.extend(divisor.word(x.dtype));
    let mut recipe = outputs.into_recipe();
    recipe.launches.push(launch);
    Ok(recipe)
}

fn write_backward(kernel: &Generated) -> String {
    let mut means = Means::of(kernel, true);
    let [of_x, of_y] = [means.all(&means.x), means.all(&means.o)];
    means.text.operand("in", "g", kernel.dtypes[0], &of_y);
    means.text.operand("in", "window", kernel.dtypes[1], &means.k);
    means.text.operand("out", "dx", kernel.dtypes[2], &of_x);
    means.write_scalars();
    for dim in 0..means.k.len() {
        let text = &mut means.text;
        // The windows that have this place; -1 is none.
        if means.is_shared {
            text.line(format_args!("i{dim} = x{dim} * size(o{dim}) // size(x{dim}) + k{dim}"));
            text.line(format_args!(
                "l{dim} = ((x{dim} + 1) * size(o{dim}) + size(x{dim}) - 1) // size(x{dim})"
            ));
            text.line(format_args!("at{dim} = where(i{dim} < l{dim}, i{dim}, -1)"));
        } else {
            text.line(format_args!("i{dim} = x{dim} + p{dim}_ - k{dim}"));
            text.line(format_args!(
                "at{dim} = where(i{dim} % s{dim}_ == 0, i{dim} // s{dim}_, -1)"
            ));
        }
        write_begin(text, dim, means.is_shared, &format!("at{dim}"));
        means.write_count(dim);
    }
    means.text.line(format_args!("v = g[{}] else 0", means.places("at")));
    let divisor = means.divisor();
    means.text.line(format_args!("dx = sum<{}>(v / {divisor})", means.k.join(", ")));
    means.text.kernel(kernel.name)
}
