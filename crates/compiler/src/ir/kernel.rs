use spyre_artifact::{BinaryOp, Lane};
use spyre_numerics::DType;

use super::{DimId, DimSet, Expression, OperandId, ScalarId, ValueId};

/// Computation for every place of some tensors. [`KernelBuilder`](super::KernelBuilder) makes one, or
/// its text does; either way it is checked:
///
/// 1. Names are used once, of dims, operands, scalars and values alike.
/// 2. Values come after what they are made from, and their lanes are what the operation takes.
/// 3. Inputs are not stored to, outputs are not loaded, and every output is stored to.
/// 4. What is reduced, scanned, sought or sorted along a dim differs along it.
/// 5. A store that sets gives each place one value: what differs along a dim goes to places that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub(super) name: String,
    pub(super) dims: Vec<String>,
    pub(super) operands: Vec<Operand>,
    pub(super) scalars: Vec<Scalar>,
    pub(super) values: Vec<Value>,
    pub(super) stores: Vec<Store>,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name in the text.
    pub name: String,
    /// Accesses that the kernel may make.
    pub role: Role,
    /// Dtype of its elements.
    pub dtype: DType,
    /// Dims whose extents are its lengths along each of its dimensions.
    pub dims: Vec<DimId>,
}

/// Accesses of a kernel to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is read.
    In,
    /// It is written.
    Out,
    /// It is read first and written then.
    InOut,
}

/// A number that a launch is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Name in the text.
    pub name: String,
    /// Lane of the number.
    pub lane: Lane,
}

/// Result of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Expression that computes it.
    pub expression: Expression,
    /// Lane of its elements.
    pub lane: Lane,
    /// The dims along which it differs.
    pub span: DimSet,
    /// Name in the text, if it has one.
    pub name: Option<String>,
}

/// A value's way into a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Tensor that is stored to.
    pub operand: OperandId,
    /// An `i64` for each of its dims. Past either end is a data fault.
    pub axes: Vec<ValueId>,
    /// Value that is stored.
    pub value: ValueId,
    /// Combination with the element that is there.
    pub mode: StoreMode,
    /// Condition under which the value is stored; without one, it always is.
    pub condition: Option<ValueId>,
}

/// Combination of a stored value with the element that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreMode {
    /// It is gone. Of several values for one place, the one of the last coordinates stays.
    Set,
    /// They are added.
    Add,
    /// They are multiplied.
    Multiply,
    /// The smaller one stays; NaN wins.
    Min,
    /// The larger one stays; NaN wins.
    Max,
}

impl Kernel {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its dims.
    pub fn dims(&self) -> &[String] {
        &self.dims
    }

    /// Its tensors.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// The numbers that a launch is given.
    pub fn scalars(&self) -> &[Scalar] {
        &self.scalars
    }

    /// Its values: each comes after what it is made from.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Its stores, in their order.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// A dim's name.
    pub fn dim_name(&self, dim: DimId) -> &str {
        &self.dims[usize::from(dim.0)]
    }

    /// One of its values.
    pub fn value(&self, value: ValueId) -> &Value {
        &self.values[value.0 as usize]
    }

    /// One of its tensors.
    pub fn operand(&self, operand: OperandId) -> &Operand {
        &self.operands[operand.0 as usize]
    }

    /// One of its scalars.
    pub fn scalar(&self, scalar: ScalarId) -> &Scalar {
        &self.scalars[scalar.0 as usize]
    }

    /// Returns true if every element of a tensor is written, whatever was there.
    pub fn writes_all_of(&self, operand: OperandId) -> bool {
        let dims = &self.operand(operand).dims;
        self.operand(operand).role == Role::Out
            && self.stores.iter().filter(|store| store.operand == operand).any(|store| {
                let is_own = |(&axis, &dim): (&ValueId, &DimId)| {
                    self.value(axis).expression == Expression::Index(dim)
                };
                store.mode == StoreMode::Set
                    && store.condition.is_none()
                    && store.axes.iter().zip(dims).all(is_own)
            })
    }

    /// The dims that a store goes over.
    pub fn store_span(&self, store: &Store) -> DimSet {
        let parts = store.axes.iter().chain([&store.value]).chain(&store.condition);
        parts.fold(DimSet::NONE, |span, &value| span | self.value(value).span)
    }
}

impl Role {
    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "inout",
        }
    }

    /// Returns true if it may be loaded.
    pub fn is_read(self) -> bool {
        self != Self::Out
    }

    /// Returns true if it may be stored to.
    pub fn is_written(self) -> bool {
        self != Self::In
    }
}

impl StoreMode {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Set, Self::Add, Self::Multiply, Self::Min, Self::Max];

    /// Its sign in the text form.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Set => "=",
            Self::Add => "+=",
            Self::Multiply => "*=",
            Self::Min => "min=",
            Self::Max => "max=",
        }
    }

    /// Returns the operation that combines a stored value with the element that is there.
    pub fn step(self) -> Option<BinaryOp> {
        match self {
            Self::Set => None,
            Self::Add => Some(BinaryOp::Add),
            Self::Multiply => Some(BinaryOp::Mul),
            Self::Min => Some(BinaryOp::Min),
            Self::Max => Some(BinaryOp::Max),
        }
    }
}
