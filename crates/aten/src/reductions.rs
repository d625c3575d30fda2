//! Ops that reduce some dims of a tensor, and others along a dim: rows, scans, sorts.

pub(crate) mod losses;
pub(crate) mod membership;
pub(crate) mod rows;
pub(crate) mod scans;
pub(crate) mod sorting;

use smallvec::{SmallVec, smallvec};
use spyre_artifact::Constant;
use spyre_artifact::Lane;
use spyre_numerics::DType;

use crate::dtypes::{Category, is_complex, lane, numbered, part_of};
use crate::nest::{Nest, kept_strides};
use crate::outputs::{Outputs, Wanted};
use crate::recipe::Function;
use crate::recipe::{Recipe, TensorRef};
use crate::template::{Spans, Template, TemplateOperand};
use crate::views::Numbers;
use crate::{Argument, Call, Decline, Number, TensorView};

/// Every op of this kind.
pub(crate) const OPS: &[(&str, Function)] = &[
    ("sum.IntList_out", |call| Dims::of(call, 1, 2)?.reduce(call, &SUM, Kind::Accumulated)),
    ("nansum.out", nan_sum),
    ("mean.out", mean),
    ("prod.int_out", |call| Dims::of(call, 1, 2)?.reduce(call, &PRODUCT, Kind::Accumulated)),
    ("prod", |call| Dims::all(call).accumulate(call, &PRODUCT, asked(call, 1)?)),
    ("amax.out", |call| Dims::of(call, 1, 2)?.reduce(call, &LARGEST, Kind::Same)),
    ("amin.out", |call| Dims::of(call, 1, 2)?.reduce(call, &SMALLEST, Kind::Same)),
    ("max", |call| Dims::all(call).reduce(call, &LARGEST, Kind::Same)),
    ("min", |call| Dims::all(call).reduce(call, &SMALLEST, Kind::Same)),
    ("any.out", |call| Dims::of(call, 1, 2)?.reduce(call, &ANY, Kind::Bool)),
    ("any.dims_out", |call| Dims::listed(call, 1, 2)?.reduce(call, &ANY, Kind::Bool)),
    ("any.all_out", |call| Dims::all(call).reduce(call, &ANY, Kind::Bool)),
    ("all.out", |call| Dims::of(call, 1, 2)?.reduce(call, &ALL, Kind::Bool)),
    ("all.dims_out", |call| Dims::listed(call, 1, 2)?.reduce(call, &ALL, Kind::Bool)),
    ("all.all_out", |call| Dims::all(call).reduce(call, &ALL, Kind::Bool)),
    ("var.correction", |call| Dims::of(call, 1, 3)?.spread(call, [&VARIANCE, &COMPLEX_VARIANCE])),
    ("var.correction_out", |call| {
        Dims::of(call, 1, 3)?.spread(call, [&VARIANCE, &COMPLEX_VARIANCE])
    }),
    ("std.correction", |call| Dims::of(call, 1, 3)?.spread(call, [&DEVIATION, &COMPLEX_DEVIATION])),
    ("std.correction_out", |call| {
        Dims::of(call, 1, 3)?.spread(call, [&DEVIATION, &COMPLEX_DEVIATION])
    }),
    ("var_mean.correction", |call| {
        Dims::of(call, 1, 3)?.spread(call, [&VARIANCE_AND_MEAN, &COMPLEX_VARIANCE_AND_MEAN])
    }),
    ("std_mean.correction", |call| {
        Dims::of(call, 1, 3)?.spread(call, [&DEVIATION_AND_MEAN, &COMPLEX_DEVIATION_AND_MEAN])
    }),
    ("linalg_vector_norm.out", norm),
    ("argmax.out", |call| Dims::flat(call, 1, 2)?.reduce(call, &PLACE_OF_LARGEST, Kind::Index)),
    ("argmin.out", |call| Dims::flat(call, 1, 2)?.reduce(call, &PLACE_OF_SMALLEST, Kind::Index)),
    ("max.dim_max", |call| Dims::of(call, 1, 2)?.reduce_with_place(call, &LARGEST_AND_PLACE)),
    ("min.dim_min", |call| Dims::of(call, 1, 2)?.reduce_with_place(call, &SMALLEST_AND_PLACE)),
];

const X: TemplateOperand = TemplateOperand::read("x", Spans::All);
const Y: TemplateOperand = TemplateOperand::written("y", Spans::Kept);
const PLACE: TemplateOperand = TemplateOperand::written("place", Spans::Kept);

const fn template(name: &'static str, body: &'static str) -> Template {
    Template { name, dims: None, operands: &[X, Y], scalars: &[], body }
}

const fn counted(name: &'static str, body: &'static str) -> Template {
    Template { scalars: &[("count", None)], ..template(name, body) }
}

static SUM: Template = template("sum", "y = sum<R>(x)");
static NAN_SUM: Template = template("nansum", "y = sum<R>(where(x == x, x, 0))");
static MEAN: Template = counted("mean", "y = sum<R>(x) / count");
static PRODUCT: Template = template("prod", "y = product<R>(x)");
static LARGEST: Template = template("amax", "y = max<R>(x)");
static SMALLEST: Template = template("amin", "y = min<R>(x)");
static ANY: Template = template("any", "y = any<R>(x)");
static ALL: Template = template("all", "y = all<R>(x)");
static PLACE_OF_LARGEST: Template = template("argmax", "y = argmax<R>(x)");
static PLACE_OF_SMALLEST: Template = template("argmin", "y = argmin<R>(x)");
static LARGEST_AND_PLACE: Template = Template {
    operands: &[X, Y, PLACE],
    ..template("max_dim", "y = max<R>(x)\nplace = argmax<R>(x)")
};
static SMALLEST_AND_PLACE: Template = Template {
    operands: &[X, Y, PLACE],
    ..template("min_dim", "y = min<R>(x)\nplace = argmin<R>(x)")
};

const SPREAD: &[(&str, Option<Lane>)] = &[("count", None), ("divisor", None)];
static VARIANCE: Template = Template {
    scalars: SPREAD,
    ..template("var", "d = x - sum<R>(x) / count\ny = sum<R>(d * d) / divisor")
};
static DEVIATION: Template = Template {
    scalars: SPREAD,
    ..template("std", "d = x - sum<R>(x) / count\ny = sqrt(sum<R>(d * d) / divisor)")
};
const MEAN_OUT: TemplateOperand = TemplateOperand::written("mean", Spans::Kept);
static VARIANCE_AND_MEAN: Template = Template {
    scalars: SPREAD,
    operands: &[X, Y, MEAN_OUT],
    ..template(
        "var_mean",
        "m = sum<R>(x) / count\nd = x - m\ny = sum<R>(d * d) / divisor\nmean = m",
    )
};
static DEVIATION_AND_MEAN: Template = Template {
    scalars: SPREAD,
    operands: &[X, Y, MEAN_OUT],
    ..template(
        "std_mean",
        "m = sum<R>(x) / count\nd = x - m\ny = sqrt(sum<R>(d * d) / divisor)\nmean = m",
    )
};

const X_PARTS: [TemplateOperand; 2] =
    [TemplateOperand::read("x_re", Spans::All), TemplateOperand::read("x_im", Spans::All)];
const MEAN_PARTS: [TemplateOperand; 2] = [
    TemplateOperand::written("mean_re", Spans::Kept),
    TemplateOperand::written("mean_im", Spans::Kept),
];

/// A template of complex numbers, which has their sums as `re` and `im`.
macro_rules! of_complex {
    ($name:literal, $scalars:expr, [$($results:expr),*], $($line:literal),*) => {
        Template {
            name: $name,
            dims: None,
            operands: &[X_PARTS[0], X_PARTS[1], $($results),*],
            scalars: $scalars,
            body: concat!("re = sum<R>(x_re)\nim = sum<R>(x_im)", $("\n", $line),*),
        }
    };
}

// A quotient of a complex number: an infinite part leaves nothing of the other one.
static COMPLEX_MEAN: Template = of_complex!(
    "complex_mean",
    &[("count", None)],
    [MEAN_PARTS[0], MEAN_PARTS[1]],
    "mean_re = (re + im * 0) / count",
    "mean_im = (im - re * 0) / count"
);
static COMPLEX_VARIANCE: Template = of_complex!(
    "complex_var",
    SPREAD,
    [Y],
    "d = x_re - re / count",
    "e = x_im - im / count",
    "y = sum<R>(d * d) / divisor + sum<R>(e * e) / divisor"
);
static COMPLEX_DEVIATION: Template = of_complex!(
    "complex_std",
    SPREAD,
    [Y],
    "d = x_re - re / count",
    "e = x_im - im / count",
    "y = sqrt(sum<R>(d * d) / divisor + sum<R>(e * e) / divisor)"
);
static COMPLEX_VARIANCE_AND_MEAN: Template = of_complex!(
    "complex_var_mean",
    SPREAD,
    [Y, MEAN_PARTS[0], MEAN_PARTS[1]],
    "d = x_re - re / count",
    "e = x_im - im / count",
    "y = sum<R>(d * d) / divisor + sum<R>(e * e) / divisor",
    "mean_re = (re + im * 0) / count",
    "mean_im = (im - re * 0) / count"
);
static COMPLEX_DEVIATION_AND_MEAN: Template = of_complex!(
    "complex_std_mean",
    SPREAD,
    [Y, MEAN_PARTS[0], MEAN_PARTS[1]],
    "d = x_re - re / count",
    "e = x_im - im / count",
    "y = sqrt(sum<R>(d * d) / divisor + sum<R>(e * e) / divisor)",
    "mean_re = (re + im * 0) / count",
    "mean_im = (im - re * 0) / count"
);

static NORM_0: Template = template("norm_0", "y = sum<R>(where(x != 0, 1, 0))");
static NORM_1: Template = template("norm_1", "y = sum<R>(abs(x))");
static NORM_2: Template = template("norm_2", "y = sqrt(sum<R>(x * x))");
static NORM_LARGEST: Template = template("norm_inf", "y = max<R>(abs(x))");
static NORM_SMALLEST: Template = template("norm_neg_inf", "y = min<R>(abs(x))");
static NORM: Template = Template {
    scalars: &[("p", None)],
    ..template("norm", "y = pow(sum<R>(pow(abs(x), p)), 1 / p)")
};

/// Dtypes that a reduction computes in and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The dtype of its result; integers and booleans as 64 bits.
    Accumulated,
    /// The dtype of its result, a float.
    Float,
    /// The dtype of its source.
    Same,
    /// Booleans.
    Bool,
    /// Indices, as int64.
    Index,
}

/// Dims of the first argument that are reduced.
#[derive(Debug)]
pub(crate) struct Dims {
    pub(crate) reduced: SmallVec<[bool; 8]>,
    pub(crate) keeps: bool,
}

impl Dims {
    /// All of them, and none is kept.
    fn all(call: &Call<'_>) -> Self {
        let rank = call.tensor(0).map_or(0, |x| x.size.len());
        Self { reduced: smallvec![true; rank], keeps: false }
    }

    /// Those that an argument lists, or all if it lists none; another argument says whether they are
    /// kept with one element.
    fn of(call: &Call<'_>, dims: usize, keeps: usize) -> Result<Self, Decline> {
        let rank = call.tensor(0).map_or(0, |x| x.size.len());
        let keeps = call.boolean(keeps).unwrap_or(false);
        let single;
        let listed = match call.argument(dims) {
            Argument::Ints(list) => list,
            Argument::Number(_) => {
                single = [call.int(dims).unwrap_or(0)];
                &single[..]
            }
            _ => &[],
        };
        let mut reduced: SmallVec<[bool; 8]> = smallvec![listed.is_empty(); rank];
        for &dim in listed {
            let dim = if dim < 0 { dim + rank as i64 } else { dim };
            match usize::try_from(dim).ok().filter(|&dim| dim < rank) {
                Some(dim) => reduced[dim] = true,
                None if rank == 0 => {}
                None => {
                    return Err(Decline::Argument {
                        argument: dims,
                        expected: "dims of the tensor",
                    });
                }
            }
        }
        Ok(Self { reduced, keeps })
    }

    /// Returns true if each of them has one element.
    fn are_single(&self, size: &[usize]) -> bool {
        self.reduced.iter().zip(size).all(|(&is_reduced, &size)| !is_reduced || size == 1)
    }

    /// Reads dims like [`of`](Self::of) does, for an op that reduces nothing if an argument lists
    /// nothing: there is no kernel for that.
    fn listed(call: &Call<'_>, dims: usize, keeps: usize) -> Result<Self, Decline> {
        match call.argument(dims) {
            Argument::Ints([]) => Err(Decline::Argument { argument: dims, expected: "a dim" }),
            _ => Self::of(call, dims, keeps),
        }
    }

    /// One dim, or all as if they were one: that needs a tensor that lies row by row.
    fn flat(call: &Call<'_>, dim: usize, keeps: usize) -> Result<Self, Decline> {
        let dims = Self::of(call, dim, keeps)?;
        let x = call.tensor(0).ok_or(Decline::Argument { argument: 0, expected: "a tensor" })?;
        let is_one = dims.reduced.iter().filter(|is_reduced| **is_reduced).count() < 2;
        let rows = crate::views::like(x.size, &[]);
        let lies_in_rows =
            x.size.iter().zip(x.stride).zip(&rows).all(|((&size, a), b)| size < 2 || a == b);
        if is_one || lies_in_rows {
            Ok(dims)
        } else {
            Err(Decline::Argument { argument: 0, expected: "rows that follow each other" })
        }
    }

    fn size(&self, x: &TensorView<'_>) -> Numbers {
        let dims = x.size.iter().zip(&self.reduced);
        let size = dims.filter_map(|(&size, &is_reduced)| match (is_reduced, self.keeps) {
            (false, _) => Some(size),
            (true, true) => Some(1),
            (true, false) => None,
        });
        size.collect()
    }

    fn count(&self, x: &TensorView<'_>) -> usize {
        let dims = x.size.iter().zip(&self.reduced);
        dims.filter(|(_, is_reduced)| **is_reduced).map(|(size, _)| size).product()
    }

    fn reduce(
        &self,
        call: &Call<'_>,
        template: &'static Template,
        kind: Kind,
    ) -> Result<Recipe, Decline> {
        let x = source(call)?;
        let given = call.written.first().and_then(|&at| call.tensor(at)).map(|y| y.dtype);
        let (compute, result) = match kind {
            Kind::Accumulated => return self.accumulate(call, template, given),
            Kind::Float => {
                let dtype = given.unwrap_or(x.dtype);
                if Category::of(dtype) < Category::Float {
                    return Err(Decline::DType { dtype });
                }
                (dtype, dtype)
            }
            // There is no largest of nothing, and the host says so.
            Kind::Same | Kind::Index if self.count(&x) == 0 => return Err(Decline::Shapes),
            Kind::Same => (numbers(x.dtype), x.dtype),
            // PyTorch has these as bytes where the source is.
            Kind::Bool => {
                (DType::Bool, if x.dtype == DType::UInt8 { x.dtype } else { DType::Bool })
            }
            Kind::Index => (numbers(x.dtype), DType::Int64),
        };
        let mut scalars = SmallVec::new();
        if !template.scalars.is_empty() {
            scalars.push(Constant::Float(self.count(&x) as f64).word());
        }
        self.launch(call, template, compute, &[result], scalars)
    }

    /// Adds up or multiplies in the dtype of the result; without one, whole numbers and truth values are of
    /// 64 bits.
    fn accumulate(
        &self,
        call: &Call<'_>,
        template: &'static Template,
        result: Option<DType>,
    ) -> Result<Recipe, Decline> {
        let x = source(call)?;
        let own = if Category::of(x.dtype) < Category::Float { DType::Int64 } else { x.dtype };
        let result = result.unwrap_or(own);
        self.launch(call, template, numbers(result), &[result], smallvec![])
    }

    fn reduce_with_place(
        &self,
        call: &Call<'_>,
        template: &'static Template,
    ) -> Result<Recipe, Decline> {
        let x = source(call)?;
        if self.count(&x) == 0 {
            return Err(Decline::Shapes);
        }
        self.launch(call, template, numbers(x.dtype), &[x.dtype, DType::Int64], smallvec![])
    }

    /// Reduces by one of two templates, for real and for complex numbers. How far numbers spread is real.
    fn spread(
        &self,
        call: &Call<'_>,
        [real, complex]: [&'static Template; 2],
    ) -> Result<Recipe, Decline> {
        let x = source_of_parts(call)?;
        if Category::of(x.dtype) < Category::Float {
            return Err(Decline::DType { dtype: x.dtype });
        }
        let template = if is_complex(x.dtype) { complex } else { real };
        let correction = match call.argument(2) {
            Argument::None => 1.0,
            Argument::Number(number) => float_of(&number),
            _ => return Err(Decline::Argument { argument: 2, expected: "a number" }),
        };
        let count = self.count(&x) as f64;
        let words =
            [count, (count - correction).max(0.0)].map(|number| Constant::Float(number).word());
        let own = part_of(x.dtype);
        let has_mean = real.operands.len() > 2;
        let results: &[DType] = if has_mean { &[own, x.dtype] } else { &[own] };
        self.launch(call, template, own, results, SmallVec::from_slice(&words))
    }

    fn launch(
        &self,
        call: &Call<'_>,
        template: &'static Template,
        compute: DType,
        results: &[DType],
        scalars: SmallVec<[u64; 4]>,
    ) -> Result<Recipe, Decline> {
        let x = source_of_parts(call)?;
        lane(compute)?;
        let size = self.size(&x);
        let wanted: SmallVec<[Wanted; 2]> =
            results.iter().map(|&dtype| Wanted::rows(dtype, &size)).collect();
        let outputs = Outputs::of(call, &wanted)?;
        let is_reduced = |dim: usize| self.reduced[dim];
        let mut nest = Nest::new(x.size, is_reduced);
        nest.push(TensorRef::Argument(0), x.dtype, x.stride);
        for at in 0..results.len() {
            let (place, y) = outputs.get(at);
            nest.push(place, y.dtype, &kept_strides(&y, x.size.len(), is_reduced));
        }
        let launch = (!size.contains(&0)).then(|| nest.launch(template, compute, scalars));
        let mut recipe = outputs.into_recipe();
        recipe.launches.extend(launch.transpose()?);
        Ok(recipe)
    }
}

fn mean(call: &Call<'_>) -> Result<Recipe, Decline> {
    let dims = Dims::of(call, 1, 2)?;
    let x = source_of_parts(call)?;
    if !is_complex(x.dtype) {
        return dims.reduce(call, &MEAN, Kind::Float);
    }
    // PyTorch adds up no numbers of 16-bit parts.
    if x.dtype == DType::Complex32 {
        return Err(Decline::DType { dtype: x.dtype });
    }
    let count = Constant::Float(dims.count(&x) as f64).word();
    dims.launch(call, &COMPLEX_MEAN, part_of(x.dtype), &[x.dtype], smallvec![count])
}

/// Sums of floats that leave out NaN are floats; whole numbers have none.
fn nan_sum(call: &Call<'_>) -> Result<Recipe, Decline> {
    let x = source(call)?;
    let dtype = call.written.first().and_then(|&at| call.tensor(at)).map_or(x.dtype, |y| y.dtype);
    if Category::of(x.dtype) == Category::Float && Category::of(dtype) < Category::Float {
        return Err(Decline::DType { dtype });
    }
    Dims::of(call, 1, 2)?.reduce(call, &NAN_SUM, Kind::Accumulated)
}

fn norm(call: &Call<'_>) -> Result<Recipe, Decline> {
    let order = match call.argument(1) {
        Argument::Number(number) => float_of(&number),
        _ => return Err(Decline::Argument { argument: 1, expected: "a number" }),
    };
    let dims = Dims::of(call, 2, 3)?;
    let x = source(call)?;
    let template = match order {
        0.0 => &NORM_0,
        // Whose powers may be too large where it is not.
        _ if dims.are_single(x.size) => &NORM_LARGEST,
        1.0 => &NORM_1,
        2.0 => &NORM_2,
        f64::INFINITY => &NORM_LARGEST,
        f64::NEG_INFINITY => &NORM_SMALLEST,
        _ => &NORM,
    };
    let dtype = asked(call, 4)?.unwrap_or(x.dtype);
    if Category::of(dtype) != Category::Float || Category::of(x.dtype) != Category::Float {
        return Err(Decline::DType { dtype });
    }
    let scalars = if template.scalars.is_empty() {
        smallvec![]
    } else {
        smallvec![Constant::Float(order).word()]
    };
    dims.launch(call, template, dtype, &[dtype], scalars)
}

pub(crate) fn source<'a>(call: &Call<'a>) -> Result<TensorView<'a>, Decline> {
    let x = call.tensor(0).ok_or(Decline::Argument { argument: 0, expected: "a tensor" })?;
    lane(x.dtype)?;
    Ok(x)
}

/// The first argument, which may be of complex numbers.
fn source_of_parts<'a>(call: &Call<'a>) -> Result<TensorView<'a>, Decline> {
    let x = call.tensor(0).ok_or(Decline::Argument { argument: 0, expected: "a tensor" })?;
    lane(part_of(x.dtype))?;
    Ok(x)
}

/// The dtype that an argument asks for, if it does.
fn asked(call: &Call<'_>, argument: usize) -> Result<Option<DType>, Decline> {
    let expected = "a dtype that kernels have";
    match call.argument(argument) {
        Argument::None => Ok(None),
        _ => match call.int(argument).and_then(numbered) {
            Some(dtype) => Ok(Some(dtype)),
            None => Err(Decline::Argument { argument, expected }),
        },
    }
}

/// Truth values are compared as numbers.
fn numbers(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::Int64 } else { dtype }
}

pub(crate) fn float_of(number: &Number) -> f64 {
    match number.in_lane(Lane::F64) {
        Constant::Float(value) => value,
        Constant::Int(value) => value as f64,
        Constant::Bool(value) => value.into(),
    }
}
