//! Images in another size: each place is made from those that are nearest.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_numerics::DType;

use super::channels::launch;
use super::steps::lane_of;
use super::sums::Sums;
use super::windows::{each, ints};
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, OperandView, Recipe, TensorRef};
use crate::reductions::{float_of, source};
use crate::views::Numbers;
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(super) const OPS: &[(&str, Function)] = &[
    ("upsample_nearest1d.out", |call| forward(call, 1, Method::Nearest)),
    ("upsample_nearest2d.out", |call| forward(call, 2, Method::Nearest)),
    ("upsample_nearest3d.out", |call| forward(call, 3, Method::Nearest)),
    ("_upsample_nearest_exact1d.out", |call| forward(call, 1, Method::NearestExact)),
    ("_upsample_nearest_exact2d.out", |call| forward(call, 2, Method::NearestExact)),
    ("_upsample_nearest_exact3d.out", |call| forward(call, 3, Method::NearestExact)),
    ("upsample_linear1d.out", |call| forward(call, 1, Method::Linear)),
    ("upsample_bilinear2d.out", |call| forward(call, 2, Method::Linear)),
    ("upsample_trilinear3d.out", |call| forward(call, 3, Method::Linear)),
    ("upsample_bicubic2d.out", |call| forward(call, 2, Method::Cubic)),
    ("upsample_nearest1d_backward.grad_input", |call| backward(call, 1, Method::Nearest)),
    ("upsample_nearest2d_backward.grad_input", |call| backward(call, 2, Method::Nearest)),
    ("upsample_nearest3d_backward.grad_input", |call| backward(call, 3, Method::Nearest)),
    ("_upsample_nearest_exact1d_backward.grad_input", |call| {
        backward(call, 1, Method::NearestExact)
    }),
    ("_upsample_nearest_exact2d_backward.grad_input", |call| {
        backward(call, 2, Method::NearestExact)
    }),
    ("_upsample_nearest_exact3d_backward.grad_input", |call| {
        backward(call, 3, Method::NearestExact)
    }),
    ("upsample_linear1d_backward.grad_input", |call| backward(call, 1, Method::Linear)),
    ("upsample_bilinear2d_backward.grad_input", |call| backward(call, 2, Method::Linear)),
    ("upsample_trilinear3d_backward.grad_input", |call| backward(call, 3, Method::Linear)),
    ("upsample_bicubic2d_backward.grad_input", |call| backward(call, 2, Method::Cubic)),
];

/// Choice of the neighbours that a place is made from, and of their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
}

impl Method {
    const ALL: [Self; 4] = [Self::Nearest, Self::NearestExact, Self::Linear, Self::Cubic];

    fn is_nearest(self) -> bool {
        matches!(self, Self::Nearest | Self::NearestExact)
    }

    /// Neighbours along each dim.
    fn taps(self) -> usize {
        match self {
            Self::Nearest | Self::NearestExact => 1,
            Self::Linear => 2,
            Self::Cubic => 4,
        }
    }
}

/// Parameters of a call that goes from one size to another.
struct Resampling {
    method: Method,
    dims: usize,
    aligns_corners: bool,
    /// Places of the image for each of the result.
    scales: SmallVec<[f64; 3]>,
}

impl Resampling {
    /// Reads the parameters of a call. At argument `at` is the truth value of corners, if there is one,
    /// and then the scales.
    fn of(
        call: &Call<'_>,
        method: Method,
        dims: usize,
        at: usize,
        [from, to]: [&[usize]; 2],
    ) -> Result<Self, Decline> {
        let aligns_corners = !method.is_nearest() && call.boolean(at).unwrap_or(false);
        let first = at + usize::from(!method.is_nearest());
        let mut scales = SmallVec::new();
        for dim in 0..dims {
            let given = match call.argument(first + dim) {
                Argument::None => None,
                Argument::Number(number) => Some(float_of(&number)).filter(|&scale| scale > 0.0),
                _ => return Err(Decline::Argument { argument: first + dim, expected: "a scale" }),
            };
            let from = from[dim] as f64;
            let to = to[dim] as f64;
            scales.push(match (aligns_corners, given) {
                (true, _) if to > 1.0 => (from - 1.0) / (to - 1.0),
                (true, _) => 0.0,
                (false, Some(scale)) => 1.0 / scale,
                (false, None) => from / to,
            });
        }
        Ok(Self { method, dims, aligns_corners, scales })
    }

    fn launch(
        &self,
        name: &'static str,
        write: fn(&Generated) -> String,
        tensors: [(TensorRef, TensorView<'_>); 2],
    ) -> Result<Launch, Decline> {
        let block = |(place, tensor): (TensorRef, TensorView<'_>)| {
            let size = tensor.size.into();
            let stride = tensor.stride.into();
            (tensor.dtype, OperandView { place, size, stride, offset: 0 })
        };
        let [first, second] = tensors.map(block);
        let mut operands: SmallVec<[_; 8]> = smallvec![first, second];
        if !self.method.is_nearest() {
            // Neighbours have extents only.
            let (place, tensor) = tensors[0];
            let size = smallvec![self.method.taps(); self.dims];
            let stride = smallvec![0; self.dims];
            operands.push((tensor.dtype, OperandView { place, size, stride, offset: 0 }));
        }
        let method = Method::ALL.iter().position(|&method| method == self.method).unwrap_or(0);
        let leading = tensors[0].1.size.len() - self.dims;
        let numbers = smallvec![
            leading as u32,
            self.dims as u32,
            method as u32,
            u32::from(self.aligns_corners)
        ];
        let mut launch = launch(name, write, numbers, operands)?;
        launch.scalars = self.scales.iter().map(|&scale| Constant::Float(scale).word()).collect();
        Ok(launch)
    }
}

fn check(x: &TensorView<'_>, dims: usize, method: Method) -> Result<(), Decline> {
    lane(x.dtype)?;
    let is_float = Category::of(x.dtype) == Category::Float;
    if x.size.len() != dims + 2 || x.size.contains(&0) {
        Err(Decline::Shapes)
    } else if is_float || (method.is_nearest() && x.dtype == DType::UInt8) {
        Ok(())
    } else {
        Err(Decline::DType { dtype: x.dtype })
    }
}

/// `upsample(x, size, corners, scales)`; the nearest ones know no corners.
fn forward(call: &Call<'_>, dims: usize, method: Method) -> Result<Recipe, Decline> {
    let x = source(call)?;
    check(&x, dims, method)?;
    let to = each(ints(call, 1)?, dims).ok_or(Decline::Shapes)?;
    let mut size = Numbers::from(&x.size[..2]);
    size.extend(to.iter().copied());
    let resampling = Resampling::of(call, method, dims, 2, [&x.size[2..], &to])?;
    let outputs = Outputs::of(call, &[Wanted::image(x.dtype, &size, &x)])?;
    let mut launches: SmallVec<[Launch; 1]> = smallvec![];
    if !size.contains(&0) {
        let tensors = [(TensorRef::Argument(0), x), outputs.get(0)];
        launches.push(resampling.launch("resample", write_forward, tensors)?);
    }
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    Ok(recipe)
}

/// `upsample_backward(grad, size, input size, corners, scales)`.
fn backward(call: &Call<'_>, dims: usize, method: Method) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    check(&grad, dims, method)?;
    let size = each(ints(call, 2)?, dims + 2).ok_or(Decline::Shapes)?;
    if size[..2] != grad.size[..2] || size.contains(&0) || grad.dtype == DType::UInt8 {
        return Err(Decline::Shapes);
    }
    let resampling = Resampling::of(call, method, dims, 3, [&size[2..], &grad.size[2..]])?;
    let sums = Sums::of(Outputs::of(call, &[Wanted::image(grad.dtype, &size, &grad)])?);
    let tensors = [(TensorRef::Argument(0), grad), sums.tensor()];
    let adding = resampling.launch("resample_backward", write_backward, tensors)?;
    sums.recipe(Some(adding))
}

/// The dims of a kernel, and where the neighbours of a place are.
struct Neighbours {
    text: Text,
    n: Vec<String>,
    o: Vec<String>,
    x: Vec<String>,
    /// None, for the nearest one.
    k: Vec<String>,
    method: Method,
    aligns_corners: bool,
}

impl Neighbours {
    fn of(kernel: &Generated) -> Self {
        let [leading, dims, method] = [0, 1, 2].map(|at| kernel.numbers[at] as usize);
        let method = Method::ALL[method];
        let mut text = Text::default();
        let n = text.dims("n", leading);
        // Values that meet in one place do so row by row.
        let k = text.dims("k", if method.is_nearest() { 0 } else { dims });
        let o = text.dims("o", dims);
        let x = text.dims("x", dims);
        Self { text, n, o, x, k, method, aligns_corners: kernel.numbers[3] == 1 }
    }

    fn all(&self, dims: &[String]) -> Vec<String> {
        [&self.n, dims].concat()
    }

    /// The lane of places: that of the image, but that nearest ones are found in f32.
    fn lane(&self, kernel: &Generated) -> &'static str {
        if self.method.is_nearest() { "f32" } else { lane_of(kernel.dtypes[0]) }
    }

    /// Writes `at{dim}` and, but for nearest ones, weights `w{dim}`; `between` is the lane that places
    /// are computed in before they are rounded.
    fn write(&mut self, lane: &str, between: &str) {
        for dim in 0..self.o.len() {
            self.text.line(format_args!("scalar scale{dim}: {lane}"));
        }
        for dim in 0..self.o.len() {
            let text = &mut self.text;
            let last = format!("size(x{dim}) - 1");
            let half = if self.method == Method::NearestExact { " + 0.5" } else { "" };
            if self.method.is_nearest() {
                text.line(format_args!(
                    "at{dim} = min(i64(floor(({lane}(o{dim}){half}) * scale{dim})), {last})"
                ));
                continue;
            }
            if self.aligns_corners {
                text.line(format_args!("q{dim} = scale{dim} * {lane}(o{dim})"));
            } else {
                // Rounded once: far from zero, a second rounding shows in the weights.
                text.line(format_args!(
                    "q{dim} = {lane}({between}(scale{dim}) * ({between}(o{dim}) + 0.5) - 0.5)"
                ));
            }
            match self.method {
                Method::Cubic => write_cubic(text, dim, lane, &last),
                _ => write_linear(text, dim, lane, &last),
            }
        }
    }

    fn places(&self) -> String {
        let places: Vec<String> = (0..self.o.len()).map(|dim| format!("at{dim}")).collect();
        self.all(&places).join(", ")
    }

    fn weights(&self) -> String {
        (0..self.k.len()).map(|dim| format!("w{dim}")).collect::<Vec<_>>().join(" * ")
    }
}

fn write_linear(text: &mut Text, dim: usize, lane: &str, last: &str) {
    text.line(format_args!("r{dim} = max(q{dim}, 0)"));
    text.line(format_args!("i{dim} = min(i64(floor(r{dim})), {last})"));
    text.line(format_args!("l{dim} = min(max(r{dim} - {lane}(i{dim}), 0), 1)"));
    text.line(format_args!("at{dim} = min(i{dim} + k{dim}, {last})"));
    text.line(format_args!("w{dim} = where(k{dim} == 0, 1 - l{dim}, l{dim})"));
}

/// Keys' polynomials, with -0.75.
fn write_cubic(text: &mut Text, dim: usize, lane: &str, last: &str) {
    text.line(format_args!("r{dim} = floor(q{dim})"));
    text.line(format_args!("at{dim} = min(max(i64(r{dim}) + k{dim} - 1, 0), {last})"));
    text.line(format_args!("u{dim} = abs({lane}(k{dim}) - 1 - (q{dim} - r{dim}))"));
    text.line(format_args!("near{dim} = (1.25 * u{dim} - 2.25) * u{dim} * u{dim} + 1"));
    text.line(format_args!("far{dim} = ((-0.75 * u{dim} + 3.75) * u{dim} - 6) * u{dim} + 3"));
    text.line(format_args!("w{dim} = where((k{dim} == 1) | (k{dim} == 2), near{dim}, far{dim})"));
}

fn write_forward(kernel: &Generated) -> String {
    let mut all = Neighbours::of(kernel);
    let lane = all.lane(kernel);
    let [of_x, of_y] = [all.all(&all.x), all.all(&all.o)];
    all.text.operand("in", "x", kernel.dtypes[0], &of_x);
    all.text.operand("out", "y", kernel.dtypes[1], &of_y);
    if !all.k.is_empty() {
        all.text.operand("in", "window", kernel.dtypes[2], &all.k);
    }
    all.write(lane, "f64");
    let places = all.places();
    let weights = all.weights();
    if all.k.is_empty() {
        all.text.line(format_args!("y = x[{places}]"));
    } else {
        all.text.line(format_args!("y = sum<{}>(x[{places}] * ({weights}))", all.k.join(", ")));
    }
    all.text.kernel(kernel.name)
}

fn write_backward(kernel: &Generated) -> String {
    let mut all = Neighbours::of(kernel);
    let lane = all.lane(kernel);
    let [of_x, of_y] = [all.all(&all.x), all.all(&all.o)];
    all.text.operand("in", "g", kernel.dtypes[0], &of_y);
    all.text.operand("inout", "dx", kernel.dtypes[1], &of_x);
    if !all.k.is_empty() {
        all.text.operand("in", "window", kernel.dtypes[2], &all.k);
    }
    // The host's own gradient of this method rounds twice, and where many meet, that shows.
    all.write(lane, if all.method == Method::Cubic { lane } else { "f64" });
    let places = all.places();
    let weights = all.weights();
    if all.k.is_empty() {
        all.text.line(format_args!("dx[{places}] += g"));
    } else {
        all.text.line(format_args!("dx[{places}] += g * ({weights})"));
    }
    all.text.kernel(kernel.name)
}
