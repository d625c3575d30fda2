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
use crate::views::{Numbers, expanded, preserved};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    // query [b, hg, q, d], key [b, h, t, d], value [b, h, t, e], bias [b, hg, q, t], scale, causal
    ("spyre::attention", forward),
    // grad [b, hg, q, e], the same as above, result [b, hg, q, e], logsumexp [b, hg, q]
    ("spyre::attention_backward", backward),
];

/// Returns true if kernels take attention of these tensors: otherwise it is a matter of products and a
/// softmax. With `has_groups`, several query heads may share a head of keys and values.
pub fn takes_attention(
    [query, key, value]: [TensorView<'_>; 3],
    bias: Option<TensorView<'_>>,
    dropout: f64,
    has_groups: bool,
) -> bool {
    let is_shared = |size: [&[usize]; 2]| size[0].get(1) != size[1].get(1);
    let takes_bias = |bias: &TensorView<'_>| {
        let scores = [query.size[0], query.size[1], query.size[2], key.size[2]];
        expanded(bias, &scores).is_some()
    };
    dropout == 0.0
        && (has_groups || !is_shared([query.size, key.size]))
        && check([query, key, value]).is_ok()
        && bias.as_ref().is_none_or(takes_bias)
}

/// Declines tensors that are no heads of queries, keys and values of one dtype.
fn check([query, key, value]: [TensorView<'_>; 3]) -> Result<(), Decline> {
    let dtype = query.dtype;
    if Category::of(dtype) != Category::Float || key.dtype != dtype || value.dtype != dtype {
        return Err(Decline::DType { dtype });
    }
    let all = [query, key, value];
    let are_heads = all.iter().all(|tensor| tensor.size.len() == 4 && !tensor.size.contains(&0));
    let fits = are_heads
        && key.size[..3] == value.size[..3]
        && query.size[0] == key.size[0]
        && query.size[3] == key.size[3]
        && query.size[1].is_multiple_of(key.size[1]);
    if fits { Ok(()) } else { Err(Decline::Shapes) }
}

/// Tensor whose query heads are in groups, each of which shares a head of keys and values.
struct Grouped {
    place: TensorRef,
    view: Wanted,
}

impl Grouped {
    /// Splits the dim of heads, which is the second.
    fn of((place, tensor): (TensorRef, TensorView<'_>), heads: usize) -> Self {
        let mut size = Numbers::from(tensor.size);
        let mut stride = Numbers::from(tensor.stride);
        let group = size[1] / heads;
        size[1] = group;
        size.insert(1, heads);
        let step = stride[1] * group;
        stride.insert(1, step);
        Self { place, view: Wanted { dtype: tensor.dtype, size, stride } }
    }

    fn tensor(&self) -> (TensorRef, TensorView<'_>) {
        (self.place, self.view.tensor())
    }
}

/// Arguments of a call of attention: tensors with their places in the call, scale and masking.
struct Attention<'a> {
    query: Grouped,
    key: (TensorRef, TensorView<'a>),
    value: (TensorRef, TensorView<'a>),
    bias: Option<Grouped>,
    scale: f64,
    is_causal: bool,
    /// Dtype of the scores.
    wide: DType,
}

impl<'a> Attention<'a> {
    /// Reads the arguments of a call whose query is its argument `first`.
    fn of(call: &Call<'a>, first: usize) -> Result<Self, Decline> {
        let query = tensor(call, first)?;
        let key = tensor(call, first + 1)?;
        let value = tensor(call, first + 2)?;
        check([query.1, key.1, value.1])?;
        let size = query.1.size;
        let heads = key.1.size[1];
        let bias = match call.tensor(first + 3) {
            Some(bias) => {
                let scores = [size[0], size[1], size[2], key.1.size[2]];
                let stride = expanded(&bias, &scores).ok_or(Decline::Shapes)?;
                let all =
                    TensorView { dtype: bias.dtype, size: &scores, stride: &stride, offset: 0 };
                Some(Grouped::of((TensorRef::Argument(first + 3), all), heads))
            }
            None => None,
        };
        let scale = match call.argument(first + 4) {
            Argument::Number(scale) => float_of(&scale),
            _ => 1.0 / (size[3] as f64).sqrt(),
        };
        let dtype = query.1.dtype;
        Ok(Self {
            query: Grouped::of(query, heads),
            key,
            value,
            bias,
            scale,
            is_causal: call.boolean(first + 5).unwrap_or(false),
            wide: if dtype == DType::Float64 { DType::Float64 } else { DType::Float32 },
        })
    }

    fn dtype(&self) -> DType {
        self.query.view.dtype
    }

    fn heads(&self) -> usize {
        self.key.1.size[1]
    }

    /// A shape whose dims before the last are those of the query, and the last one that of another.
    fn rows_of(&self, width: usize) -> Numbers {
        let [batch, heads, group, queries, _] = self.query.view.size[..] else {
            return Numbers::new();
        };
        Numbers::from_slice(&[batch, heads * group, queries, width])
    }

    /// The dim of groups or of queries, if there is only one of these: rows that are numbered along one
    /// dim alone are more at a time.
    fn single_row_dim(&self) -> Option<usize> {
        let is_single = |dim: &usize| self.query.view.size[*dim] == 1;
        let dims: &[usize] = if self.is_causal { &[2] } else { &[2, 3] };
        dims.iter().copied().find(is_single)
    }

    fn scores(&self) -> Wanted {
        Wanted::rows(self.wide, &self.rows_of(self.key.1.size[2]))
    }

    /// A result or an argument with a row for each query.
    fn grouped(&self, tensor: (TensorRef, TensorView<'_>)) -> Grouped {
        Grouped::of(tensor, self.heads())
    }

    /// Declines an argument that has not a row for each query, of this width.
    fn rows(
        &self,
        call: &Call<'_>,
        argument: usize,
        width: Option<usize>,
    ) -> Result<Grouped, Decline> {
        let found = tensor(call, argument)?;
        let size = self.rows_of(width.unwrap_or(1));
        let expected = if width.is_some() { &size[..] } else { &size[..3] };
        if found.1.size == expected { Ok(self.grouped(found)) } else { Err(Decline::Shapes) }
    }

    fn launch(
        &self,
        write: fn(&Generated) -> String,
        name: &'static str,
        tensors: &[(TensorRef, TensorView<'_>)],
    ) -> Result<Launch, Decline> {
        let numbers = smallvec![u32::from(self.bias.is_some()), u32::from(self.is_causal)];
        let mut launch = Generated::launch(name, write, numbers, tensors)?;
        launch.scalars.push(Constant::Float(self.scale).word());
        Ok(launch)
    }
}

fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<(TensorRef, TensorView<'a>), Decline> {
    let tensor = call.tensor(argument);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a tensor of heads" })?;
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

fn result(wanted: &[Wanted], at: usize) -> (TensorRef, TensorView<'_>) {
    (TensorRef::Result(at), wanted[at].tensor())
}

/// Strides of a result whose dims lie in the order in which the query's do, as PyTorch promises.
fn stride_like(query: &TensorView<'_>, size: &[usize]) -> Numbers {
    if query.size == size {
        return preserved(size, query.stride);
    }
    let mut order: Numbers = (0..size.len()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(query.stride[dim]));
    let mut stride = Numbers::from_elem(1, size.len());
    let mut step = 1;
    for &dim in order.iter().rev() {
        stride[dim] = step;
        step *= size[dim];
    }
    stride
}

/// The result, and the logarithm of each row's sum, in one pass over the keys.
fn forward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let asked = Attention::of(call, 0)?;
    let size = asked.rows_of(asked.value.1.size[3]);
    let stride = stride_like(&tensor(call, 0)?.1, &size);
    let heads = Wanted { dtype: asked.dtype(), size: size.clone(), stride };
    let wanted: SmallVec<[Wanted; 5]> = smallvec![heads, Wanted::rows(asked.wide, &size[..3])];
    let made = [0, 1].map(|at| asked.grouped(result(&wanted, at)));
    let mut tensors: SmallVec<[_; 6]> = smallvec![asked.query.tensor(), asked.key, asked.value];
    tensors.extend(asked.bias.as_ref().map(Grouped::tensor));
    tensors.extend(made.iter().map(Grouped::tensor));
    let single = asked.single_row_dim();
    let name = if single.is_some() { "attention" } else { "attention_in_groups" };
    let write = if single.is_some() { write_rows } else { write_groups };
    let mut launch = asked.launch(write, name, &tensors)?;
    let shared = [TensorRef::Argument(1), TensorRef::Argument(2)];
    for view in launch.operands.iter_mut().filter(|view| !shared.contains(&view.place)) {
        single.into_iter().for_each(|dim| _ = (view.size.remove(dim), view.stride.remove(dim)));
    }
    Ok(making(wanted, smallvec![launch]))
}

/// Gradients of query, key, value and scores, from the logarithms that the forward op kept.
fn backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let asked = Attention::of(call, 1)?;
    let width = asked.value.1.size[3];
    let grad = asked.rows(call, 0, Some(width))?;
    let out = asked.rows(call, 7, Some(width))?;
    let total = asked.rows(call, 8, None)?;
    let like = |TensorView { dtype, size, stride, .. }: TensorView<'_>| Wanted {
        dtype,
        size: size.into(),
        stride: preserved(size, stride),
    };
    let wanted: SmallVec<[Wanted; 5]> = smallvec![
        like(tensor(call, 1)?.1),
        like(asked.key.1),
        like(asked.value.1),
        asked.scores(),
        asked.scores(),
    ];
    let launches = {
        let [to_query, ds, p] = [0, 3, 4].map(|at| asked.grouped(result(&wanted, at)));
        let mut tensors: SmallVec<[_; 9]> = smallvec![asked.query.tensor(), asked.key, asked.value];
        tensors.extend(asked.bias.as_ref().map(Grouped::tensor));
        tensors.extend([&grad, &out, &total, &p, &ds].map(Grouped::tensor));
        let to_key = [ds.tensor(), asked.query.tensor(), result(&wanted, 1)];
        smallvec![
            asked.launch(write_grad_scores, "attention_grad_scores", &tensors)?,
            product(OF_QUERIES, asked.scale, [ds.tensor(), asked.key, to_query.tensor()])?,
            product(OF_KEYS, asked.scale, to_key)?,
            product(OF_VALUES, 1.0, [p.tensor(), grad.tensor(), result(&wanted, 2)])?,
        ]
    };
    Ok(making(wanted, launches))
}

fn product(
    form: u32,
    scale: f64,
    tensors: [(TensorRef, TensorView<'_>); 3],
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
