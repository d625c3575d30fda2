use std::fmt::Write;

use smallvec::SmallVec;
use spyre_artifact::Lane;
use spyre_numerics::DType;

use super::entry::{Entry, Outcome};
use super::parameter::Parameter;
use crate::dtypes::{is_complex, lane, part_of};
use crate::unsigned_bits::as_float;
use crate::views::MOST_DIMS;

/// An expression for every element: a row of the table, and what it is computed with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    pub(super) entry: &'static Entry,
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
        let entry = self.entry;
        let own = entry.lane(self.compute).unwrap_or(Lane::F32);
        let dims = (0..self.dims).map(|dim| format!("i{dim}")).collect::<Vec<_>>().join(", ");
        let base = entry.names[0].split('.').next().unwrap_or_default().trim_matches('_');
        let mut lines = Lines { dims, ..Lines::default() };
        let named =
            entry.parameters.iter().filter_map(|known| known.name().map(|name| (known, name)));
        for ((parameter, name), &input) in named.zip(&self.inputs) {
            let lane = if let Parameter::Of(_, lane) = parameter { *lane } else { own };
            if is_complex(self.compute) && parameter.has_parts() {
                lines.parts(name, input, lane);
            } else {
                lines.input(name, input, lane);
            }
        }
        let stored: SmallVec<[DType; 2]> =
            self.results.iter().flat_map(|&dtype| parts_of(dtype)).collect();
        for (at, dtype) in stored.iter().enumerate() {
            lines.operand("out", &format!("y{at}"), *dtype);
        }
        let Lines { dims, operands, scalars, mut values } = lines;
        let mut at = 0;
        let text = entry.expression(self.compute).unwrap_or_default();
        for part in text.split(';').map(str::trim) {
            // Lines before the results give names to what is used twice.
            match part.split_once(" := ") {
                Some((name, value)) => put(&mut values, format_args!("    {name} = {value}\n")),
                None => {
                    let result = stored.get(at).copied().unwrap_or(self.compute);
                    let value = self.rounded(entry, part, result);
                    put(&mut values, format_args!("    y{at} = {value}\n"));
                    at += 1;
                }
            }
        }
        // Real numbers as complex ones.
        for (at, &dtype) in stored.iter().enumerate().skip(at) {
            put(&mut values, format_args!("    y{at} = {}\n", self::stored("0", dtype)));
        }
        format!("kernel aten_{base}({dims}) {{\n{operands}{scalars}{values}}}\n")
    }

    /// A result as it is stored. It is rounded to the dtype that is computed in before it becomes another
    /// one, where the lane is wider than that dtype.
    fn rounded(&self, entry: &Entry, expression: &str, result: DType) -> String {
        use DType::{Bool, Float32, Float64, Int64, UInt64};
        let compute = part_of(self.compute);
        let is_other = entry.outcome == Outcome::Computed && compute != result;
        match compute {
            Float32 if is_other && entry.is_double => stored(&format!("f32({expression})"), result),
            Bool | Float32 | Float64 | Int64 | UInt64 => stored(expression, result),
            _ if is_other => stored(&format!("round<{compute}>({expression})"), result),
            _ => stored(expression, result),
        }
    }
}

/// Lines of a kernel, in the order in which they stand.
#[derive(Default)]
struct Lines {
    /// Names of its dims.
    dims: String,
    operands: String,
    scalars: String,
    values: String,
}

impl Lines {
    /// An argument as one value.
    fn input(&mut self, name: &str, input: Input, wanted: Lane) {
        match input {
            Input::Number => self.scalar(name, wanted),
            // Numbers of which a part is not zero are true.
            Input::Tensor(dtype) if is_complex(dtype) => {
                for part in names_of_parts(name) {
                    self.tensor(&part, part_of(dtype), wanted);
                }
                let [real, imaginary] = names_of_parts(name);
                put(&mut self.values, format_args!("    {name} = {real} | {imaginary}\n"));
            }
            Input::Tensor(dtype) => self.tensor(name, dtype, wanted),
        }
    }

    /// An argument as a complex number; the imaginary part of a real one is zero.
    fn parts(&mut self, name: &str, input: Input, wanted: Lane) {
        let [real, imaginary] = names_of_parts(name);
        match input {
            Input::Number => [real, imaginary].iter().for_each(|part| self.scalar(part, wanted)),
            Input::Tensor(dtype) if is_complex(dtype) => {
                for part in [real, imaginary] {
                    self.tensor(&part, part_of(dtype), wanted);
                }
            }
            Input::Tensor(dtype) => {
                self.tensor(&real, dtype, wanted);
                put(&mut self.values, format_args!("    {imaginary} = 0{wanted}\n"));
            }
        }
    }

    fn scalar(&mut self, name: &str, lane: Lane) {
        put(&mut self.scalars, format_args!("    scalar {name}: {lane}\n"));
    }

    fn tensor(&mut self, name: &str, dtype: DType, wanted: Lane) {
        if lane(dtype).ok() == Some(wanted) {
            return self.operand("in", name, dtype);
        }
        let operand = format!("{name}_");
        self.operand("in", &operand, dtype);
        let value = match (dtype, wanted) {
            (DType::UInt64, Lane::F32 | Lane::F64) => as_float(&operand, wanted),
            _ => format!("{wanted}({operand})"),
        };
        put(&mut self.values, format_args!("    {name} = {value}\n"));
    }

    fn operand(&mut self, role: &str, name: &str, dtype: DType) {
        let dims = &self.dims;
        put(&mut self.operands, format_args!("    {role} {name}: {dtype}[{dims}]\n"));
    }
}

fn names_of_parts(name: &str) -> [String; 2] {
    [format!("{name}_re"), format!("{name}_im")]
}

/// Dtypes of the operands that a tensor is.
fn parts_of(dtype: DType) -> impl Iterator<Item = DType> {
    std::iter::repeat_n(part_of(dtype), if is_complex(dtype) { 2 } else { 1 })
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
