use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;

/// What an op is called with.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// In the order of the op's schema.
    pub arguments: &'a [Argument<'a>],
    /// Which of them are written, in order. Without any, results are made.
    pub written: &'a [usize],
    /// What a float without a dtype is.
    pub default: DType,
}

/// One argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Argument<'a> {
    /// Nothing.
    None,
    /// A tensor of the device.
    Tensor(Tensor<'a>),
    /// Several; `None` where a list has none.
    Tensors(&'a [Option<Tensor<'a>>]),
    /// A number, or a tensor of the host that has one element.
    Number(Number),
    /// Whole numbers.
    Wholes(&'a [i64]),
    /// Floats.
    Floats(&'a [f64]),
    /// Truth values.
    Truths(&'a [bool]),
    /// A word.
    Text(&'a str),
    /// Where random numbers come from: what a generator gave this call.
    Random {
        /// The generator's seed.
        seed: u64,
        /// How far along its numbers it was.
        offset: u64,
    },
}

/// A tensor as its user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// What its elements are.
    pub dtype: DType,
    /// Elements along each dimension.
    pub size: &'a [usize],
    /// Elements of the storage from one to the next along each.
    pub stride: &'a [usize],
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value; of a complex number, the real part.
    pub value: Constant,
    /// The imaginary part of a complex number.
    pub imaginary: f64,
    /// What it is, if it is more than a number: the dtype of a tensor of the host.
    pub dtype: Option<DType>,
}

impl<'a> Call<'a> {
    /// One of its arguments; past the end there is nothing.
    pub fn argument(&self, at: usize) -> Argument<'a> {
        self.arguments.get(at).copied().unwrap_or(Argument::None)
    }

    /// A tensor of the device.
    pub fn tensor(&self, at: usize) -> Option<Tensor<'a>> {
        match self.argument(at) {
            Argument::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// A whole number.
    pub fn whole(&self, at: usize) -> Option<i64> {
        match self.argument(at) {
            Argument::Number(Number { value: Constant::Int(value), .. }) => Some(value),
            Argument::Number(Number { value: Constant::Bool(value), .. }) => Some(value.into()),
            _ => None,
        }
    }

    /// A truth value.
    pub fn truth(&self, at: usize) -> Option<bool> {
        match self.argument(at) {
            Argument::Number(Number { value: Constant::Bool(value), .. }) => Some(value),
            Argument::Number(Number { value: Constant::Int(value), .. }) => Some(value != 0),
            _ => None,
        }
    }

    /// Whole numbers; a single one is a list of one.
    pub fn wholes(&self, at: usize) -> Option<&'a [i64]> {
        match self.argument(at) {
            Argument::Wholes(list) => Some(list),
            _ => None,
        }
    }

    /// A word.
    pub fn text(&self, at: usize) -> Option<&'a str> {
        match self.argument(at) {
            Argument::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Number {
    /// Whether it is a complex number.
    pub fn is_complex(&self) -> bool {
        self.imaginary != 0.0 || self.dtype.is_some_and(crate::dtypes::is_complex)
    }

    /// The same number as what a register of `lane` holds.
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
