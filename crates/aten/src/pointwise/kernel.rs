use std::fmt::Write;

use smallvec::SmallVec;
use spyre_artifact::Lane;
use spyre_numerics::DType;

use super::entry::{Entry, Outcome};
use super::parameter::Parameter;
use super::table::entries;
use crate::dtypes::lane;
use crate::unsigned_bits::as_float;
use crate::views::MOST_DIMS;

/// An expression for every element: a row of the table, and what it is computed with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    pub(super) entry: u16,
    pub(super) compute: DType,
    pub(super) inputs: SmallVec<[Input; 4]>,
    pub(super) results: SmallVec<[DType; 2]>,
    pub(super) dims: u8,
}

/// Argument that a parameter is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Tensor(DType),
    Number,
}

impl Pointwise {
    /// Returns the same expression over one dim more; `None` if a kernel cannot have as many.
    pub(crate) fn with_one_more_dim(&self) -> Option<Self> {
        let dims = self.dims + 1;
        (usize::from(dims) <= MOST_DIMS).then(|| Self { dims, ..self.clone() })
    }

    /// The kernel's text.
    pub(crate) fn text(&self) -> String {
        let entry = &entries()[usize::from(self.entry)];
        let own = lane(self.compute).unwrap_or(Lane::F32);
        let dims = (0..self.dims).map(|dim| format!("i{dim}")).collect::<Vec<_>>().join(", ");
        let base = entry.names[0].split('.').next().unwrap_or_default().trim_matches('_');
        let mut text = format!("kernel aten_{base}({dims}) {{\n");
        let mut casts = String::new();
        let mut scalars = String::new();
        let named =
            entry.parameters.iter().filter_map(|known| known.name().map(|name| (known, name)));
        for ((parameter, name), &input) in named.zip(&self.inputs) {
            let wanted = if let Parameter::Of(_, lane) = parameter { *lane } else { own };
            match input {
                Input::Number => put(&mut scalars, format_args!("    scalar {name}: {wanted}\n")),
                Input::Tensor(dtype) => {
                    let is_cast = lane(dtype).ok() != Some(wanted);
                    let operand = if is_cast { format!("{name}_") } else { name.to_owned() };
                    put(&mut text, format_args!("    in {operand}: {dtype}[{dims}]\n"));
                    if is_cast {
                        let value = match (dtype, wanted) {
                            (DType::UInt64, Lane::F32 | Lane::F64) => as_float(&operand, wanted),
                            _ => format!("{wanted}({operand})"),
                        };
                        put(&mut casts, format_args!("    {name} = {value}\n"));
                    }
                }
            }
        }
        for (at, dtype) in self.results.iter().enumerate() {
            put(&mut text, format_args!("    out y{at}: {dtype}[{dims}]\n"));
        }
        text += &scalars;
        text += &casts;
        let mut at = 0;
        for part in entry.expression(self.compute).unwrap_or_default().split(';').map(str::trim) {
            // Lines before the results give names to what is used twice.
            match part.split_once(" := ") {
                Some((name, value)) => put(&mut text, format_args!("    {name} = {value}\n")),
                None => {
                    let result = self.results.get(at).copied().unwrap_or(self.compute);
                    let value = if is_rounded(entry, self.compute, result) {
                        stored(&format!("round<{}>({part})", self.compute), result)
                    } else {
                        stored(part, result)
                    };
                    put(&mut text, format_args!("    y{at} = {value}\n"));
                    at += 1;
                }
            }
        }
        text + "}\n"
    }
}

/// Returns true if a result has to be rounded to the dtype that is computed in, before it becomes
/// another one: lanes are wider than that dtype.
fn is_rounded(entry: &Entry, compute: DType, result: DType) -> bool {
    use DType::{Bool, Float32, Float64, Int64, UInt64};
    let fills_its_lane = matches!(compute, Bool | Float32 | Float64 | Int64 | UInt64);
    entry.outcome == Outcome::Computed && compute != result && !fills_its_lane
}

/// An expression in a lane that its result can be stored from.
fn stored(expression: &str, dtype: DType) -> String {
    match lane(dtype) {
        Ok(lane) => format!("{lane}({expression})"),
        Err(_) => expression.to_owned(),
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}
