use smallvec::SmallVec;
use spyre_artifact::Constant;
use spyre_numerics::DType;

use crate::{Argument, Call, Decline, Op, TensorView};

/// An op and what it is given, as a line of text says it: `mul.out | x:4x64 2 =x:4x64`.
///
/// `x:4x64` is a tensor of 4 rows, `x:*` stands for one of rows and for a single one; with `=` it is
/// written. `x` is of the dtype in question, `i` of
/// whole numbers, `b` of truth values, `w` of 32-bit floats. Others are numbers, `true`, `'words'`, `-`
/// for nothing, `[1,2]`, `(x:4,x:4)` for several tensors, and `random`.
#[derive(Clone, Debug)]
pub(super) struct Line {
    op: Op,
    given: Vec<Given>,
    written: Vec<usize>,
}

/// Wildcard for the shape of a tensor, and the shapes that it stands for.
const ANY: &str = ":*";
const SHAPES: [&str; 2] = [":4x64", ":64"];

#[derive(Clone, Debug)]
enum Given {
    Nothing,
    Tensor(Shape),
    Tensors(Vec<Shape>),
    Number(Constant),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Word(String),
    Random,
}

#[derive(Clone, Debug)]
struct Shape {
    /// `None`: the one in question.
    dtype: Option<DType>,
    size: Vec<usize>,
    stride: Vec<usize>,
}

impl Line {
    /// The calls of a line: it may name several ops, and two shapes.
    pub(super) fn read(line: &str) -> Vec<Self> {
        if line.contains(ANY) {
            SHAPES.iter().flat_map(|shape| Self::of(&line.replace(ANY, shape))).collect()
        } else {
            Self::of(line)
        }
    }

    fn of(line: &str) -> Vec<Self> {
        let (ops, rest) = line.split_once('|').unwrap_or_default();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let is_written = |&at: &usize| words[at].starts_with('=') || words[at].starts_with("(=");
        let written: Vec<usize> = (0..words.len()).filter(is_written).collect();
        let given: Vec<Given> = words.iter().map(|word| Given::read(word)).collect();
        let ops = ops.split_whitespace().filter_map(Op::named);
        ops.map(|op| Self { op, given: given.clone(), written: written.clone() }).collect()
    }

    /// The texts of the kernels that it launches.
    pub(super) fn texts(&self, dtype: DType) -> Result<Vec<String>, Decline> {
        let lists: Vec<_> = self.given.iter().map(|given| given.tensors(dtype)).collect();
        let given = self.given.iter().zip(&lists);
        let arguments: SmallVec<[Argument<'_>; 16]> =
            given.map(|(given, list)| given.argument(dtype, list)).collect();
        let call = Call { arguments: &arguments, written: &self.written, default: DType::Float32 };
        let recipe = self.op.recipe(&call)?;
        Ok(recipe.launches.iter().map(|launch| launch.kernel.text()).collect())
    }
}

impl Given {
    fn read(word: &str) -> Self {
        let inside = |open, close| word.strip_prefix(open)?.strip_suffix(close);
        if let Some(list) = inside('(', ')') {
            return Self::Tensors(items(list).map(Shape::read).collect());
        }
        if let Some(list) = inside('[', ']') {
            return if list.contains('e') {
                Self::Bools(items(list).map(|item| item == "true").collect())
            } else {
                Self::Ints(items(list).filter_map(|item| item.parse().ok()).collect())
            };
        }
        match word {
            "-" => Self::Nothing,
            "random" => Self::Random,
            "true" | "false" => Self::Number(Constant::Bool(word == "true")),
            _ if word.contains(':') => Self::Tensor(Shape::read(word)),
            _ => Self::number(word),
        }
    }

    fn number(word: &str) -> Self {
        match (word.parse(), word.parse()) {
            (Ok(whole), _) => Self::Number(Constant::Int(whole)),
            (_, Ok(float)) => Self::Number(Constant::Float(float)),
            _ => Self::Word(word.trim_matches('\'').to_owned()),
        }
    }

    /// The tensors of a list.
    fn tensors(&self, dtype: DType) -> Vec<Option<TensorView<'_>>> {
        match self {
            Self::Tensors(shapes) => shapes.iter().map(|shape| Some(shape.of(dtype))).collect(),
            _ => Vec::new(),
        }
    }

    fn argument<'a>(&'a self, dtype: DType, list: &'a [Option<TensorView<'a>>]) -> Argument<'a> {
        match self {
            Self::Nothing => Argument::None,
            Self::Tensor(shape) => Argument::Tensor(shape.of(dtype)),
            Self::Tensors(_) => Argument::Tensors(list),
            Self::Number(number) => (*number).into(),
            Self::Ints(list) => Argument::Ints(list),
            Self::Bools(list) => Argument::Bools(list),
            Self::Word(word) => Argument::String(word),
            Self::Random => Argument::Random { seed: 0, offset: 0 },
        }
    }
}

impl Shape {
    fn read(word: &str) -> Self {
        let (letter, size) = word.trim_start_matches('=').split_once(':').unwrap_or_default();
        let size: Vec<usize> = size.split('x').filter_map(|extent| extent.parse().ok()).collect();
        let mut stride = vec![1; size.len()];
        for at in (1..size.len()).rev() {
            stride[at - 1] = stride[at] * size[at];
        }
        let dtype = match letter {
            "i" => Some(DType::Int64),
            "b" => Some(DType::Bool),
            "w" => Some(DType::Float32),
            _ => None,
        };
        Self { dtype, size, stride }
    }

    fn of(&self, dtype: DType) -> TensorView<'_> {
        let dtype = self.dtype.unwrap_or(dtype);
        TensorView { dtype, size: &self.size, stride: &self.stride, offset: 0 }
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|item| !item.is_empty())
}
