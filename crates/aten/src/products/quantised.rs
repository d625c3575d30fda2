//! Products of eight-bit numbers: operands are converted while they are multiplied, and scales and
//! biases come after the sum, in the same kernel. No wider copy of a weight is made.

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Lane;
use spyre_numerics::DType;

use crate::generated::{Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{KernelSource, Launch, OperandView, Recipe, TensorRef};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("_scaled_mm", scaled),
    ("_scaled_mm.out", scaled),
    ("_scaled_mm_v2", scaled_by_recipe),
    ("_scaled_mm_v2.out", scaled_by_recipe),
    ("_weight_int8pack_mm", weighted),
    ("_int_mm", whole),
    ("_int_mm.out", whole),
];

/// The longest sum of products of two eight-bit integers whose every part is exact in f32: 2^24
/// divided by the largest product, of 255 and -128.
const LONGEST_SINGLE: usize = (1 << 24) / (255 * 128);

/// A part of the result that is not a matrix: what a kernel does with it, and where it comes from.
struct Part<'a> {
    role: Role,
    place: TensorRef,
    source: Source<'a>,
}

/// Role of a part. Its number is one of the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    LeftScale = 0,
    RightScale = 1,
    Bias = 2,
    ResultScale = 3,
}

enum Source<'a> {
    Tensor(TensorView<'a>),
    /// A number of the host.
    Word(u64),
}

impl Role {
    const ALL: [Self; 4] = [Self::LeftScale, Self::RightScale, Self::Bias, Self::ResultScale];

    fn name(self) -> &'static str {
        ["scale_a", "scale_b", "bias", "scale_result"][self as usize]
    }

    /// The dim of the result along which it differs.
    fn dim(self) -> &'static str {
        if self == Self::LeftScale { "m" } else { "n" }
    }

    /// The result with it.
    fn applied(self, result: &str) -> String {
        let name = self.name();
        match self {
            Self::LeftScale | Self::RightScale => format!("{result} * {name}"),
            Self::Bias => format!("{result} + {name}"),
            Self::ResultScale => format!("({result}) * (1 / {name})"),
        }
    }
}

/// A product of two matrices, and what is done with it.
struct Product<'a> {
    a: TensorView<'a>,
    b: TensorView<'a>,
    parts: SmallVec<[Part<'a>; 4]>,
    /// Lane of the sums.
    lane: Lane,
}

/// `a @ b`, of eight-bit floats, times a scale of each side: of the whole of it, or of each row of a
/// and each column of b.
fn scaled(call: &Call<'_>) -> Result<Recipe, Decline> {
    let dtype = result_dtype(call, 6, |a| a)?;
    let pair = [scale(call, 2, Role::LeftScale)?, scale(call, 3, Role::RightScale)?];
    let mut product = Product::scaled(call, pair, [true; 2])?;
    product.parts.extend(bias(call, 4, &product.b)?);
    if is_float8(dtype) && !matches!(call.argument(5), Argument::None) {
        let part = scale(call, 5, Role::ResultScale)?;
        product.parts.push(Some(part).filter(|part| part.elements() == 1).ok_or(Decline::Shapes)?);
    }
    product.recipe(call, dtype)
}

/// Computes [`scaled`] for a call whose recipes say what scales are of: zero is a tensor, one its rows.
/// Others are of blocks.
fn scaled_by_recipe(call: &Call<'_>) -> Result<Recipe, Decline> {
    let dtype = result_dtype(call, 9, |_| DType::BFloat16)?;
    let is_known = call.ints(3) == call.ints(6) && matches!(call.ints(3), Some([0 | 1]));
    let is_plain = |at| call.ints(at).is_none_or(|list| list.iter().all(|&kind| kind == 0));
    if !is_known || !is_plain(4) || !is_plain(7) || call.ints(10).is_some_and(|k| !k.is_empty()) {
        return Err(Decline::Argument { argument: 3, expected: "scales of tensors or of rows" });
    }
    let pair = [listed(call, 2, Role::LeftScale)?, listed(call, 5, Role::RightScale)?];
    let is_whole = call.ints(3) == Some(&[0]);
    let mut product = Product::scaled(call, pair, [is_whole, !is_whole])?;
    // PyTorch gives zeros where there is nothing to sum up.
    let bias = bias(call, 8, &product.b)?;
    product.parts.extend(bias.filter(|_| product.a.size[1] > 0));
    product.recipe(call, dtype)
}

/// Rows of floats times rows of int8, of which each has a scale.
fn weighted(call: &Call<'_>) -> Result<Recipe, Decline> {
    let a = matrix(call, 0, is_small_float)?;
    let weight = matrix(call, 1, |dtype| dtype == DType::Int8)?;
    let [n, k] = sides(&weight)?;
    let [by, over] = [weight.stride[1], weight.stride[0]];
    let size = [k, n];
    let stride = [by, over];
    let b = TensorView { size: &size, stride: &stride, ..weight };
    let scales = vector(call, 2, n)?;
    let place = TensorRef::Argument(2);
    let source = Source::Tensor(scales);
    let parts = smallvec![Part { role: Role::RightScale, place, source }];
    Product { a, b, parts, lane: Lane::F32 }.recipe(call, a.dtype)
}

/// Exact sums of products of whole numbers, which wrap where they are longer than int32.
fn whole(call: &Call<'_>) -> Result<Recipe, Decline> {
    let a = matrix(call, 0, |dtype| matches!(dtype, DType::Int8 | DType::UInt8))?;
    let b = matrix(call, 1, |dtype| dtype == DType::Int8)?;
    let written = call.written.first().and_then(|&at| call.tensor(at));
    if let Some(y) = written.filter(|y| y.dtype != DType::Int32) {
        return Err(Decline::DType { dtype: y.dtype });
    }
    let lane = if a.size[1] <= LONGEST_SINGLE { Lane::F32 } else { Lane::F64 };
    Product { a, b, parts: SmallVec::new(), lane }.recipe(call, DType::Int32)
}

impl Part<'_> {
    fn elements(&self) -> usize {
        match &self.source {
            Source::Tensor(tensor) => tensor.size.iter().product(),
            Source::Word(_) => 1,
        }
    }

    fn has_size(&self, size: &[usize]) -> bool {
        matches!(&self.source, Source::Tensor(tensor) if tensor.size == size)
    }

    /// Its elements along one dim of the result, which a single one is repeated along.
    fn along(&self, extent: usize, tensor: &TensorView<'_>) -> OperandView {
        let own = tensor.size.iter().zip(tensor.stride).find(|(size, _)| **size > 1);
        let stride = own.map_or(0, |(_, &stride)| stride);
        let size = smallvec![extent];
        let stride = smallvec![stride];
        OperandView { place: self.place, size, stride, offset: 0 }
    }
}

impl<'a> Product<'a> {
    /// Reads a call's first two arguments, with scales that go together: of tensors or of rows,
    /// whichever are allowed.
    fn scaled(
        call: &Call<'a>,
        pair: [Part<'a>; 2],
        [may_be_whole, may_be_each]: [bool; 2],
    ) -> Result<Self, Decline> {
        let a = matrix(call, 0, is_float8)?;
        let b = matrix(call, 1, is_float8)?;
        let [m, _] = sides(&a)?;
        let [_, n] = sides(&b)?;
        let are_whole = pair.iter().all(|part| part.elements() == 1);
        let are_each = pair[0].has_size(&[m, 1]) && pair[1].has_size(&[1, n]);
        if may_be_whole && are_whole || may_be_each && are_each {
            Ok(Self { a, b, parts: pair.into_iter().collect(), lane: Lane::F32 })
        } else {
            Err(Decline::Shapes)
        }
    }

    fn recipe(self, call: &Call<'_>, dtype: DType) -> Result<Recipe, Decline> {
        let [m, k] = sides(&self.a)?;
        let [other, n] = sides(&self.b)?;
        if k != other {
            return Err(Decline::Shapes);
        }
        let outputs = Outputs::of(call, &[Wanted::rows(dtype, &[m, n])])?;
        let launch = self.launch(outputs.get(0));
        let mut recipe = outputs.into_recipe();
        if m * n > 0 {
            recipe.launches.push(launch);
        }
        Ok(recipe)
    }

    fn launch(&self, (place, y): (TensorRef, TensorView<'_>)) -> Launch {
        let view = |place, tensor: &TensorView<'_>| OperandView {
            place,
            size: tensor.size.into(),
            stride: tensor.stride.into(),
            offset: 0,
        };
        let mut operands: SmallVec<[OperandView; 4]> =
            smallvec![view(TensorRef::Argument(0), &self.a), view(TensorRef::Argument(1), &self.b)];
        let mut dtypes: SmallVec<[DType; 6]> = smallvec![self.a.dtype, self.b.dtype];
        let mut scalars = SmallVec::new();
        for part in &self.parts {
            match &part.source {
                Source::Tensor(tensor) => {
                    let extent = y.size[usize::from(part.role != Role::LeftScale)];
                    operands.push(part.along(extent, tensor));
                    dtypes.push(tensor.dtype);
                }
                Source::Word(word) => scalars.push(*word),
            }
        }
        operands.push(view(place, &y));
        dtypes.push(y.dtype);
        let kernel = Generated { name: "eight_bits", write, dtypes, numbers: self.numbers() };
        Launch { kernel: KernelSource::Generated(kernel), operands, scalars }
    }

    /// Returns the numbers that a kernel's text is made from: its lane, and the role of each part, less
    /// than four, plus four if it is a number of the host.
    fn numbers(&self) -> SmallVec<[u32; 8]> {
        let parts = self.parts.iter().map(|part| {
            let is_word = matches!(part.source, Source::Word(_));
            part.role as u32 + 4 * u32::from(is_word)
        });
        [u32::from(self.lane == Lane::F64)].into_iter().chain(parts).collect()
    }
}

fn write(kernel: &Generated) -> String {
    let lane = if kernel.numbers[0] == 1 { Lane::F64 } else { Lane::F32 };
    let mut dtypes = kernel.dtypes.iter().copied();
    let mut next = || dtypes.next().unwrap_or(DType::Float32);
    let mut text = Text::default();
    text.named("m, n, k");
    let sides = [("a", ["m", "k"]), ("b", ["k", "n"])].map(|(name, dims)| {
        let dtype = next();
        text.operand("in", name, dtype, &dims.map(str::to_owned));
        if Lane::of(dtype.host_format()) == Some(lane) {
            name.to_owned()
        } else {
            format!("{lane}({name})")
        }
    });
    let mut result = format!("sum<k>({} * {})", sides[0], sides[1]);
    let mut scalars = Vec::new();
    for number in &kernel.numbers[1..] {
        let role = Role::ALL[(number % 4) as usize];
        match number / 4 {
            0 => text.operand("in", role.name(), next(), &[role.dim().to_owned()]),
            _ => scalars.push(role.name()),
        }
        result = role.applied(&result);
    }
    let dtype = next();
    text.operand("out", "y", dtype, &["m", "n"].map(str::to_owned));
    scalars.iter().for_each(|name| text.line(format_args!("scalar {name}: f32")));
    match Lane::of(dtype.host_format()) {
        Some(own) if own != lane => text.line(format_args!("y = {own}({result})")),
        _ => text.line(format_args!("y = {result}")),
    }
    text.kernel(kernel.name)
}

fn is_float8(dtype: DType) -> bool {
    use DType::{Float8E4M3Fn, Float8E4M3FnUz, Float8E5M2, Float8E5M2FnUz};
    matches!(dtype, Float8E4M3Fn | Float8E4M3FnUz | Float8E5M2 | Float8E5M2FnUz)
}

fn is_small_float(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::BFloat16 | DType::Float16)
}

fn matrix<'a>(
    call: &Call<'a>,
    argument: usize,
    is_taken: fn(DType) -> bool,
) -> Result<TensorView<'a>, Decline> {
    let tensor = call.tensor(argument).filter(|tensor| tensor.size.len() == 2);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a matrix" })?;
    if is_taken(tensor.dtype) { Ok(tensor) } else { Err(Decline::DType { dtype: tensor.dtype }) }
}

fn sides(matrix: &TensorView<'_>) -> Result<[usize; 2], Decline> {
    <[usize; 2]>::try_from(matrix.size).map_err(|_| Decline::Shapes)
}

/// A vector of so many floats.
fn vector<'a>(call: &Call<'a>, argument: usize, extent: usize) -> Result<TensorView<'a>, Decline> {
    let tensor = call.tensor(argument).filter(|tensor| tensor.size == [extent]);
    let tensor = tensor.ok_or(Decline::Argument { argument, expected: "a number per column" })?;
    if is_small_float(tensor.dtype) {
        Ok(tensor)
    } else {
        Err(Decline::DType { dtype: tensor.dtype })
    }
}

fn scale<'a>(call: &Call<'a>, argument: usize, role: Role) -> Result<Part<'a>, Decline> {
    let source = match call.argument(argument) {
        Argument::Tensor(tensor) if tensor.dtype == DType::Float32 => Source::Tensor(tensor),
        Argument::Tensor(tensor) => return Err(Decline::DType { dtype: tensor.dtype }),
        Argument::Number(number) if number.dtype == Some(DType::Float32) => {
            Source::Word(number.in_lane(Lane::F32).word())
        }
        _ => return Err(Decline::Argument { argument, expected: "a float32 scale" }),
    };
    Ok(Part { role, place: TensorRef::Argument(argument), source })
}

/// The only scale of a list.
fn listed<'a>(call: &Call<'a>, argument: usize, role: Role) -> Result<Part<'a>, Decline> {
    match call.argument(argument) {
        Argument::Tensors(&[Some(tensor)]) if tensor.dtype == DType::Float32 => {
            Ok(Part { role, place: TensorRef::Item(argument, 0), source: Source::Tensor(tensor) })
        }
        _ => Err(Decline::Argument { argument, expected: "one float32 scale" }),
    }
}

fn bias<'a>(
    call: &Call<'a>,
    argument: usize,
    b: &TensorView<'_>,
) -> Result<Option<Part<'a>>, Decline> {
    let tensor = match call.argument(argument) {
        Argument::None => return Ok(None),
        Argument::Tensor(tensor) => tensor,
        _ => return Err(Decline::Argument { argument, expected: "a tensor" }),
    };
    if !is_small_float(tensor.dtype) {
        return Err(Decline::DType { dtype: tensor.dtype });
    }
    let elements: usize = tensor.size.iter().product();
    if elements != b.size[1] || tensor.size.last() != b.size.last() {
        return Err(Decline::Shapes);
    }
    let place = TensorRef::Argument(argument);
    Ok(Some(Part { role: Role::Bias, place, source: Source::Tensor(tensor) }))
}

/// Returns the dtype of a scaled product: the one that is asked for, that of the given result, or what
/// `own` makes of the left side's.
fn result_dtype(
    call: &Call<'_>,
    argument: usize,
    own: fn(DType) -> DType,
) -> Result<DType, Decline> {
    let asked = call.int(argument).map(|number| named(number, argument)).transpose()?;
    let given = call.written.first().and_then(|&at| call.tensor(at)).map(|y| y.dtype);
    let left = matrix(call, 0, is_float8)?.dtype;
    let dtype = given.or(asked).unwrap_or_else(|| own(left));
    let is_taken = is_small_float(dtype) || is_float8(dtype);
    if asked.is_none_or(|asked| asked == dtype) && is_taken {
        Ok(dtype)
    } else {
        Err(Decline::DType { dtype })
    }
}

/// A dtype by the number that PyTorch's `ScalarType` gives it.
fn named(number: i64, argument: usize) -> Result<DType, Decline> {
    Ok(match number {
        5 => DType::Float16,
        6 => DType::Float32,
        15 => DType::BFloat16,
        23 => DType::Float8E5M2,
        24 => DType::Float8E4M3Fn,
        25 => DType::Float8E5M2FnUz,
        26 => DType::Float8E4M3FnUz,
        _ => return Err(Decline::Argument { argument, expected: "a float of 8 to 32 bits" }),
    })
}
