//! Ops that put elements where indices say: over what is there, or together with it.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Constant, Lane};

use crate::dtypes::lane;
use crate::generated::{AtLeastOne, Generated, Text};
use crate::indexing::{SharedDims, check_dims, check_sums, copy, dim_of, finish, indices, tensor};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind. Arguments are x, dim, index and what is put there.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("scatter.src_out", |call| Scatter::each(call)?.recipe(call, Mode::Set, false)),
    ("scatter_add.out", |call| Scatter::each(call)?.recipe(call, Mode::Add, false)),
    ("scatter.value_out", |call| Scatter::each(call)?.recipe(call, Mode::Set, false)),
    ("scatter.reduce_out", |call| Scatter::each(call)?.recipe(call, Mode::named(call, 4)?, false)),
    ("scatter.value_reduce_out", |call| {
        Scatter::each(call)?.recipe(call, Mode::named(call, 4)?, false)
    }),
    // reduce, include_self
    ("scatter_reduce.two_out", |call| {
        Scatter::each(call)?.recipe(call, Mode::named(call, 4)?, call.boolean(5) == Some(false))
    }),
    // alpha
    ("index_add.out", |call| Scatter::rows(call)?.recipe(call, Mode::Add, false)),
    ("index_copy.out", |call| Scatter::rows(call)?.recipe(call, Mode::Set, false)),
    ("index_fill_.int_Scalar", |call| Scatter::rows(call)?.recipe(call, Mode::Set, false)),
    ("index_reduce.out", |call| {
        Scatter::rows(call)?.recipe(call, Mode::named(call, 4)?, call.boolean(5) == Some(false))
    }),
];

/// Combination of an element with the value that is put on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Set,
    Add,
    Multiply,
    Largest,
    Smallest,
}

impl Mode {
    const SIGNS: [&str; 5] = ["=", "+=", "*=", "max=", "min="];

    fn named(call: &Call<'_>, argument: usize) -> Result<Self, Decline> {
        match call.text(argument) {
            Some("sum" | "add") => Ok(Self::Add),
            Some("prod" | "multiply") => Ok(Self::Multiply),
            Some("amax") => Ok(Self::Largest),
            Some("amin") => Ok(Self::Smallest),
            _ => Err(Decline::Argument { argument, expected: "sum, prod, amax or amin" }),
        }
    }

    /// Returns the value that changes nothing. Without one, any of the elements will do.
    fn neutral(self) -> Option<i64> {
        match self {
            Self::Add => Some(0),
            Self::Multiply => Some(1),
            _ => None,
        }
    }
}

/// Tensor that values are put on, with the dim and the indices of their places.
#[derive(Clone, Copy, Debug)]
struct Scatter<'a> {
    x: TensorView<'a>,
    dim: usize,
    index: TensorView<'a>,
    /// True if there is one index for a whole row. Otherwise, `shared` has the dims that index and x share.
    is_of_rows: bool,
    shared: SharedDims,
}

impl<'a> Scatter<'a> {
    /// An index for each element.
    fn each(call: &Call<'a>) -> Result<Self, Decline> {
        let x = source(call)?;
        let index = indices(call, 2)?;
        let dim = dim_of(call, 1, x.size.len())?;
        let shared = SharedDims::of(index.size, x.size, dim)?;
        Ok(Self { x, dim, index, is_of_rows: false, shared })
    }

    /// An index for each row along the dim.
    fn rows(call: &Call<'a>) -> Result<Self, Decline> {
        let x = source(call)?;
        let index = indices(call, 2)?;
        let dim = dim_of(call, 1, x.size.len())?;
        check_dims(x.size.len() + 2)?;
        Ok(Self { x, dim, index, is_of_rows: true, shared: SharedDims(0) })
    }

    fn recipe(&self, call: &Call<'_>, mode: Mode, forgets: bool) -> Result<Recipe, Decline> {
        let x = self.x;
        // Indices into nothing are out of range, and the host says so.
        if x.size.get(self.dim) == Some(&0) && !self.index.size.contains(&0) {
            return Err(Decline::Shapes);
        }
        if mode != Mode::Set {
            check_sums(x.dtype)?;
        }
        let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, x.size)])?;
        let mut launches: SmallVec<[Launch; 3]> = smallvec![];
        let (place, y) = outputs.get(0);
        if !y.size.contains(&0) && place != TensorRef::Argument(0) {
            launches.push(copy(TensorRef::Argument(0), &x, place, &y)?);
        }
        let values = self.values(call)?;
        if !self.index.size.contains(&0) && !y.size.contains(&0) {
            if forgets {
                let first = mode.neutral().map_or(values, Values::from);
                launches.push(self.put(first, Mode::Set, place, &y)?);
            }
            launches.push(self.put(values, mode, place, &y)?);
        }
        Ok(finish(outputs, launches))
    }

    fn values(&self, call: &Call<'a>) -> Result<Values<'a>, Decline> {
        let wrong = Decline::Argument { argument: 3, expected: "values of the same dtype" };
        match call.argument(3) {
            Argument::Number(number) if !number.is_complex() => {
                Ok(Values::Number(number.in_lane(lane(self.x.dtype)?)))
            }
            Argument::Tensor(values) if self.is_of_rows => {
                let is_one = values.dtype == self.x.dtype && values.size.len() == self.x.size.len();
                let values = Values::Tensor(values, self.factor(call)?);
                is_one.then_some(values).ok_or(wrong)
            }
            Argument::Tensor(_) => {
                let values = tensor(call, 3)?;
                let values = TensorView { size: self.index.size, ..values };
                let is_one = values.dtype == self.x.dtype;
                is_one.then_some(Values::Tensor(values, None)).ok_or(wrong)
            }
            _ => Err(wrong),
        }
    }

    /// Returns the factor of values, `alpha`, if there is one.
    fn factor(&self, call: &Call<'_>) -> Result<Option<Constant>, Decline> {
        let Argument::Number(alpha) = call.argument(4) else { return Ok(None) };
        let own = lane(self.x.dtype)?;
        let is_whole = !matches!(alpha.value, Constant::Float(_));
        if alpha.is_complex() || (own == Lane::I64 && !is_whole) {
            return Err(Decline::Argument { argument: 4, expected: "a factor of the dtype" });
        }
        let factor = alpha.in_lane(own);
        let is_one =
            matches!(factor, Constant::Int(1) | Constant::Bool(true) | Constant::Float(1.0));
        Ok((!is_one).then_some(factor))
    }

    /// A launch that puts values on the result.
    fn put(
        &self,
        values: Values<'_>,
        mode: Mode,
        place: TensorRef,
        y: &TensorView<'_>,
    ) -> Result<Launch, Decline> {
        let [y, index] = [y, &self.index].map(AtLeastOne::of);
        let rank = y.tensor().size.len() as u32;
        let is_of_rows = u32::from(self.is_of_rows);
        let mut numbers = smallvec![rank, self.dim as u32, mode as u32, is_of_rows, self.shared.0];
        let at = (TensorRef::Argument(2), index.tensor());
        // By these names, indices that are out of range become the op's exception.
        let names = match (self.is_of_rows, mode) {
            (true, Mode::Add) => ["index_add", "fill_rows"],
            (true, _) => ["put_rows", "fill_rows"],
            (false, _) => ["scatter_each", "scatter_value"],
        };
        match values {
            Values::Tensor(values, factor) => {
                let values = AtLeastOne::of(&values);
                let tensors = [at, (TensorRef::Argument(3), values.tensor()), (place, y.tensor())];
                numbers.push(u32::from(factor.is_some()));
                let mut launch = Generated::launch(names[0], write_put, numbers, &tensors)?;
                launch.scalars.extend(factor.map(Constant::word));
                Ok(launch)
            }
            Values::Number(value) => {
                let tensors = [at, (place, y.tensor())];
                let mut launch = Generated::launch(names[1], write_put, numbers, &tensors)?;
                let number = crate::Number { value, imaginary: 0.0, dtype: None };
                launch.scalars.push(number.in_lane(lane(self.x.dtype)?).word());
                Ok(launch)
            }
        }
    }
}

/// Values that are put: a tensor, perhaps times a number, or one number everywhere.
#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    Tensor(TensorView<'a>, Option<Constant>),
    Number(Constant),
}

impl From<i64> for Values<'_> {
    fn from(value: i64) -> Self {
        Self::Number(Constant::Int(value))
    }
}

/// Values of a tensor, which is there between index and result; or one for all.
fn write_put(kernel: &Generated) -> String {
    let [rank, dim, mode, is_of_rows] = [0, 1, 2, 3].map(|at| kernel.numbers[at] as usize);
    let mut text = Text::default();
    let own = text.dims("i", rank);
    let of_y = dims_of_result(&mut text, kernel, &own, dim);
    let of_index = if is_of_rows == 1 { &own[dim..=dim] } else { &own };
    text.operand("in", "index", kernel.dtypes[0], of_index);
    let values = match kernel.dtypes[..] {
        [_, values, y] => {
            text.operand("in", "values", values, &own);
            text.operand("inout", "y", y, &of_y);
            match kernel.numbers.get(5) {
                Some(1) => {
                    let lane = lane(y).map_or("f32", Lane::name);
                    text.line(format_args!("scalar factor: {lane}"));
                    "values * factor"
                }
                _ => "values",
            }
        }
        _ => {
            let y = kernel.dtypes[1];
            text.operand("inout", "y", y, &of_y);
            text.line(format_args!("scalar value: {}", lane(y).map_or("f32", Lane::name)));
            "value"
        }
    };
    // Rows that are filled are counted from the end too, as PyTorch has it for `index_fill` alone.
    let is_counted_back = is_of_rows == 1 && values == "value";
    let mut axes = own;
    axes[dim] = if is_counted_back {
        let size = format!("size({})", of_y[dim]);
        format!("where((index < 0) & (index >= -{size}), index + {size}, index)")
    } else {
        "index".to_owned()
    };
    text.line(format_args!("y[{}] {} {values}", axes.join(", "), Mode::SIGNS[mode]));
    text.kernel(kernel.name)
}

/// Rows have the other dims in common with the result; single elements those that are as long.
fn dims_of_result(text: &mut Text, kernel: &Generated, own: &[String], dim: usize) -> Vec<String> {
    if kernel.numbers[3] == 0 {
        return SharedDims(kernel.numbers[4]).names(text, "y", own);
    }
    let mut of_y = own.to_vec();
    of_y[dim] = text.dims("n", 1)[0].clone();
    of_y
}
