use spyre_artifact::{Constant, Lane};
use spyre_layout::TensorView;
use spyre_numerics::{DType, Scalar};

use crate::dtypes::Category;

/// Arguments of a call of an op.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// All arguments, in the order of the op's schema.
    pub arguments: &'a [Argument<'a>],
    /// Indices of the arguments that are written, in order. Without any, results are made.
    pub written: &'a [usize],
    /// Default dtype: that of a float without a dtype of its own.
    pub default: DType,
}

/// One argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Argument<'a> {
    /// Nothing.
    None,
    /// A tensor of the device. Operands count elements from its first, so its offset is 0.
    Tensor(TensorView<'a>),
    /// Several; `None` where a list has none.
    Tensors(&'a [Option<TensorView<'a>>]),
    /// A number, or a tensor of the host that has one element.
    Number(Number),
    /// Integers.
    Ints(&'a [i64]),
    /// Floats.
    Floats(&'a [f64]),
    /// Booleans.
    Bools(&'a [bool]),
    /// A word.
    String(&'a str),
    /// Source of random numbers: the state that a generator gave this call.
    Random {
        /// The generator's seed.
        seed: u64,
        /// Position of the generator in its sequence of random numbers.
        offset: u64,
    },
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value; of a complex number, the real part.
    pub value: Constant,
    /// The imaginary part of a complex number.
    pub imaginary: f64,
    /// Dtype of the tensor of the host that the number comes from, if it comes from one.
    pub dtype: Option<DType>,
}

impl<'a> Call<'a> {
    /// One of its arguments; past the end there is nothing.
    pub fn argument(&self, at: usize) -> Argument<'a> {
        self.arguments.get(at).copied().unwrap_or(Argument::None)
    }

    /// A tensor of the device.
    pub fn tensor(&self, at: usize) -> Option<TensorView<'a>> {
        match self.argument(at) {
            Argument::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// An integer.
    pub fn int(&self, at: usize) -> Option<i64> {
        match self.argument(at) {
            Argument::Number(Number { value: Constant::Int(value), .. }) => Some(value),
            Argument::Number(Number { value: Constant::Bool(value), .. }) => Some(value.into()),
            _ => None,
        }
    }

    /// A boolean.
    pub fn boolean(&self, at: usize) -> Option<bool> {
        match self.argument(at) {
            Argument::Number(Number { value: Constant::Bool(value), .. }) => Some(value),
            Argument::Number(Number { value: Constant::Int(value), .. }) => Some(value != 0),
            _ => None,
        }
    }

    /// Integers; a single one is a list of one.
    pub fn ints(&self, at: usize) -> Option<&'a [i64]> {
        match self.argument(at) {
            Argument::Ints(list) => Some(list),
            _ => None,
        }
    }

    /// A word.
    pub fn text(&self, at: usize) -> Option<&'a str> {
        match self.argument(at) {
            Argument::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Number {
    /// Returns true if it is a complex number.
    pub fn is_complex(&self) -> bool {
        self.imaginary != 0.0 || self.dtype.is_some_and(crate::dtypes::is_complex)
    }

    /// Returns the number as a float of 8 or 16 bits has it, if `dtype` is one: PyTorch compares such tensors with
    /// what they could hold. A number that is past all of them stays what it is.
    #[must_use]
    pub(crate) fn rounded_to(self, dtype: DType) -> Self {
        let is_narrow = !matches!(dtype, DType::Float32 | DType::Float64);
        let rounded = |value: f64| {
            let bytes = Scalar::Double(value).encode(dtype.host_format()).ok()?;
            let rounded = Scalar::decode(dtype.host_format(), &bytes).ok()?.to_f64();
            rounded.is_finite().then_some(rounded)
        };
        match self.value {
            Constant::Float(value) if Category::of(dtype) == Category::Float && is_narrow => {
                Self { value: Constant::Float(rounded(value).unwrap_or(value)), ..self }
            }
            _ => self,
        }
    }

    /// Returns the number as a constant that a register of `lane` holds.
    pub fn in_lane(&self, lane: Lane) -> Constant {
        let float = match self.value {
            Constant::Float(value) => value,
            Constant::Int(value) => value as f64,
            Constant::Bool(value) => value.into(),
        };
        match lane {
            Lane::I64 => Constant::Int(match self.value {
                Constant::Int(value) => value,
                Constant::Bool(value) => value.into(),
                Constant::Float(value) => value as i64,
            }),
            Lane::Bool => Constant::Bool(match self.value {
                Constant::Bool(value) => value,
                Constant::Int(value) => value != 0,
                Constant::Float(value) => value != 0.0,
            }),
            _ => Constant::Float(float),
        }
    }
}

impl From<i64> for Argument<'_> {
    fn from(value: i64) -> Self {
        Constant::Int(value).into()
    }
}

impl From<f64> for Argument<'_> {
    fn from(value: f64) -> Self {
        Constant::Float(value).into()
    }
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Constant::Bool(value).into()
    }
}

impl From<Constant> for Argument<'_> {
    fn from(value: Constant) -> Self {
        Argument::Number(Number { value, imaginary: 0.0, dtype: None })
    }
}
