//! A kernel carried out element by element.

mod philox;
mod scans;

use spyre_artifact::{Constant, Lane};
use spyre_numerics::DType;
use thiserror::Error;

use super::scalar_math as math;
use super::{DimId, DimSet, Expression, Kernel, OperandId, Store, ValueId};

/// A tensor, row by row, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Dtype of its elements.
    pub dtype: DType,
    /// Length along each dimension.
    pub shape: Vec<usize>,
    /// Its elements, each one that `dtype` has.
    pub elements: Vec<Constant>,
}

/// Reason why a kernel cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InterpretError {
    #[error("the kernel has {expected} {what}, and {given} are given")]
    Count { what: &'static str, expected: usize, given: usize },
    #[error("`{operand}` is {expected:?} and is given {given:?}")]
    Shape { operand: String, expected: Vec<usize>, given: Vec<usize> },
    #[error("`{operand}` is {expected} and is given {given}")]
    DType { operand: String, expected: DType, given: DType },
    #[error("index {index} is out of range for dimension {dim} of `{operand}` with size {size}")]
    IndexOutOfRange { operand: String, dim: usize, index: i64, size: usize },
    #[error("an integer is divided by zero")]
    DivisionByZero,
}

impl Array {
    /// One of zeros.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        let zero = match Lane::of(dtype.host_format()) {
            Some(Lane::I64) => Constant::Int(0),
            Some(Lane::Bool) => Constant::Bool(false),
            _ => Constant::Float(0.0),
        };
        let elements = vec![zero; shape.iter().product()];
        Self { dtype, shape: shape.to_vec(), elements }
    }

    /// One of these floats, each rounded to `dtype`.
    pub fn from_floats(dtype: DType, shape: &[usize], values: &[f64]) -> Self {
        let rounded = |&value| math::round(dtype, Lane::F64, Constant::Float(value));
        let elements = values.iter().filter_map(rounded).collect();
        Self { dtype, shape: shape.to_vec(), elements }
    }

    /// Its elements, if they are floats.
    pub fn floats(&self) -> Vec<f64> {
        let float = |constant: &Constant| match *constant {
            Constant::Float(value) => value,
            Constant::Int(value) => value as f64,
            Constant::Bool(value) => value.into(),
        };
        self.elements.iter().map(float).collect()
    }
}

impl Kernel {
    /// Carries it out, element by element, with these extents, scalars and tensors.
    ///
    /// ```
    /// use spyre_compiler::{Array, Kernel};
    /// use spyre_numerics::DType::Float32;
    ///
    /// let sums: Kernel = "kernel sums(i, j) {
    ///     in x: float32[i, j]
    ///     out y: float32[i]
    ///     y = sum<j>(x)
    /// }".parse()?;
    /// let x = Array::from_floats(Float32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    /// let mut arrays = [x, Array::zeros(Float32, &[2])];
    /// sums.interpret(&[2, 2], &[], &mut arrays)?;
    /// assert_eq!(arrays[1].floats(), [3.0, 7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interpret(
        &self,
        extents: &[usize],
        scalars: &[Constant],
        arrays: &mut [Array],
    ) -> Result<(), InterpretError> {
        self.check_given(extents, scalars, arrays)?;
        // Outputs are not loaded, and what is loaded is read before anything is stored.
        let inputs = arrays.to_vec();
        let mut evaluation =
            Evaluation { kernel: self, extents, scalars, arrays: &inputs, made: Vec::new() };
        for at in 0..self.values().len() {
            let made = evaluation.make(ValueId(at as u32))?;
            evaluation.made.push(made);
        }
        for store in self.stores() {
            evaluation.store(store, &mut arrays[store.operand.0 as usize])?;
        }
        Ok(())
    }

    fn check_given(
        &self,
        extents: &[usize],
        scalars: &[Constant],
        arrays: &[Array],
    ) -> Result<(), InterpretError> {
        let counts = [
            ("dims", self.dims().len(), extents.len()),
            ("scalars", self.scalars().len(), scalars.len()),
            ("operands", self.operands().len(), arrays.len()),
        ];
        for (what, expected, given) in counts {
            if expected != given {
                return Err(InterpretError::Count { what, expected, given });
            }
        }
        for (operand, array) in self.operands().iter().zip(arrays) {
            let name = || operand.name.clone();
            let extent = |dim: &DimId| extents[usize::from(dim.0)];
            let expected: Vec<usize> = operand.dims.iter().map(extent).collect();
            if expected != array.shape || expected.iter().product::<usize>() != array.elements.len()
            {
                let given = array.shape.clone();
                return Err(InterpretError::Shape { operand: name(), expected, given });
            }
            if operand.dtype != array.dtype {
                let expected = operand.dtype;
                let given = array.dtype;
                return Err(InterpretError::DType { operand: name(), expected, given });
            }
        }
        Ok(())
    }
}

/// Values of a kernel that are computed so far, and what they are computed from.
struct Evaluation<'a> {
    kernel: &'a Kernel,
    extents: &'a [usize],
    scalars: &'a [Constant],
    arrays: &'a [Array],
    /// Each value's elements over its span, the last dim fastest.
    made: Vec<Vec<Constant>>,
}

/// A coordinate along each of the kernel's dims.
type Point = [usize; DimSet::MOST];

impl Evaluation<'_> {
    fn make(&self, value: ValueId) -> Result<Vec<Constant>, InterpretError> {
        let kernel = self.kernel;
        let known = kernel.value(value);
        let lane = known.lane;
        let span = known.span;
        let each = |element: &dyn Fn(&Point) -> Result<Constant, InterpretError>| {
            self.points(span).iter().map(element).collect::<Result<Vec<_>, _>>()
        };
        match &known.expression {
            Expression::Constant(constant) => Ok(vec![math::convert(lane, *constant)]),
            Expression::Scalar(scalar) => Ok(vec![self.scalars[scalar.0 as usize]]),
            Expression::Index(dim) => {
                each(&|point| Ok(Constant::Int(point[usize::from(dim.0)] as i64)))
            }
            Expression::Size(dim) => {
                Ok(vec![Constant::Int(self.extents[usize::from(dim.0)] as i64)])
            }
            Expression::Load { operand, axes, otherwise } => {
                each(&|point| match (self.element(*operand, axes, point), otherwise) {
                    (Ok(at), _) => Ok(self.arrays[operand.0 as usize].elements[at]),
                    (Err(_), Some(other)) => Ok(self.at(*other, point)),
                    (Err(error), None) => Err(error),
                })
            }
            Expression::Unary(op, source) => each(&|point| {
                let source_lane = kernel.value(*source).lane;
                math::unary(*op, source_lane, self.at(*source, point))
                    .ok_or(InterpretError::DivisionByZero)
            }),
            Expression::Binary(op, left, right) => each(&|point| {
                math::binary(*op, lane, self.at(*left, point), self.at(*right, point))
                    .ok_or(InterpretError::DivisionByZero)
            }),
            Expression::Compare(op, left, right) => each(&|point| {
                let is_so = math::compare(*op, self.at(*left, point), self.at(*right, point));
                Ok(Constant::Bool(is_so))
            }),
            Expression::Select(condition, yes, no) => each(&|point| {
                let is_so = self.at(*condition, point) == Constant::Bool(true);
                Ok(self.at(if is_so { *yes } else { *no }, point))
            }),
            Expression::Convert(lane, source) => {
                each(&|point| Ok(math::convert(*lane, self.at(*source, point))))
            }
            Expression::Round(dtype, source) => each(&|point| {
                math::round(*dtype, lane, self.at(*source, point))
                    .ok_or(InterpretError::DivisionByZero)
            }),
            Expression::Reduce(op, dims, source) => each(&|point| {
                let start = math::neutral(*op, lane).ok_or(InterpretError::DivisionByZero)?;
                let step = math::step(*op).ok_or(InterpretError::DivisionByZero)?;
                // Sums of singles are carried along in double.
                let wide = if lane == Lane::F32 { Lane::F64 } else { lane };
                let total = self.points_from(*dims, point).iter().try_fold(start, |sum, inner| {
                    math::binary(step, wide, sum, self.at(*source, inner))
                });
                let total = total.ok_or(InterpretError::DivisionByZero)?;
                Ok(math::convert(lane, total))
            }),
            Expression::Scan(op, dim, source) => self.scanned(*op, *dim, *source),
            Expression::Seek(seek, dim, source) => Ok(self.sought(*seek, *dim, *source)),
            Expression::Sort(op, dim, source) => Ok(self.sorted(*op, *dim, *source)),
            Expression::Random { word, seed, offset, index } => each(&|point| {
                let words = [*seed, *offset, *index].map(|value| match self.at(value, point) {
                    Constant::Int(word) => word.cast_unsigned(),
                    _ => 0,
                });
                Ok(Constant::Int(philox::word(*word, words).into()))
            }),
        }
    }

    fn store(&self, store: &Store, array: &mut Array) -> Result<(), InterpretError> {
        let lane = self.kernel.value(store.value).lane;
        for point in self.points(self.kernel.store_span(store)) {
            let is_wanted = |value| self.at(value, &point) == Constant::Bool(true);
            if !store.condition.is_none_or(is_wanted) {
                continue;
            }
            let at = self.element(store.operand, &store.axes, &point)?;
            let value = self.at(store.value, &point);
            let combined = match store.mode.step() {
                Some(op) => math::binary(op, lane, math::convert(lane, array.elements[at]), value),
                None => Some(value),
            };
            let rounded = combined.and_then(|value| math::round(array.dtype, lane, value));
            let rounded = rounded.ok_or(InterpretError::DivisionByZero)?;
            let own = Lane::of(array.dtype.host_format()).unwrap_or(lane);
            array.elements[at] = math::convert(own, rounded);
        }
        Ok(())
    }

    /// Returns the index of the element at these coordinates, among a tensor's elements.
    fn element(
        &self,
        operand: OperandId,
        axes: &[ValueId],
        point: &Point,
    ) -> Result<usize, InterpretError> {
        let known = self.kernel.operand(operand);
        let mut at = 0;
        for (dim, (&axis, own)) in axes.iter().zip(&known.dims).enumerate() {
            let size = self.extents[usize::from(own.0)];
            let Constant::Int(index) = self.at(axis, point) else { continue };
            let place = usize::try_from(index).ok().filter(|&place| place < size);
            let operand = || known.name.clone();
            let place = place.ok_or_else(|| InterpretError::IndexOutOfRange {
                operand: operand(),
                dim,
                index,
                size,
            })?;
            at = at * size + place;
        }
        Ok(at)
    }

    /// A value at a point.
    fn at(&self, value: ValueId, point: &Point) -> Constant {
        let span = self.kernel.value(value).span;
        self.made[value.0 as usize][self.place(span, point)]
    }

    /// Returns the index of a point among all points of a span.
    fn place(&self, span: DimSet, point: &Point) -> usize {
        span.iter()
            .fold(0, |at, dim| at * self.extents[usize::from(dim.0)] + point[usize::from(dim.0)])
    }

    /// All points of a span.
    fn points(&self, span: DimSet) -> Vec<Point> {
        self.points_from(span, &[0; DimSet::MOST])
    }

    /// All points along some dims, elsewhere the same.
    fn points_from(&self, span: DimSet, start: &Point) -> Vec<Point> {
        let mut points = vec![*start];
        for dim in span.iter() {
            let dim = usize::from(dim.0);
            let extent = self.extents[dim];
            let along = |point: Point| {
                (0..extent).map(move |at| {
                    let mut point = point;
                    point[dim] = at;
                    point
                })
            };
            points = points.into_iter().flat_map(along).collect();
        }
        points
    }
}
