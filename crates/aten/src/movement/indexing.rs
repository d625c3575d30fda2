//! Ops that go where indices say.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use crate::generated::{AtLeastOne, Generated, Text};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Launch, Recipe, TensorRef};
use crate::reductions::source;
use crate::views::{Numbers, broadcast, expanded, like};
use crate::{Argument, Call, Decline, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("gather.out", gather),
    ("index_select", index_select),
    ("index_select.out", index_select),
    ("index.Tensor", index),
    ("index.Tensor_out", index),
    ("_index_put_impl_", index_put),
    ("embedding_dense_backward", embedding_backward),
];

/// Dims that kernels have.
const MOST_DIMS: usize = 8;

pub(crate) fn dim_of(call: &Call<'_>, argument: usize, rank: usize) -> Result<usize, Decline> {
    let wrong = Decline::Argument { argument, expected: "a dim" };
    let dim = call.int(argument).ok_or(wrong.clone())?;
    let dim = if dim < 0 { dim + rank.max(1) as i64 } else { dim };
    usize::try_from(dim).ok().filter(|&dim| dim < rank.max(1)).ok_or(wrong)
}

pub(crate) fn tensor<'a>(call: &Call<'a>, argument: usize) -> Result<TensorView<'a>, Decline> {
    call.tensor(argument).ok_or(Decline::Argument { argument, expected: "a tensor" })
}

pub(crate) fn indices<'a>(call: &Call<'a>, argument: usize) -> Result<TensorView<'a>, Decline> {
    let index = tensor(call, argument)?;
    match index.dtype {
        DType::Int64 | DType::Int32 => Ok(index),
        // Nothing is looked up.
        _ if index.size.contains(&0) => Ok(index),
        dtype => Err(Decline::DType { dtype }),
    }
}

pub(crate) fn check_dims(dims: usize) -> Result<(), Decline> {
    if dims > MOST_DIMS { Err(Decline::Rank { dims }) } else { Ok(()) }
}

pub(crate) fn finish(outputs: Outputs<'_>, launches: impl IntoIterator<Item = Launch>) -> Recipe {
    let mut recipe = outputs.into_recipe();
    recipe.launches.extend(launches);
    recipe
}

/// Dims that an index has in common with what it goes into: the longer those are, the more of them a
/// kernel would have to have twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedDims(pub(crate) u32);

impl SharedDims {
    /// Those along which both have as many elements, apart from the one that is indexed.
    pub(crate) fn of(index: &[usize], into: &[usize], dim: usize) -> Result<Self, Decline> {
        let pairs = index.iter().zip(into).enumerate();
        let same = pairs.filter(|&(at, (one, other))| at != dim && one == other);
        let mask = same.fold(0_u32, |mask, (at, _)| mask | 1 << at);
        check_dims(2 * into.len().max(1) - mask.count_ones() as usize)?;
        Ok(Self(mask))
    }

    /// Names for the dims of what is indexed, given those of the index.
    pub(crate) fn names(self, text: &mut Text, letter: &str, own: &[String]) -> Vec<String> {
        let missing = own.len() - self.0.count_ones() as usize;
        let mut others = text.dims(letter, missing).into_iter();
        let name = |at: usize| if self.0 >> at & 1 == 1 { None } else { others.next() };
        let names: Vec<Option<String>> = (0..own.len()).map(name).collect();
        names.into_iter().zip(own).map(|(name, own)| name.unwrap_or_else(|| own.clone())).collect()
    }
}

/// `gather(x, dim, index)`.
fn gather(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let index = indices(call, 2)?;
    let dim = dim_of(call, 1, x.size.len())?;
    let shared = SharedDims::of(index.size, x.size, dim)?;
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, index.size)])?;
    let launch = {
        let (place, y) = outputs.get(0);
        if y.size.contains(&0) {
            None
        } else {
            let [x, index, y] = [&x, &index, &y].map(AtLeastOne::of);
            let rank = x.tensor().size.len() as u32;
            let dim = dim as u32;
            let tensors = [
                (TensorRef::Argument(0), x.tensor()),
                (TensorRef::Argument(2), index.tensor()),
                (place, y.tensor()),
            ];
            let numbers = smallvec![rank, dim, shared.0];
            Some(Generated::launch("gather", write_gather, numbers, &tensors)?)
        }
    };
    Ok(finish(outputs, launch))
}

fn write_gather(kernel: &Generated) -> String {
    let rank = kernel.numbers[0] as usize;
    let dim = kernel.numbers[1] as usize;
    let mut text = Text::default();
    let own = text.dims("i", rank);
    let of_x = SharedDims(kernel.numbers[2]).names(&mut text, "x", &own);
    text.operand("in", "x", kernel.dtypes[0], &of_x);
    text.operand("in", "index", kernel.dtypes[1], &own);
    text.operand("out", "y", kernel.dtypes[2], &own);
    let mut axes = own.clone();
    axes[dim] = "index".to_owned();
    text.line(format_args!("y = x[{}]", axes.join(", ")));
    text.kernel(kernel.name)
}

/// `index_select(x, dim, index)`.
fn index_select(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let index = indices(call, 2)?;
    let dim = dim_of(call, 1, x.size.len())?;
    check_dims(x.size.len() + 2)?;
    let mut size = Numbers::from(x.size);
    let count = index.size.iter().product();
    if let Some(size) = size.get_mut(dim) {
        *size = count;
    }
    let outputs = Outputs::of(call, &[Wanted::rows(x.dtype, &size)])?;
    let launch = {
        let (place, y) = outputs.get(0);
        if y.size.contains(&0) {
            None
        } else {
            let [x, index, y] = [&x, &index, &y].map(AtLeastOne::of);
            let rank = x.tensor().size.len() as u32;
            let dim = dim as u32;
            let tensors = [
                (TensorRef::Argument(0), x.tensor()),
                (TensorRef::Argument(2), index.tensor()),
                (place, y.tensor()),
            ];
            let numbers = smallvec![rank, dim];
            Some(Generated::launch("index_select", write_index_select, numbers, &tensors)?)
        }
    };
    Ok(finish(outputs, launch))
}

fn write_index_select(kernel: &Generated) -> String {
    let rank = kernel.numbers[0] as usize;
    let dim = kernel.numbers[1] as usize;
    let mut text = Text::default();
    let own = text.dims("i", rank);
    let along = text.dims("n", 1);
    let mut of_x = own.clone();
    of_x[dim] = along[0].clone();
    text.operand("in", "x", kernel.dtypes[0], &of_x);
    text.operand("in", "index", kernel.dtypes[1], &own[dim..=dim]);
    text.operand("out", "y", kernel.dtypes[2], &own);
    let mut axes = own;
    axes[dim] = "index".to_owned();
    text.line(format_args!("y = x[{}]", axes.join(", ")));
    text.kernel(kernel.name)
}

/// Bools are not summed up in place.
pub(crate) fn check_sums(dtype: DType) -> Result<(), Decline> {
    if dtype == DType::Bool { Err(Decline::DType { dtype }) } else { Ok(()) }
}

/// Layout of `x[indices]`: the dims that are indexed, the shape of all indices together, and its place
/// in the result.
struct Indexed {
    /// Per dim of x, the place of its index in the list.
    at: SmallVec<[Option<usize>; 8]>,
    shape: Numbers,
    /// Number of dims of the result before those of the indices.
    before: usize,
}

impl Indexed {
    fn of(call: &Call<'_>, x: &TensorView<'_>) -> Result<Self, Decline> {
        let Argument::Tensors(list) = call.argument(1) else {
            return Err(Decline::Argument { argument: 1, expected: "indices" });
        };
        let mut at: SmallVec<[Option<usize>; 8]> = smallvec![None; x.size.len()];
        for (nth, index) in list.iter().enumerate() {
            let Some(index) = index else { continue };
            if !matches!(index.dtype, DType::Int64 | DType::Int32) {
                return Err(Decline::DType { dtype: index.dtype });
            }
            *at.get_mut(nth).ok_or(Decline::Shapes)? = Some(nth);
        }
        let sizes = list.iter().flatten().map(|index| index.size);
        let shape = broadcast(sizes).ok_or(Decline::Shapes)?;
        let first = at.iter().position(Option::is_some).ok_or(Decline::Shapes)?;
        let last = at.iter().rposition(Option::is_some).unwrap_or(first);
        let is_together = at[first..=last].iter().all(Option::is_some);
        Ok(Self { at, shape, before: if is_together { first } else { 0 } })
    }

    fn result_size(&self, x: &TensorView<'_>) -> Numbers {
        let free = x.size.iter().zip(&self.at).filter(|(_, index)| index.is_none());
        let mut size: Numbers = free.map(|(&size, _)| size).collect();
        size.insert_many(self.before, self.shape.iter().copied());
        size
    }

    /// Strides of a new result: it lies as `x` does where that is not indexed, and as the indices do
    /// elsewhere.
    fn result_stride(
        &self,
        call: &Call<'_>,
        x: &TensorView<'_>,
        size: &[usize],
    ) -> Option<Numbers> {
        let free = x.stride.iter().zip(&self.at).filter(|(_, index)| index.is_none());
        let mut own: Numbers = free.map(|(&stride, _)| stride).collect();
        own.insert_many(self.before, self.shape.iter().map(|_| 0));
        let after = size.len() - self.before - self.shape.len();
        let mut sources = vec![own];
        let Argument::Tensors(list) = call.argument(1) else { return None };
        for index in list.iter().flatten() {
            let mut stride: Numbers = smallvec![0; self.before];
            stride.extend(expanded(index, &self.shape)?);
            stride.extend(std::iter::repeat_n(0, after));
            sources.push(stride);
        }
        Some(like(size, &sources))
    }

    fn numbers(&self) -> SmallVec<[u32; 8]> {
        let mask = self.at.iter().enumerate().filter(|(_, index)| index.is_some());
        let mask = mask.fold(0, |mask, (dim, _)| mask | 1 << dim);
        smallvec![self.at.len() as u32, self.shape.len() as u32, mask, self.before as u32]
    }

    /// The index tensors, each as large as all together.
    fn tensors<'a>(
        &'a self,
        call: &Call<'a>,
        strides: &'a mut Vec<Numbers>,
    ) -> Result<Vec<(TensorRef, TensorView<'a>)>, Decline> {
        let Argument::Tensors(list) = call.argument(1) else { return Ok(Vec::new()) };
        for index in list.iter().flatten() {
            strides.push(expanded(index, &self.shape).ok_or(Decline::Shapes)?);
        }
        let places =
            list.iter().enumerate().filter_map(|(nth, index)| Some((nth, index.as_ref()?)));
        let tensors = places.zip(strides.iter()).map(|((nth, index), stride)| {
            let tensor = TensorView { dtype: index.dtype, size: &self.shape, stride, offset: 0 };
            (TensorRef::Item(1, nth), tensor)
        });
        Ok(tensors.collect())
    }
}

/// `x[indices]`.
fn index(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let indexed = Indexed::of(call, &x)?;
    check_dims(x.size.len() + indexed.shape.len())?;
    let size = indexed.result_size(&x);
    let stride = indexed.result_stride(call, &x, &size).ok_or(Decline::Shapes)?;
    let outputs = Outputs::of(call, &[Wanted { dtype: x.dtype, size, stride }])?;
    let launch = {
        let (place, y) = outputs.get(0);
        if y.size.contains(&0) {
            None
        } else {
            let mut strides = Vec::new();
            let mut tensors = vec![(TensorRef::Argument(0), x)];
            tensors.extend(indexed.tensors(call, &mut strides)?);
            tensors.push((place, y));
            Some(Generated::launch("index", write_index, indexed.numbers(), &tensors)?)
        }
    };
    Ok(finish(outputs, launch))
}

/// `x[indices] = values`, or `+=`.
fn index_put(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let values = tensor(call, 2)?;
    let indexed = Indexed::of(call, &x)?;
    check_dims(x.size.len() + indexed.shape.len())?;
    if values.dtype != x.dtype {
        return Err(Decline::DType { dtype: values.dtype });
    }
    let adds = call.boolean(3).unwrap_or(false);
    if adds {
        check_sums(x.dtype)?;
    }
    let size = indexed.result_size(&x);
    let stride = expanded(&values, &size).ok_or(Decline::Shapes)?;
    let mut recipe = Recipe::default();
    if !size.contains(&0) {
        let mut strides = Vec::new();
        let mut tensors = indexed.tensors(call, &mut strides)?;
        tensors.push((
            TensorRef::Argument(2),
            TensorView { dtype: values.dtype, size: &size, stride: &stride, offset: 0 },
        ));
        tensors.push((TensorRef::Argument(0), x));
        let mut numbers = indexed.numbers();
        numbers.push(u32::from(adds));
        recipe.launches.push(Generated::launch("index_put", write_index_put, numbers, &tensors)?);
    }
    Ok(recipe)
}

/// Names for the dims of an indexed tensor and of what it is indexed to.
struct IndexNames {
    text: Text,
    of_x: Vec<String>,
    of_index: Vec<String>,
    result: Vec<String>,
    axes: Vec<String>,
    indices: usize,
}

impl IndexNames {
    fn of(kernel: &Generated) -> Self {
        let [rank, shape, mask, before] = [0, 1, 2, 3].map(|at| kernel.numbers[at] as usize);
        let named = |letter: &str, count| (0..count).map(|at| format!("{letter}{at}")).collect();
        let of_x: Vec<String> = named("x", rank);
        let of_index: Vec<String> = named("n", shape);
        let is_indexed = |dim: usize| mask >> dim & 1 == 1;
        let (looked_up, free): (Vec<usize>, Vec<usize>) =
            (0..rank).partition(|&dim| is_indexed(dim));
        let mut result: Vec<String> = free.iter().map(|&dim| of_x[dim].clone()).collect();
        result.splice(before..before, of_index.iter().cloned());
        // In the order of the result, so that whole rows are moved where its last dim is one of the tensor's.
        let mut text = Text::default();
        looked_up.iter().map(|&dim| &of_x[dim]).chain(&result).for_each(|dim| text.named(dim));
        let mut indices = 0;
        let mut axes = Vec::new();
        for (dim, name) in of_x.iter().enumerate() {
            if is_indexed(dim) {
                axes.push(format!("at{indices}"));
                indices += 1;
            } else {
                axes.push(name.clone());
            }
        }
        Self { text, of_x, of_index, result, axes, indices }
    }

    /// Indices count from the end if they are negative. One that is out of range stays as it was given,
    /// for the message.
    fn wrap(&mut self) {
        let mut nth = 0;
        for (axis, dim) in self.axes.iter().zip(&self.of_x) {
            if axis.starts_with("at") {
                self.text.line(format_args!(
                    "{axis} = where((index{nth} < 0) & (index{nth} >= -size({dim})), \
                     index{nth} + size({dim}), index{nth})"
                ));
                nth += 1;
            }
        }
    }
}

fn write_index(kernel: &Generated) -> String {
    let mut names = IndexNames::of(kernel);
    names.text.operand("in", "x", kernel.dtypes[0], &names.of_x);
    for nth in 0..names.indices {
        let name = format!("index{nth}");
        names.text.operand("in", &name, kernel.dtypes[1 + nth], &names.of_index);
    }
    names.text.operand("out", "y", kernel.dtypes[1 + names.indices], &names.result);
    names.wrap();
    names.text.line(format_args!("y = x[{}]", names.axes.join(", ")));
    names.text.kernel(kernel.name)
}

fn write_index_put(kernel: &Generated) -> String {
    let mut names = IndexNames::of(kernel);
    for nth in 0..names.indices {
        let name = format!("index{nth}");
        names.text.operand("in", &name, kernel.dtypes[nth], &names.of_index);
    }
    names.text.operand("in", "values", kernel.dtypes[names.indices], &names.result);
    names.text.operand("inout", "x", kernel.dtypes[names.indices + 1], &names.of_x);
    names.wrap();
    let mode = if kernel.numbers[4] == 1 { "+=" } else { "=" };
    names.text.line(format_args!("x[{}] {mode} values", names.axes.join(", ")));
    names.text.kernel(kernel.name)
}

/// `embedding_dense_backward(grad, indices, rows, padding, scales)`.
fn embedding_backward(call: &Call<'_>) -> Result<Recipe, Decline> {
    let grad = source(call)?;
    let index = indices(call, 1)?;
    check_sums(grad.dtype)?;
    let rows = call.int(2).and_then(|rows| usize::try_from(rows).ok());
    let rows = rows.ok_or(Decline::Argument { argument: 2, expected: "a number of rows" })?;
    let padding = call.int(3).unwrap_or(-1);
    let scales = call.boolean(4).unwrap_or(false);
    let width = grad.size.last().copied().ok_or(Decline::Shapes)?;
    if scales || grad.size[..grad.size.len() - 1] != *index.size {
        return Err(Decline::Shapes);
    }
    check_dims(index.size.len() + 2)?;
    let outputs = Outputs::of(call, &[Wanted::rows(grad.dtype, &[rows, width])])?;
    let launches = {
        let (place, y) = outputs.get(0);
        let mut launches: SmallVec<[Launch; 2]> = smallvec![];
        if !y.size.contains(&0) {
            launches.push(zeros(place, &y)?);
        }
        if !grad.size.contains(&0) {
            let tensors =
                [(TensorRef::Argument(0), grad), (TensorRef::Argument(1), index), (place, y)];
            let numbers = smallvec![index.size.len() as u32];
            let mut launch =
                Generated::launch("embedding_backward", write_embedding, numbers, &tensors)?;
            launch.scalars.push(padding.cast_unsigned());
            launches.push(launch);
        }
        launches
    };
    Ok(finish(outputs, launches))
}

fn write_embedding(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    let width = text.dims("w", 1);
    let rows = text.dims("v", 1);
    let with = |dims: &[String]| [dims, &width].concat();
    text.operand("in", "grad", kernel.dtypes[0], &with(&own));
    text.operand("in", "index", kernel.dtypes[1], &own);
    text.operand("inout", "y", kernel.dtypes[2], &with(&rows));
    text.line(format_args!("scalar padding: i64"));
    text.line(format_args!("y[index, w0] += grad if index != padding"));
    text.kernel(kernel.name)
}

/// Zero everywhere.
pub(crate) fn zeros(to: TensorRef, target: &TensorView<'_>) -> Result<Launch, Decline> {
    let rank = target.size.len() as u32;
    Generated::launch("zeros", write_zeros, smallvec![rank], &[(to, *target)])
}

pub(crate) fn write_zeros(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("out", "y", kernel.dtypes[0], &own);
    let lane = crate::dtypes::lane(kernel.dtypes[0]).map_or("f32", spyre_artifact::Lane::name);
    text.line(format_args!("y = {lane}({})", if lane == "bool" { "false" } else { "0" }));
    text.kernel(kernel.name)
}

/// One tensor into another of the same shape and dtype.
pub(crate) fn copy(
    from: TensorRef,
    source: &TensorView<'_>,
    to: TensorRef,
    target: &TensorView<'_>,
) -> Result<Launch, Decline> {
    let [source, target] = [source, target].map(AtLeastOne::of);
    let rank = source.tensor().size.len() as u32;
    let tensors = [(from, source.tensor()), (to, target.tensor())];
    Generated::launch("copy", write_copy, smallvec![rank], &tensors)
}

fn write_copy(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", kernel.numbers[0] as usize);
    text.operand("in", "x", kernel.dtypes[0], &own);
    text.operand("out", "y", kernel.dtypes[1], &own);
    text.line(format_args!("y = x"));
    text.kernel(kernel.name)
}
