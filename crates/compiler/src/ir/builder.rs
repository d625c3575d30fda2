use std::collections::HashSet;

use spyre_artifact::{BinaryOp, CompareOp, Constant, Lane, OrderOp, ReduceOp, ScanOp, UnaryOp};
use spyre_numerics::DType;

use super::{
    DimId, DimSet, Expression, Kernel, Operand, OperandId, Refusal, Role, Scalar, ScalarId, Seek,
    Store, StoreMode, Value, ValueId,
};
use crate::text::is_name;

/// Puts a [`Kernel`] together, and refuses at once what cannot be part of one.
///
/// ```
/// use spyre_artifact::BinaryOp;
/// use spyre_compiler::{KernelBuilder, Role};
/// use spyre_numerics::DType;
///
/// let mut kernel = KernelBuilder::new("double");
/// let i = kernel.dim("i")?;
/// let x = kernel.operand("x", Role::In, DType::Float32, &[i])?;
/// let y = kernel.operand("y", Role::Out, DType::Float32, &[i])?;
/// let value = kernel.load(x)?;
/// let sum = kernel.binary(BinaryOp::Add, value, value)?;
/// kernel.store(y, sum)?;
/// assert_eq!(
///     kernel.build()?.to_string(),
///     "\
/// kernel double(i) {
///     in x: float32[i]
///     out y: float32[i]
///     y = x + x
/// }
/// "
/// );
/// # Ok::<(), spyre_compiler::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    /// All that were given, to dims, operands, scalars and values.
    names: HashSet<String>,
}

impl KernelBuilder {
    /// One with nothing in it.
    pub fn new(name: &str) -> Self {
        let kernel = Kernel {
            name: name.to_owned(),
            dims: Vec::new(),
            operands: Vec::new(),
            scalars: Vec::new(),
            values: Vec::new(),
            stores: Vec::new(),
        };
        Self { kernel, names: HashSet::new() }
    }

    /// A dim, or only an extent.
    pub fn dim(&mut self, name: &str) -> Result<DimId, Refusal> {
        self.check_name(name)?;
        if self.kernel.dims.len() >= DimSet::MOST {
            return Err(Refusal::TooManyDims { most: DimSet::MOST });
        }
        let name = self.take_name(name);
        self.kernel.dims.push(name);
        Ok(DimId((self.kernel.dims.len() - 1) as u8))
    }

    /// A tensor.
    pub fn operand(
        &mut self,
        name: &str,
        role: Role,
        dtype: DType,
        dims: &[DimId],
    ) -> Result<OperandId, Refusal> {
        self.check_name(name)?;
        lane_of(dtype)?;
        dims.iter().try_for_each(|&dim| self.check_dim(dim))?;
        let name = self.take_name(name);
        let dims = dims.to_vec();
        self.kernel.operands.push(Operand { name, role, dtype, dims });
        Ok(OperandId((self.kernel.operands.len() - 1) as u32))
    }

    /// A number that a launch is given.
    pub fn scalar_input(&mut self, name: &str, lane: Lane) -> Result<ScalarId, Refusal> {
        self.check_name(name)?;
        let name = self.take_name(name);
        self.kernel.scalars.push(Scalar { name, lane });
        Ok(ScalarId((self.kernel.scalars.len() - 1) as u32))
    }

    /// Gives a value a name, under which the text has a line for it.
    pub fn name(&mut self, value: ValueId, name: &str) -> Result<(), Refusal> {
        self.check_name(name)?;
        self.value(value)?;
        let name = self.take_name(name);
        if let Some(before) = self.kernel.values[value.0 as usize].name.replace(name) {
            self.names.remove(&before);
        }
        Ok(())
    }

    /// Keeps a name for the caller: no value gets it.
    pub(crate) fn reserve(&mut self, name: &str) -> Result<(), Refusal> {
        self.check_name(name)?;
        self.take_name(name);
        Ok(())
    }

    /// Adds a constant: one number everywhere.
    pub fn constant(&mut self, lane: Lane, value: Constant) -> Result<ValueId, Refusal> {
        if !value.fits(lane) {
            return Err(Refusal::Lane { operation: format!("{value:?}"), lane });
        }
        Ok(self.add(Expression::Constant(value), lane, DimSet::NONE))
    }

    /// A number that a launch is given.
    pub fn scalar(&mut self, scalar: ScalarId) -> Result<ValueId, Refusal> {
        let given = self.kernel.scalars.get(scalar.0 as usize);
        let lane = given.ok_or(Refusal::Foreign { name: "scalar", number: scalar.0 })?.lane;
        Ok(self.add(Expression::Scalar(scalar), lane, DimSet::NONE))
    }

    /// The coordinate along a dim.
    pub fn index(&mut self, dim: DimId) -> Result<ValueId, Refusal> {
        self.check_dim(dim)?;
        Ok(self.add(Expression::Index(dim), Lane::I64, DimSet::NONE.with(dim)))
    }

    /// The extent of a dim.
    pub fn size(&mut self, dim: DimId) -> Result<ValueId, Refusal> {
        self.check_dim(dim)?;
        Ok(self.add(Expression::Size(dim), Lane::I64, DimSet::NONE))
    }

    /// The element at the coordinates of the tensor's own dims.
    pub fn load(&mut self, operand: OperandId) -> Result<ValueId, Refusal> {
        let axes = self.own_axes(operand)?;
        self.load_at(operand, axes, None)
    }

    /// The element at these coordinates; outside, the other value.
    pub fn load_at(
        &mut self,
        operand: OperandId,
        axes: Vec<ValueId>,
        otherwise: Option<ValueId>,
    ) -> Result<ValueId, Refusal> {
        let known = self.find(operand)?;
        if !known.role.is_read() {
            return Err(Refusal::NotRead { operand: known.name.clone() });
        }
        let lane = lane_of(known.dtype)?;
        let mut span = self.check_axes(operand, &axes)?;
        if let Some(other) = otherwise {
            let other = self.value(other)?;
            if other.lane != lane {
                let operation = "else".to_owned();
                return Err(Refusal::Lanes { operation, left: lane, right: other.lane });
            }
            span = span | other.span;
        }
        Ok(self.add(Expression::Load { operand, axes, otherwise }, lane, span))
    }

    /// One value in, one out.
    pub fn unary(&mut self, op: UnaryOp, source: ValueId) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.value(source)?;
        let result = op.result(lane);
        let result = result.ok_or_else(|| Refusal::Lane { operation: op.to_string(), lane })?;
        Ok(self.add(Expression::Unary(op, source), result, span))
    }

    /// Two values in, one out.
    pub fn binary(
        &mut self,
        op: BinaryOp,
        left: ValueId,
        right: ValueId,
    ) -> Result<ValueId, Refusal> {
        let (lane, span) = self.pair(op.name(), left, right)?;
        let result = op.result(lane);
        let result = result.ok_or_else(|| Refusal::Lane { operation: op.to_string(), lane })?;
        Ok(self.add(Expression::Binary(op, left, right), result, span))
    }

    /// Two values in, a truth value out.
    pub fn compare(
        &mut self,
        op: CompareOp,
        left: ValueId,
        right: ValueId,
    ) -> Result<ValueId, Refusal> {
        let (_, span) = self.pair(op.name(), left, right)?;
        Ok(self.add(Expression::Compare(op, left, right), Lane::Bool, span))
    }

    /// `yes` where the condition is true, `no` elsewhere.
    pub fn select(
        &mut self,
        condition: ValueId,
        yes: ValueId,
        no: ValueId,
    ) -> Result<ValueId, Refusal> {
        let asked = self.check_condition(condition)?;
        let (lane, span) = self.pair("where", yes, no)?;
        Ok(self.add(Expression::Select(condition, yes, no), lane, asked | span))
    }

    /// Converts a value to a lane. One that is of this lane is its own result.
    pub fn convert(&mut self, lane: Lane, source: ValueId) -> Result<ValueId, Refusal> {
        let &Value { lane: known, span, .. } = self.value(source)?;
        if known == lane {
            return Ok(source);
        }
        Ok(self.add(Expression::Convert(lane, source), lane, span))
    }

    /// Rounds a value to what a store as `dtype` and a load would give.
    pub fn round(&mut self, dtype: DType, source: ValueId) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.value(source)?;
        if !lane.fits(dtype.host_format()) {
            return Err(Refusal::Stored { dtype, lane });
        }
        Ok(self.add(Expression::Round(dtype, source), lane, span))
    }

    /// Reduces a value over all coordinates along these dims.
    pub fn reduce(
        &mut self,
        op: ReduceOp,
        dims: DimSet,
        source: ValueId,
    ) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.value(source)?;
        if !op.takes(lane) {
            return Err(Refusal::Lane { operation: op.to_string(), lane });
        }
        self.check_along(op.name(), dims, span)?;
        Ok(self.add(Expression::Reduce(op, dims, source), lane, span.minus(dims)))
    }

    /// Scans a value: over the coordinates up to this one along a dim.
    pub fn scan(&mut self, op: ScanOp, dim: DimId, source: ValueId) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.value(source)?;
        if !op.takes(lane) {
            return Err(Refusal::Lane { operation: op.name().to_owned(), lane });
        }
        self.check_along(op.name(), DimSet::NONE.with(dim), span)?;
        Ok(self.add(Expression::Scan(op, dim, source), lane, span))
    }

    /// A coordinate along a dim.
    pub fn seek(&mut self, seek: Seek, dim: DimId, source: ValueId) -> Result<ValueId, Refusal> {
        let span = self.value(source)?.span;
        self.check_along(seek.name(), DimSet::NONE.with(dim), span)?;
        let span = if seek.is_reduction() { span.without(dim) } else { span };
        Ok(self.add(Expression::Seek(seek, dim, source), Lane::I64, span))
    }

    /// All elements along a dim, sorted.
    pub fn sort(&mut self, op: OrderOp, dim: DimId, source: ValueId) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.value(source)?;
        self.check_along(sort_name(op), DimSet::NONE.with(dim), span)?;
        Ok(self.add(Expression::Sort(op, dim, source), lane, span))
    }

    /// 32 random bits, as a number from 0: one of four words (0 to 3) that an index has.
    pub fn random(
        &mut self,
        seed: ValueId,
        offset: ValueId,
        index: ValueId,
        word: u8,
    ) -> Result<ValueId, Refusal> {
        if word > 3 {
            return Err(Refusal::RandomWord { word: word.into() });
        }
        let mut span = DimSet::NONE;
        for source in [seed, offset, index] {
            let known = self.value(source)?;
            if known.lane != Lane::I64 {
                return Err(Refusal::Lane { operation: "random".to_owned(), lane: known.lane });
            }
            span = span | known.span;
        }
        Ok(self.add(Expression::Random { word, seed, offset, index }, Lane::I64, span))
    }

    /// A value for every place of a tensor.
    pub fn store(&mut self, operand: OperandId, value: ValueId) -> Result<(), Refusal> {
        let axes = self.own_axes(operand)?;
        self.store_at(Store { operand, axes, value, mode: StoreMode::Set, condition: None })
    }

    /// A value for some places of a tensor.
    pub fn store_at(&mut self, store: Store) -> Result<(), Refusal> {
        let known = self.find(store.operand)?;
        let name = known.name.clone();
        let dtype = known.dtype;
        if !known.role.is_written() {
            return Err(Refusal::NotWritten { operand: name });
        }
        let places = self.check_axes(store.operand, &store.axes)?;
        let &Value { lane, span, .. } = self.value(store.value)?;
        if !lane.fits(dtype.host_format()) {
            return Err(Refusal::Stored { dtype, lane });
        }
        if let Some(op) = store.mode.step()
            && op.result(lane).is_none()
        {
            return Err(Refusal::Lane { operation: store.mode.sign().to_owned(), lane });
        }
        let asked = match store.condition {
            Some(condition) => self.check_condition(condition)?,
            None => DimSet::NONE,
        };
        let beyond = (span | asked).minus(places).iter().next();
        if let Some(dim) = beyond.filter(|_| store.mode == StoreMode::Set) {
            let dim = self.kernel.dim_name(dim).to_owned();
            return Err(Refusal::ManyValues { operand: name, dim });
        }
        self.kernel.stores.push(store);
        Ok(())
    }

    /// The kernel, if every output is stored to.
    pub fn build(self) -> Result<Kernel, Refusal> {
        let stored: HashSet<OperandId> =
            self.kernel.stores.iter().map(|store| store.operand).collect();
        let is_stored = |at: usize| stored.contains(&OperandId(at as u32));
        let missing = (0..self.kernel.operands.len())
            .find(|&at| self.kernel.operands[at].role.is_written() && !is_stored(at));
        match missing {
            Some(at) => {
                Err(Refusal::NeverStored { operand: self.kernel.operands[at].name.clone() })
            }
            None => Ok(self.kernel),
        }
    }

    /// The coordinates of a tensor's own dims.
    pub fn own_axes(&mut self, operand: OperandId) -> Result<Vec<ValueId>, Refusal> {
        let dims = self.find(operand)?.dims.clone();
        dims.into_iter().map(|dim| self.index(dim)).collect()
    }

    /// Returns the kernel as it is so far.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// One of the values.
    pub fn value(&self, value: ValueId) -> Result<&Value, Refusal> {
        let found = self.kernel.values.get(value.0 as usize);
        found.ok_or(Refusal::Foreign { name: "value", number: value.0 })
    }

    fn add(&mut self, expression: Expression, lane: Lane, span: DimSet) -> ValueId {
        self.kernel.values.push(Value { expression, lane, span, name: None });
        ValueId((self.kernel.values.len() - 1) as u32)
    }

    fn find(&self, operand: OperandId) -> Result<&Operand, Refusal> {
        let found = self.kernel.operands.get(operand.0 as usize);
        found.ok_or(Refusal::Foreign { name: "operand", number: operand.0 })
    }

    fn pair(
        &self,
        operation: &str,
        left: ValueId,
        right: ValueId,
    ) -> Result<(Lane, DimSet), Refusal> {
        let left = self.value(left)?;
        let right = self.value(right)?;
        if left.lane != right.lane {
            let left = left.lane;
            let right = right.lane;
            return Err(Refusal::Lanes { operation: operation.to_owned(), left, right });
        }
        Ok((left.lane, left.span | right.span))
    }

    fn check_condition(&self, condition: ValueId) -> Result<DimSet, Refusal> {
        let &Value { lane, span, .. } = self.value(condition)?;
        if lane == Lane::Bool { Ok(span) } else { Err(Refusal::Condition { lane }) }
    }

    fn check_axes(&self, operand: OperandId, axes: &[ValueId]) -> Result<DimSet, Refusal> {
        let known = self.find(operand)?;
        let expected = known.dims.len();
        let given = axes.len();
        if expected != given {
            let operand = known.name.clone();
            return Err(Refusal::AxisCount { operand, expected, given });
        }
        let mut span = DimSet::NONE;
        for &axis in axes {
            let axis = self.value(axis)?;
            if axis.lane != Lane::I64 {
                return Err(Refusal::Axis { lane: axis.lane });
            }
            span = span | axis.span;
        }
        Ok(span)
    }

    fn check_along(&self, operation: &str, dims: DimSet, span: DimSet) -> Result<(), Refusal> {
        let operation = || operation.to_owned();
        dims.iter().try_for_each(|dim| self.check_dim(dim))?;
        if dims.is_empty() {
            return Err(Refusal::NoDims { operation: operation() });
        }
        match dims.minus(span).iter().next() {
            None => Ok(()),
            Some(dim) => {
                let dim = self.kernel.dim_name(dim).to_owned();
                Err(Refusal::NotAlong { operation: operation(), dim })
            }
        }
    }

    fn check_dim(&self, dim: DimId) -> Result<(), Refusal> {
        if usize::from(dim.0) < self.kernel.dims.len() {
            Ok(())
        } else {
            Err(Refusal::Foreign { name: "dim", number: dim.0.into() })
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        if !is_name(name) {
            return Err(Refusal::BadName { name: name.to_owned() });
        }
        if self.names.contains(name) {
            Err(Refusal::NameTaken { name: name.to_owned() })
        } else {
            Ok(())
        }
    }

    /// Reserves a name: nothing else is called so from now on.
    fn take_name(&mut self, name: &str) -> String {
        self.names.insert(name.to_owned());
        name.to_owned()
    }
}

/// Returns the name of a sort in the text form.
pub(crate) fn sort_name(op: OrderOp) -> &'static str {
    match op {
        OrderOp::Descending => "sort_descending",
        _ => "sort",
    }
}

fn lane_of(dtype: DType) -> Result<Lane, Refusal> {
    Lane::of(dtype.host_format()).ok_or(Refusal::NoLane { dtype })
}
