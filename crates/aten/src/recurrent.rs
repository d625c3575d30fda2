//! Cells of recurrent networks: gates that lie side by side in the columns of a matrix.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::outputs::Wanted;
use crate::recipe::Function;
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, ResultShape, TensorRef};
use crate::{Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    // gates of the input, gates of the hidden state, cell, biases of both
    ("_thnn_fused_lstm_cell", |call| forward(call, &LSTM)),
    // gradients of hidden state and cell, cell before and after, gates, has biases
    ("_thnn_fused_lstm_cell_backward_impl", lstm_backward),
    // gates of the input, gates of the hidden state, hidden state, biases of both
    ("_thnn_fused_gru_cell", |call| forward(call, &GRU)),
    // gradient of the hidden state, gates, has biases
    ("_thnn_fused_gru_cell_backward", gru_backward),
];

/// Kind of cell.
struct CellKind {
    name: &'static str,
    write: fn(&Generated) -> String,
    /// Gates in a row.
    gates: usize,
    /// Results beside the gates that are kept for the gradient.
    results: usize,
    /// Gates and others that are kept.
    kept: usize,
}

static LSTM: CellKind =
    CellKind { name: "lstm_cell", write: write_lstm, gates: 4, results: 2, kept: 4 };
static GRU: CellKind =
    CellKind { name: "gru_cell", write: write_gru, gates: 3, results: 1, kept: 5 };

/// Operands of a launch: matrices of one size and dtype, in the order of the kernel's text.
struct Matrices {
    dtype: DType,
    size: [usize; 2],
    operands: SmallVec<[OperandView; 4]>,
}

impl Matrices {
    /// Reads their size from the argument that is one of them.
    fn like(call: &Call<'_>, argument: usize) -> Result<Self, Decline> {
        let found = tensor(call, argument)?;
        let &[rows, columns] = found.size else { return Err(Decline::Shapes) };
        let dtype = found.dtype;
        if Category::of(dtype) != Category::Float {
            return Err(Decline::DType { dtype });
        }
        lane(dtype)?;
        Ok(Self { dtype, size: [rows, columns], operands: SmallVec::new() })
    }

    /// Adds the parts of a tensor whose rows are so many of ours.
    fn add(
        &mut self,
        place: TensorRef,
        tensor: TensorView<'_>,
        parts: usize,
    ) -> Result<(), Decline> {
        let [rows, columns] = self.size;
        let &[row_stride, stride] = tensor.stride else { return Err(Decline::Shapes) };
        if tensor.size != [rows, parts * columns] {
            return Err(Decline::Shapes);
        }
        if tensor.dtype != self.dtype {
            return Err(Decline::DType { dtype: tensor.dtype });
        }
        self.operands.extend((0..parts).map(|part| OperandView {
            place,
            size: smallvec![rows, columns],
            stride: smallvec![row_stride, stride],
            offset: part * columns * stride,
        }));
        Ok(())
    }

    fn add_argument(
        &mut self,
        call: &Call<'_>,
        argument: usize,
        parts: usize,
    ) -> Result<(), Decline> {
        self.add(TensorRef::Argument(argument), tensor(call, argument)?, parts)
    }

    /// Adds the parts of a row that all rows share.
    fn add_bias(&mut self, call: &Call<'_>, argument: usize, parts: usize) -> Result<(), Decline> {
        let bias = tensor(call, argument)?;
        let (&[width], &[step]) = (bias.size, bias.stride) else { return Err(Decline::Shapes) };
        let rows = TensorView { size: &[self.size[0], width], stride: &[0, step], ..bias };
        self.add(TensorRef::Argument(argument), rows, parts)
    }

    /// Adds results that are to be made, by their numbers of parts.
    fn add_results(&mut self, parts: &[usize]) -> Result<SmallVec<[ResultShape; 1]>, Decline> {
        let [rows, columns] = self.size;
        let mut results = SmallVec::new();
        for (at, &parts) in parts.iter().enumerate() {
            let wanted = Wanted::rows(self.dtype, &[rows, parts * columns]);
            self.add(TensorRef::Result(at), wanted.tensor(), parts)?;
            let Wanted { dtype, size, stride } = wanted;
            results.push(ResultShape { dtype, size, stride });
        }
        Ok(results)
    }

    fn launch(
        self,
        name: &'static str,
        write: fn(&Generated) -> String,
        numbers: SmallVec<[u32; 8]>,
    ) -> Launch {
        let dtypes = self.operands.iter().map(|_| self.dtype).collect();
        let kernel = KernelSource::Generated(Generated { name, write, dtypes, numbers });
        Launch { kernel, operands: self.operands, scalars: SmallVec::new() }
    }
}

fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<TensorView<'a>, Decline> {
    call.tensor(argument).ok_or(Decline::Argument { argument, expected: "a matrix of gates" })
}

/// A cell's new state, and the gates that its gradient needs.
fn forward(call: &Call<'_>, cell: &CellKind) -> Result<Recipe, Decline> {
    let mut all = Matrices::like(call, 2)?;
    let has_bias = call.tensor(3).is_some();
    for argument in [0, 1] {
        all.add_argument(call, argument, cell.gates)?;
    }
    for argument in [3, 4].into_iter().filter(|_| has_bias) {
        all.add_bias(call, argument, cell.gates)?;
    }
    all.add_argument(call, 2, 1)?;
    let mut parts: SmallVec<[usize; 3]> = smallvec![1; cell.results];
    parts.push(cell.kept);
    let results = all.add_results(&parts)?;
    let is_empty = all.size.contains(&0);
    let launch = all.launch(cell.name, cell.write, smallvec![u32::from(has_bias)]);
    let launches = (!is_empty).then_some(launch).into_iter().collect();
    Ok(Recipe { results, launches })
}

/// Gradients of an LSTM's gates, cell and biases. Without biases there is one result less than the op
/// has, and another way is taken.
fn lstm_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let mut all = Matrices::like(call, 2)?;
    check_biased(call, 5, &all)?;
    all.add_argument(call, 4, 4)?;
    for argument in [2, 3, 0, 1] {
        if argument > 1 || call.tensor(argument).is_some() {
            all.add_argument(call, argument, 1)?;
        }
    }
    let given = [0, 1].map(|argument| u32::from(call.tensor(argument).is_some()));
    if given == [0, 0] {
        return Err(Decline::Argument { argument: 0, expected: "a gradient" });
    }
    let size = all.size;
    let mut results = all.add_results(&[4, 1])?;
    let launch =
        all.launch("lstm_cell_backward", write_lstm_backward, smallvec![given[0], given[1]]);
    let (sum, row) = column_sums(&results[0], 0, 2, [size[0], 4 * size[1]])?;
    results.push(row);
    Ok(Recipe { results, launches: SmallVec::from_iter([launch, sum]) })
}

/// Gradients of a GRU's gates, hidden state and biases.
fn gru_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let mut all = Matrices::like(call, 0)?;
    check_biased(call, 2, &all)?;
    all.add_argument(call, 1, 5)?;
    all.add_argument(call, 0, 1)?;
    let size = all.size;
    let mut results = all.add_results(&[3, 3, 1])?;
    let launch = all.launch("gru_cell_backward", write_gru_backward, smallvec![]);
    let mut launches = SmallVec::from_iter([launch]);
    for at in 0..2 {
        let (sum, row) = column_sums(&results[at], at, 3 + at, [size[0], 3 * size[1]])?;
        results.push(row);
        launches.push(sum);
    }
    Ok(Recipe { results, launches })
}

fn check_biased(call: &Call<'_>, argument: usize, all: &Matrices) -> Result<(), Decline> {
    if call.boolean(argument) == Some(true) && !all.size.contains(&0) {
        Ok(())
    } else {
        Err(Decline::Argument { argument, expected: "biases" })
    }
}

/// The sums of a result's columns, as another result.
fn column_sums(
    gates: &ResultShape,
    from: usize,
    to: usize,
    size: [usize; 2],
) -> Result<(Launch, ResultShape), Decline> {
    let Wanted { dtype, size: length, stride } = Wanted::rows(gates.dtype, &size[1..]);
    let row = ResultShape { dtype, size: length, stride };
    let tensors = [
        (
            TensorRef::Result(from),
            TensorView { dtype, size: &size, stride: &gates.stride, offset: 0 },
        ),
        (
            TensorRef::Result(to),
            TensorView { dtype, size: &row.size, stride: &row.stride, offset: 0 },
        ),
    ];
    let launch = Generated::launch("cell_bias", write_column_sums, smallvec![], &tensors)?;
    Ok((launch, row))
}

/// A kernel's text: operands `x0`, `x1` and so on for each name, and then lines.
fn written(kernel: &Generated, operands: &[(&str, &str, usize)], lines: &[&str]) -> String {
    let mut text = Text::default();
    text.named("b, h");
    let dtype = kernel.dtypes[0];
    for &(role, name, parts) in operands {
        for part in 0..parts {
            text.line(format_args!("{role} {name}{part}: {dtype}[b, h]"));
        }
    }
    lines.iter().for_each(|line| text.line(format_args!("{line}")));
    text.kernel(kernel.name)
}

/// Names of inputs: gates of both, biases of both if there are some, and the state.
fn inputs(kernel: &Generated, gates: usize) -> Vec<(&'static str, &'static str, usize)> {
    let biases = if kernel.numbers[0] == 1 { gates } else { 0 };
    vec![
        ("in", "x", gates),
        ("in", "g", gates),
        ("in", "p", biases),
        ("in", "q", biases),
        ("in", "c", 1),
    ]
}

fn write_lstm(kernel: &Generated) -> String {
    let bias = |gate: usize| match kernel.numbers[0] {
        1 => format!(" + p{gate} + q{gate}"),
        _ => String::new(),
    };
    let gate = |name: &str, function: &str, gate: usize| {
        format!("{name} = {function}(x{gate} + g{gate}{})", bias(gate))
    };
    let mut operands = inputs(kernel, 4);
    operands.extend([("out", "y", 2), ("out", "w", 4)]);
    let lines = [
        &gate("enter", "sigmoid", 0),
        &gate("forget", "sigmoid", 1),
        &gate("new", "tanh", 2),
        &gate("leave", "sigmoid", 3),
        "cell = forget * c0 + enter * new",
        "y0 = leave * tanh(cell)",
        "y1 = cell",
        "w0 = enter",
        "w1 = forget",
        "w2 = new",
        "w3 = leave",
    ];
    written(kernel, &operands, &lines)
}

fn write_lstm_backward(kernel: &Generated) -> String {
    let [hidden, cell] = [kernel.numbers[0], kernel.numbers[1]];
    let operands = [
        ("in", "w", 4),
        ("in", "c", 1),
        ("in", "n", 1),
        ("in", "gh", hidden as usize),
        ("in", "gc", cell as usize),
        ("out", "d", 4),
        ("out", "dc", 1),
    ];
    let of_hidden = "gh0 * w3 * (1 - t * t)";
    let to_cell = match (hidden, cell) {
        (1, 1) => format!("to = {of_hidden} + gc0"),
        (1, _) => format!("to = {of_hidden}"),
        _ => "to = gc0".to_owned(),
    };
    let to_leave = if hidden == 1 { "d3 = gh0 * t * w3 * (1 - w3)" } else { "d3 = t * 0" };
    let lines = [
        "t = tanh(n0)",
        &to_cell,
        "d0 = to * w2 * w0 * (1 - w0)",
        "d1 = to * c0 * w1 * (1 - w1)",
        "d2 = to * w0 * (1 - w2 * w2)",
        to_leave,
        "dc0 = to * w1",
    ];
    written(kernel, &operands, &lines)
}

fn write_gru(kernel: &Generated) -> String {
    let sides = |gate: usize| match kernel.numbers[0] {
        1 => [format!("x{gate} + p{gate}"), format!("g{gate} + q{gate}")],
        _ => [format!("x{gate}"), format!("g{gate}")],
    };
    let [reset, update, new] = [0, 1, 2].map(sides);
    let mut operands = inputs(kernel, 3);
    operands.extend([("out", "y", 1), ("out", "w", 5)]);
    let lines = [
        &format!("reset = sigmoid({} + ({}))", reset[0], reset[1]),
        &format!("update = sigmoid({} + ({}))", update[0], update[1]),
        &format!("gate = {}", new[1]),
        &format!("new = tanh({} + reset * gate)", new[0]),
        "y0 = new + update * (c0 - new)",
        "w0 = reset",
        "w1 = update",
        "w2 = new",
        "w3 = c0",
        "w4 = gate",
    ];
    written(kernel, &operands, &lines)
}

fn write_gru_backward(kernel: &Generated) -> String {
    let operands =
        [("in", "w", 5), ("in", "g", 1), ("out", "d", 3), ("out", "e", 3), ("out", "dh", 1)];
    let lines = [
        "to_update = g0 * (w3 - w2) * (1 - w1) * w1",
        "to_new = g0 * (1 - w1) * (1 - w2 * w2)",
        "to_reset = to_new * w4 * (1 - w0) * w0",
        "d0 = to_reset",
        "d1 = to_update",
        "d2 = to_new",
        "e0 = to_reset",
        "e1 = to_update",
        "e2 = to_new * w0",
        "dh0 = g0 * w1",
    ];
    written(kernel, &operands, &lines)
}

fn write_column_sums(kernel: &Generated) -> String {
    let dtype = kernel.dtypes[0];
    let mut text = Text::default();
    text.named("b, h");
    text.line(format_args!("in x: {dtype}[b, h]"));
    text.line(format_args!("out y: {dtype}[h]"));
    text.line(format_args!("y = sum<b>(x)"));
    text.kernel(kernel.name)
}

#[cfg(test)]
mod tests {
    use spyre_compiler::{CompileOptions, Kernel};

    use super::*;
    use crate::{Argument, Op};

    const ROWS: usize = 3;
    const WIDTH: usize = 5;

    fn matrix(size: &'static [usize], stride: &'static [usize]) -> Argument<'static> {
        Argument::Tensor(TensorView { dtype: DType::Float32, size, stride, offset: 0 })
    }

    fn recipe(op: &str, arguments: &[Argument<'_>]) -> Result<Recipe, Decline> {
        let op = Op::named(op).expect("a known op");
        op.recipe(&Call { arguments, written: &[], default: DType::Float32 })
    }

    fn check_compiles(recipe: &Recipe) {
        for launch in &recipe.launches {
            let kernel: Kernel = launch.kernel.text().parse().expect("a kernel");
            kernel.compile(&CompileOptions::default()).expect("a plan");
        }
    }

    #[test]
    fn gates_are_columns_of_one_matrix() {
        let gates = matrix(&[ROWS, 4 * WIDTH], &[4 * WIDTH, 1]);
        let bias = matrix(&[4 * WIDTH], &[1]);
        let cell = matrix(&[ROWS, WIDTH], &[WIDTH, 1]);
        let lstm =
            recipe("_thnn_fused_lstm_cell", &[gates, gates, cell, bias, bias]).expect("taken");
        check_compiles(&lstm);
        let operands = &lstm.launches[0].operands;
        assert_eq!(operands.len(), 23);
        assert_eq!((operands[2].offset, &operands[2].stride[..]), (2 * WIDTH, &[4 * WIDTH, 1][..]));
        assert_eq!((operands[11].offset, &operands[11].stride[..]), (3 * WIDTH, &[0, 1][..]));
        assert_eq!(lstm.results[2].size[..], [ROWS, 4 * WIDTH]);
    }

    #[test]
    fn gradients_have_one_launch_and_a_sum_for_each_bias() {
        let gates = matrix(&[ROWS, 4 * WIDTH], &[4 * WIDTH, 1]);
        let kept = matrix(&[ROWS, 5 * WIDTH], &[5 * WIDTH, 1]);
        let cell = matrix(&[ROWS, WIDTH], &[WIDTH, 1]);
        let has_bias = Argument::from(true);
        for grads in [[cell, cell], [cell, Argument::None], [Argument::None, cell]] {
            let given = [grads[0], grads[1], cell, cell, gates, has_bias];
            let lstm = recipe("_thnn_fused_lstm_cell_backward_impl", &given).expect("taken");
            check_compiles(&lstm);
            assert_eq!(
                (lstm.launches.len(), lstm.results[2].size[..].to_vec()),
                (2, vec![4 * WIDTH])
            );
        }
        let gru = recipe("_thnn_fused_gru_cell_backward", &[cell, kept, has_bias]).expect("taken");
        check_compiles(&gru);
        assert_eq!((gru.launches.len(), gru.results.len()), (3, 5));
    }

    #[test]
    fn results_that_are_left_out_and_wrong_shapes_are_declined() {
        let kept = matrix(&[ROWS, 5 * WIDTH], &[5 * WIDTH, 1]);
        let cell = matrix(&[ROWS, WIDTH], &[WIDTH, 1]);
        let backward = |has_bias: bool, kept| {
            recipe("_thnn_fused_gru_cell_backward", &[cell, kept, Argument::from(has_bias)])
        };
        assert!(backward(false, kept).is_err());
        assert!(backward(true, cell).is_err());
        assert!(recipe("_thnn_fused_gru_cell", &[cell, cell, cell]).is_err());
    }
}
