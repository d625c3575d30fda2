//! Attention and its gradients, for query heads in groups that share a head of keys and values.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

use crate::dtypes::Category;
use crate::generated::{Generated, Text};
use crate::outputs::Wanted;
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, ResultShape, TensorRef};
use crate::reductions::float_of;
use crate::views::Numbers;
use crate::{Argument, Call, Decline, Tensor};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    // query [b, h, g, q, d], key [b, h, t, d], value [b, h, t, e], bias [b, h, g, q, t], scale, causal
    ("spyre::attention", forward),
    // grad [b, h, g, q, e], the same as above, result [b, h, g, q, e], logsumexp [b, h, g, q]
    ("spyre::attention_backward", backward),
];

/// Arguments of a call of attention: tensors with their places in the call, scale and masking.
struct Attention<'a> {
    query: (TensorRef, Tensor<'a>),
    key: (TensorRef, Tensor<'a>),
    value: (TensorRef, Tensor<'a>),
    bias: Option<(TensorRef, Tensor<'a>)>,
    scale: f64,
    is_causal: bool,
    /// Dtype of the scores.
    wide: DType,
}

impl<'a> Attention<'a> {
    /// Reads the arguments of a call whose query is its argument `first`.
    fn of(call: &Call<'a>, first: usize) -> Result<Self, Decline> {
        let [query, key, value] = [0, 1, 2].map(|at| tensor(call, first + at, 5 - at.min(1)));
        let query = query?;
        let key = key?;
        let value = value?;
        let dtype = query.1.dtype;
        if Category::of(dtype) != Category::Float || key.1.dtype != dtype || value.1.dtype != dtype
        {
            return Err(Decline::DType { dtype });
        }
        let bias = call.tensor(first + 3).map(|_| tensor(call, first + 3, 5)).transpose()?;
        let Argument::Number(scale) = call.argument(first + 4) else {
            return Err(Decline::Argument { argument: first + 4, expected: "a scale" });
        };
        Ok(Self {
            query,
            key,
            value,
            bias,
            scale: float_of(&scale),
            is_causal: call.boolean(first + 5).unwrap_or(false),
            wide: if dtype == DType::Float64 { DType::Float64 } else { DType::Float32 },
        })
    }

    fn dtype(&self) -> DType {
        self.query.1.dtype
    }

    /// A shape whose dims before the last are those of the query, and the last one that of another.
    fn rows_of(&self, width: usize) -> Numbers {
        let mut size = Numbers::from(self.query.1.size);
        size[4] = width;
        size
    }

    /// The dim of groups or of queries, if there is only one of these: rows that are numbered along one
    /// dim alone are more at a time.
    fn single_row_dim(&self) -> Option<usize> {
        let is_single = |dim: &usize| self.query.1.size[*dim] == 1;
        let dims: &[usize] = if self.is_causal { &[2] } else { &[2, 3] };
        dims.iter().copied().find(is_single)
    }

    fn scores(&self) -> Wanted {
        Wanted::rows(self.wide, &self.rows_of(self.key.1.size[2]))
    }

    fn launch(
        &self,
        write: fn(&Generated) -> String,
        name: &'static str,
        tensors: &[(TensorRef, Tensor<'_>)],
    ) -> Result<Launch, Decline> {
        let numbers = smallvec![u32::from(self.bias.is_some()), u32::from(self.is_causal)];
        let mut launch = Generated::launch(name, write, numbers, tensors)?;
        launch.scalars.push(Constant::Float(self.scale).word());
        Ok(launch)
    }
}

fn tensor<'a>(
    call: &Call<'a>,
    argument: usize,
    rank: usize,
) -> Result<(TensorRef, Tensor<'a>), Decline> {
    let tensor = call.tensor(argument).filter(|tensor| tensor.size.len() == rank);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor of heads" })?;
    if tensor.size.contains(&0) {
        return Err(Decline::Shapes);
    }
    Ok((TensorRef::Argument(argument), tensor))
}

/// A recipe that makes these.
fn making(wanted: SmallVec<[Wanted; 5]>, launches: SmallVec<[Launch; 4]>) -> Recipe {
    let results = wanted.into_iter().map(|wanted| {
        let Wanted { dtype, size, stride } = wanted;
        ResultShape { dtype, size, stride }
    });
    Recipe { results: results.collect(), launches: launches.into_iter().collect() }
}

fn result(wanted: &[Wanted], at: usize) -> (TensorRef, Tensor<'_>) {
    let Wanted { dtype, size, stride } = &wanted[at];
    (TensorRef::Result(at), Tensor { dtype: *dtype, size, stride })
}

/// The result, and the logarithm of each row's sum, in one pass over the keys.
fn forward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let asked = Attention::of(call, 0)?;
    let size = asked.rows_of(asked.value.1.size[3]);
    let wanted: SmallVec<[Wanted; 5]> =
        smallvec![Wanted::rows(asked.dtype(), &size), Wanted::rows(asked.wide, &size[..4])];
    let mut tensors: SmallVec<[_; 6]> = smallvec![asked.query, asked.key, asked.value];
    tensors.extend(asked.bias);
    tensors.extend([result(&wanted, 0), result(&wanted, 1)]);
    let single = asked.single_row_dim();
    let name = if single.is_some() { "attention" } else { "attention_in_groups" };
    let write = if single.is_some() { write_rows } else { write_groups };
    let mut launch = asked.launch(write, name, &tensors)?;
    drop(tensors);
    let shared = [TensorRef::Argument(1), TensorRef::Argument(2)];
    for view in launch.operands.iter_mut().filter(|view| !shared.contains(&view.place)) {
        single.into_iter().for_each(|dim| _ = (view.size.remove(dim), view.stride.remove(dim)));
    }
    Ok(making(wanted, smallvec![launch]))
}

/// Gradients of query, key, value and scores, from the logarithms that the forward op kept.
fn backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let asked = Attention::of(call, 1)?;
    let grad = tensor(call, 0, 5)?;
    let out = tensor(call, 7, 5)?;
    let total = tensor(call, 8, 4)?;
    let of = |(_, like): (TensorRef, Tensor<'_>)| Wanted::rows(asked.dtype(), like.size);
    let wanted: SmallVec<[Wanted; 5]> =
        smallvec![of(asked.query), of(asked.key), of(asked.value), asked.scores(), asked.scores(),];
    let launches = {
        let ds = result(&wanted, 3);
        let p = result(&wanted, 4);
        let mut tensors: SmallVec<[_; 9]> = smallvec![asked.query, asked.key, asked.value];
        tensors.extend(asked.bias);
        tensors.extend([grad, out, total, p, ds]);
        smallvec![
            asked.launch(write_grad_scores, "attention_grad_scores", &tensors)?,
            product(OF_QUERIES, asked.scale, [ds, asked.key, result(&wanted, 0)])?,
            product(OF_KEYS, asked.scale, [ds, asked.query, result(&wanted, 1)])?,
            product(OF_VALUES, 1.0, [p, grad, result(&wanted, 2)])?,
        ]
    };
    Ok(making(wanted, launches))
}

fn product(
    form: u32,
    scale: f64,
    tensors: [(TensorRef, Tensor<'_>); 3],
) -> Result<Launch, Decline> {
    let numbers = smallvec![form];
    let mut launch = Generated::launch("attention_grad", write_product, numbers, &tensors)?;
    launch.scalars.push(Constant::Float(scale).word());
    Ok(launch)
}

const OF_QUERIES: u32 = 0;
const OF_KEYS: u32 = 1;
const OF_VALUES: u32 = 2;

/// A kernel's text while it is written: its dims are `b, h, g, q, t, d, e`, or the first of them.
struct Lines<'a> {
    text: Text,
    /// The dims of query rows.
    rows: &'static str,
    dtypes: std::slice::Iter<'a, DType>,
    own: &'static str,
}

impl<'a> Lines<'a> {
    fn of(kernel: &'a Generated, dims: &str, rows: &'static str) -> Self {
        let mut text = Text::default();
        text.named(dims);
        let is_double = kernel.dtypes.contains(&DType::Float64);
        let own = if is_double { Lane::F64 } else { Lane::F32 }.name();
        Self { text, rows, dtypes: kernel.dtypes.iter(), own }
    }

    fn operand(&mut self, role: &str, name: &str, dims: &str) {
        let dtype = self.dtypes.next().copied().unwrap_or(DType::Float32);
        self.text.line(format_args!("{role} {name}: {dtype}[{dims}]"));
    }

    fn line(&mut self, line: &str) {
        self.text.line(format_args!("{line}"));
    }

    /// Query, key, value and, where it is asked for, bias.
    fn inputs(&mut self, kernel: &Generated) {
        let rows = self.rows;
        self.operand("in", "query", &format!("b, h, {rows}, d"));
        self.operand("in", "key", "b, h, t, d");
        self.operand("in", "value", "b, h, t, e");
        if kernel.numbers[0] == 1 {
            self.operand("in", "bias", &format!("b, h, {rows}, t"));
        }
    }

    fn scale(&mut self) {
        let own = self.own;
        self.text.line(format_args!("scalar scale: {own}"));
    }

    /// The scores, as `s`.
    fn scores(&mut self, kernel: &Generated) {
        let bias = if kernel.numbers[0] == 1 { " + bias" } else { "" };
        let scores = format!("sum<d>(query * key) * scale{bias}");
        let is_causal = kernel.numbers[1] == 1;
        let scores = if is_causal { format!("where(t <= q, {scores}, -inf)") } else { scores };
        self.line(&format!("s = {scores}"));
    }
}

// A row without a score has no weights, and its logarithm is such that it has none later.
const WEIGHTS: [&str; 4] = [
    "largest = max<t>(s)",
    "m = where(largest == -inf, 0, largest)",
    "p = exp(s - m)",
    "l = sum<t>(p)",
];
/// Rows of several heads that share keys and values.
const GROUPS: &str = "g, q";

fn write_rows(kernel: &Generated) -> String {
    write_forward(kernel, "q")
}

fn write_groups(kernel: &Generated) -> String {
    write_forward(kernel, GROUPS)
}

fn write_forward(kernel: &Generated, rows: &'static str) -> String {
    let mut lines = Lines::of(kernel, &format!("b, h, {rows}, t, d, e"), rows);
    lines.inputs(kernel);
    lines.operand("out", "y", &format!("b, h, {rows}, e"));
    lines.operand("out", "total", &format!("b, h, {rows}"));
    lines.scale();
    lines.scores(kernel);
    WEIGHTS.iter().for_each(|line| lines.line(line));
    lines.line("y = where(l == 0, 0, sum<t>(p * value) / l)");
    lines.line("total = where(l == 0, inf, m + log(l))");
    lines.text.kernel(kernel.name)
}

fn write_grad_scores(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel, "b, h, g, q, t, d, e", GROUPS);
    lines.inputs(kernel);
    lines.operand("in", "grad", "b, h, g, q, e");
    lines.operand("in", "result", "b, h, g, q, e");
    lines.operand("in", "total", "b, h, g, q");
    lines.operand("out", "p", "b, h, g, q, t");
    lines.operand("out", "ds", "b, h, g, q, t");
    lines.scale();
    lines.scores(kernel);
    lines.line("w = exp(s - total)");
    lines.line("p = w");
    lines.line("ds = w * (sum<e>(grad * value) - sum<e>(grad * result))");
    lines.text.kernel(kernel.name)
}

fn write_product(kernel: &Generated) -> String {
    let (other, y, summed) = match kernel.numbers[0] {
        OF_QUERIES => ("b, h, t, d", "b, h, g, q, d", "t"),
        _ => ("b, h, g, q, d", "b, h, t, d", "g, q"),
    };
    let mut lines = Lines::of(kernel, "b, h, g, q, t, d", GROUPS);
    lines.operand("in", "x", "b, h, g, q, t");
    lines.operand("in", "other", other);
    lines.operand("out", "y", y);
    lines.scale();
    lines.line(&format!("y = sum<{summed}>(x * other) * scale"));
    lines.text.kernel(kernel.name)
}
