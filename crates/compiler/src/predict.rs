//! Prediction of the time that kernels would take on a real card.

mod pattern;

use spyre_artifact::cost::{self, CardTime, CostBreakdown, ErrorBand, Work};
use spyre_artifact::{Intermediate, IntermediateDim};
use thiserror::Error;

use crate::lower::is_partial;
use crate::{CompileError, CompileOptions, DimSet, Expression, Kernel, Operand, OperandId};

/// Time that a kernel would take on a real card, by a model that was fitted to measured kernels; see
/// [`spyre_artifact::cost`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Work of the kernel: bytes and products.
    pub work: Work,
    /// Time that the work takes.
    pub time: CardTime,
    /// Error band of that time.
    pub error: ErrorBand,
    /// Number of programs that run: one for each step and tile.
    pub launches: u64,
}

impl Prediction {
    /// Returns the cost of one launch on a card whose memory the tensors are in.
    pub fn cost(&self) -> CostBreakdown {
        let launches = self.launches.saturating_mul(cost::launch());
        CostBreakdown { kernels: self.work.nanoseconds(), launches, ..CostBreakdown::default() }
    }
}

/// Reason why nothing is predicted.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PredictError {
    #[error("dim `{dim}` has no extent: give one for each of {}", dims.join(", "))]
    NoExtent { dim: String, dims: Vec<String> },
    #[error("there is no dim `{dim}`: the kernel has {}", dims.join(", "))]
    NoDim { dim: String, dims: Vec<String> },
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl Kernel {
    /// Predicts the time that the kernel would take on a real card, with dims of these extents. Its
    /// tensors are there: no transfer is counted. [`Prediction::cost`] counts launches, of which only
    /// assumptions are known.
    ///
    /// ```
    /// use spyre_compiler::{CompileOptions, Kernel};
    ///
    /// let softmax: Kernel = "
    /// kernel softmax(rows, columns) {
    ///     in x: float16[rows, columns]
    ///     out y: float16[rows, columns]
    ///     e = exp(x - max<columns>(x))
    ///     y = e / sum<columns>(e)
    /// }".parse()?;
    /// let extents = [("rows", 4096), ("columns", 2048)];
    /// let predicted = softmax.predict(&CompileOptions::default(), &extents)?;
    /// assert_eq!(format!("{:.1}", predicted.time.total() / 1000.0), "320.0"); // us
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn predict(
        &self,
        options: &CompileOptions,
        extents: &[(&str, u64)],
    ) -> Result<Prediction, PredictError> {
        let sizes = Sizes::new(self, options, extents)?;
        let pattern = pattern::of(self, &sizes);
        let mut work = Work { pattern, products: sizes.products(), ..Work::default() };
        for (at, operand) in (0..).zip(self.operands()) {
            let bytes = sizes.bytes(operand)?;
            if operand.role.is_read() {
                work.read_bytes = add(work.read_bytes, bytes.min(sizes.loaded(OperandId(at))));
            }
            if operand.role.is_written() {
                work.written_bytes =
                    add(work.written_bytes, bytes.min(sizes.stored(OperandId(at))));
            }
        }
        let plan = self.compile(options)?;
        for kept in plan.intermediates.iter().filter(|kept| !is_partial(kept)) {
            let bytes = sizes.of(kept)?;
            work.read_bytes = add(work.read_bytes, bytes);
            work.written_bytes = add(work.written_bytes, bytes);
        }
        let launches = plan.launches(|name| sizes.extent(name));
        Ok(Prediction { work, time: work.time(), error: pattern.error(), launches })
    }
}

fn add(left: u64, right: u64) -> u64 {
    left.saturating_add(right)
}

/// A kernel whose dims have extents.
struct Sizes<'a> {
    kernel: &'a Kernel,
    options: &'a CompileOptions,
    extents: Vec<u64>,
}

impl<'a> Sizes<'a> {
    fn new(
        kernel: &'a Kernel,
        options: &'a CompileOptions,
        given: &[(&str, u64)],
    ) -> Result<Self, PredictError> {
        let dims = || kernel.dims().to_vec();
        if let Some((name, _)) =
            given.iter().find(|(name, _)| !dims().iter().any(|dim| dim == name))
        {
            return Err(PredictError::NoDim { dim: (*name).to_owned(), dims: dims() });
        }
        let extent = |dim: &String| {
            let found = given.iter().rev().find(|(name, _)| name == dim);
            let missing = || PredictError::NoExtent { dim: dim.clone(), dims: dims() };
            found.map(|(_, extent)| *extent).ok_or_else(missing)
        };
        let extents = kernel.dims().iter().map(extent).collect::<Result<_, _>>()?;
        Ok(Self { kernel, options, extents })
    }

    /// Coordinates of some dims.
    fn places(&self, dims: DimSet) -> u64 {
        let extents = dims.iter().map(|dim| self.extents[usize::from(dim.0)]);
        extents.fold(1, u64::saturating_mul)
    }

    /// Device bytes of a tensor, in whole sticks.
    fn bytes(&self, operand: &Operand) -> Result<u64, PredictError> {
        let format = self.options.profile.supported_format(operand.dtype);
        let named = |&dim| IntermediateDim::Named(self.kernel.dim_name(dim).to_owned());
        self.of(&Intermediate {
            name: operand.name.clone(),
            format: format.map_err(CompileError::from)?,
            dims: operand.dims.iter().map(named).collect(),
        })
    }

    fn extent(&self, name: &str) -> Option<u64> {
        let at = self.kernel.dims().iter().position(|dim| dim == name)?;
        Some(self.extents[at])
    }

    fn of(&self, tensor: &Intermediate) -> Result<u64, PredictError> {
        Ok(tensor.bytes(|name| self.extent(name)).map_err(CompileError::from)?)
    }

    /// The most bytes that loads bring: those at coordinates of their own bring one element each.
    fn loaded(&self, operand: OperandId) -> u64 {
        let loads = self.kernel.values().iter().filter_map(|value| match &value.expression {
            Expression::Load { operand: of, axes, .. } if *of == operand => {
                Some(self.touched(operand, axes, value.span))
            }
            _ => None,
        });
        let kept = self.kernel.stores().iter().any(|store| store.operand == operand);
        loads.fold(if kept { self.stored(operand) } else { 0 }, u64::saturating_add)
    }

    /// The most bytes that stores write.
    fn stored(&self, operand: OperandId) -> u64 {
        let stores = self.kernel.stores().iter().filter(|store| store.operand == operand);
        let bytes =
            stores.map(|store| self.touched(operand, &store.axes, self.kernel.store_span(store)));
        bytes.fold(0, u64::saturating_add)
    }

    fn touched(&self, operand: OperandId, axes: &[crate::ValueId], span: DimSet) -> u64 {
        let known = self.kernel.operand(operand);
        let is_own = axes
            .iter()
            .zip(&known.dims)
            .all(|(&axis, &dim)| self.kernel.value(axis).expression == Expression::Index(dim));
        let bytes = known.dtype.host_format().element_bytes().unwrap_or(1) as u64;
        if is_own { u64::MAX } else { self.places(span).saturating_mul(bytes) }
    }

    /// Multiplications of matrix products.
    fn products(&self) -> u64 {
        let products = pattern::products(self.kernel);
        products
            .map(|product| self.places(product.spans[0] | product.spans[1]))
            .fold(0, u64::saturating_add)
    }
}
