//! Loads and stores. Where loops walk over a tensor as it lies, they are loads and stores of tiles;
//! every other coordinate is a value like any other, and goes into a gather or a scatter.

use std::collections::HashSet;

use spyre_artifact::{
    Access, Constant, Coordinate, Coordinates, Dim, Lane, Operand as ProgramOperand,
    ProgramBuilder, Register, ScatterOp,
};

use super::CompileError;
use super::nest::{Blocked, Nest};
use crate::{DimId, DimSet, Expression, Kernel, OperandId, Role, Store, StoreMode, ValueId};

/// The program's dims: those of the kernel that tensors have, and those of axes that have one again.
pub(super) struct Axes {
    /// The program's dim for each dim of the kernel.
    pub(super) dims: [Option<Dim>; DimSet::MOST],
    /// The program's dims for each operand, by axis.
    of_operands: Vec<Vec<Dim>>,
    /// The name of each, in order.
    pub(super) names: Vec<String>,
}

impl Axes {
    pub(super) fn of(kernel: &Kernel, used: DimSet, code: &mut ProgramBuilder) -> Self {
        let mut dims = [None; DimSet::MOST];
        used.iter().for_each(|dim| dims[usize::from(dim.0)] = Some(code.dim()));
        let names = used.iter().map(|dim| kernel.dim_name(dim).to_owned()).collect();
        let mut axes = Self { dims, of_operands: Vec::new(), names };
        let mut again: Vec<(String, Dim)> = Vec::new();
        for (at, operand) in kernel.operands().iter().enumerate() {
            let is_apart = !is_walked_only(kernel, OperandId(at as u32));
            let mut own: Vec<Dim> = Vec::new();
            for (axis, &dim) in operand.dims.iter().enumerate() {
                let first = dims[usize::from(dim.0)].expect("a dim of a tensor");
                let is_again = is_apart && operand.dims[..axis].contains(&dim);
                let name = format!("{} of axis {axis}", kernel.dim_name(dim));
                let known = again.iter().find(|(known, _)| *known == name).map(|(_, dim)| *dim);
                own.push(match (is_again, known) {
                    (false, _) => first,
                    (true, Some(dim)) => dim,
                    (true, None) => {
                        let dim = code.dim();
                        again.push((name.clone(), dim));
                        axes.names.push(name);
                        dim
                    }
                });
            }
            axes.of_operands.push(own);
        }
        axes
    }

    /// The dims that move an operand along its axes.
    pub(super) fn of_operand(&self, operand: OperandId) -> &[Dim] {
        &self.of_operands[operand.0 as usize]
    }

    /// The names of those dims.
    pub(super) fn names_of(&self, operand: OperandId) -> impl Iterator<Item = &str> {
        self.of_operand(operand).iter().map(|dim| self.names[dim.index()].as_str())
    }

    /// Returns true if loops walk along this axis where the coordinate is this value.
    fn is_along(&self, kernel: &Kernel, operand: OperandId, axis: usize, at: ValueId) -> bool {
        let own = kernel.operand(operand).dims[axis];
        let is_first = self.dims[usize::from(own.0)] == Some(self.of_operand(operand)[axis]);
        is_first && kernel.value(at).expression == Expression::Index(own)
    }
}

/// Returns true if all accesses of a tensor are at the coordinates of its own dims.
pub(super) fn is_walked_only(kernel: &Kernel, operand: OperandId) -> bool {
    let loads = kernel.values().iter().filter_map(|value| match &value.expression {
        Expression::Load { operand: of, axes, .. } if *of == operand => Some(axes),
        _ => None,
    });
    let stores = kernel.stores().iter().filter(|store| store.operand == operand);
    let mut all = loads.chain(stores.map(|store| &store.axes));
    all.all(|axes| is_own(kernel, operand, axes))
}

/// Returns true if loops walk over a tensor where it is accessed at these coordinates. If it has a dim
/// twice, no other access of it may be at other coordinates.
pub(super) fn is_walked(kernel: &Kernel, operand: OperandId, axes: &[ValueId]) -> bool {
    let dims = &kernel.operand(operand).dims;
    let is_once = dims.iter().copied().collect::<DimSet>().iter().count() == dims.len();
    is_own(kernel, operand, axes) && (is_once || is_walked_only(kernel, operand))
}

/// Returns true if coordinates are those of the tensor's own dims.
fn is_own(kernel: &Kernel, operand: OperandId, axes: &[ValueId]) -> bool {
    let is_index =
        |(&axis, &dim): (&ValueId, &DimId)| kernel.value(axis).expression == Expression::Index(dim);
    axes.iter().zip(&kernel.operand(operand).dims).all(is_index)
}

/// Returns true if a value is made from elements that loops do not walk over.
pub(super) fn is_gathered(kernel: &Kernel, value: ValueId) -> bool {
    let mut seen = HashSet::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        if !seen.insert(value) {
            continue;
        }
        let expression = &kernel.value(value).expression;
        if let Expression::Load { operand, axes, .. } = expression
            && !is_walked(kernel, *operand, axes)
        {
            return true;
        }
        rest.extend(expression.sources());
    }
    false
}

/// Returns the access of a program to a tensor.
pub(super) fn access(kernel: &Kernel, operand: OperandId) -> Access {
    let combines = |store: &Store| store.operand == operand && store.mode != StoreMode::Set;
    match kernel.operand(operand).role {
        Role::In => Access::Read,
        Role::Out if !kernel.stores().iter().any(combines) => Access::Write,
        Role::Out | Role::InOut => Access::Both,
    }
}

/// Loads that later tiles would find changed: of tensors that are stored to, where either is not at
/// the coordinates of its own dims. They must be kept before anything is stored.
pub(super) fn overtaken(kernel: &Kernel) -> Vec<ValueId> {
    let is_overtaken = |value: &ValueId| match &kernel.value(*value).expression {
        Expression::Load { operand, axes, .. } => {
            let mut stores = kernel.stores().iter().filter(|store| store.operand == *operand);
            let is_walked = is_walked(kernel, *operand, axes);
            stores.any(|store| !is_walked || is_scatter(kernel, store))
        }
        _ => false,
    };
    (0..kernel.values().len() as u32).map(ValueId).filter(is_overtaken).collect()
}

/// Returns true if a store is more than that of a tile which loops walk over.
pub(super) fn is_scatter(kernel: &Kernel, store: &Store) -> bool {
    let places = store.axes.iter().fold(DimSet::NONE, |all, &axis| all | kernel.value(axis).span);
    let is_many = !kernel.store_span(store).is_inside(places);
    let is_masked_output =
        store.condition.is_some() && access(kernel, store.operand) == Access::Write;
    !is_walked(kernel, store.operand, &store.axes) || is_many || is_masked_output
}

/// The dims along which values of a scatter may meet in one place: their order is that of the dims.
pub(super) fn meeting_dims(kernel: &Kernel, store: &Store) -> DimSet {
    let dims = &kernel.operand(store.operand).dims;
    let is_walked = |&axis: &usize| {
        let is_first = !dims[..axis].contains(&dims[axis]);
        is_first && kernel.value(store.axes[axis]).expression == Expression::Index(dims[axis])
    };
    let walked: DimSet = (0..dims.len()).filter(is_walked).map(|axis| dims[axis]).collect();
    kernel.store_span(store).minus(walked)
}

/// Returns true if two stores must not share loops: one would overtake the other.
pub(super) fn must_follow(kernel: &Kernel, one: &Store, other: &Store) -> bool {
    one.operand == other.operand && (is_scatter(kernel, one) || is_scatter(kernel, other))
}

impl Nest<'_> {
    /// The tile of a load.
    pub(super) fn load_at(
        &mut self,
        code: &mut ProgramBuilder,
        value: ValueId,
    ) -> Result<Register, Blocked> {
        let kernel = self.kernel;
        let known = kernel.value(value);
        let Expression::Load { operand, axes, otherwise } = &known.expression else {
            return Err(CompileError::Nest.into());
        };
        if self.stored.contains(operand) {
            return Err(Blocked::NeedsIntermediate(value));
        }
        let source = self.operand(*operand).0;
        let at = self.coordinates(code, *operand, axes)?;
        if at == Coordinates::NONE {
            let tile = self.load(code, *operand, known.lane);
            // What there is outside is never needed, but differs along its dims.
            let is_wide = known.span == kernel.operand(*operand).dims.iter().copied().collect();
            return Ok(if is_wide { tile } else { self.widen(code, tile, known.span) });
        }
        let span = self.program_span(known.span);
        let Some(other) = *otherwise else {
            let target = code.register(known.lane, span);
            code.gather_into(target, source, at);
            return Ok(target);
        };
        let target = match kernel.value(other).expression {
            Expression::Constant(constant) => code.constant(known.lane, span, constant),
            _ => {
                let other = self.value(code, other)?;
                self.widen(code, other, known.span)
            }
        };
        code.gather_inside(target, source, at);
        Ok(target)
    }

    /// Combines a store's values with what is there: they go one by one to coordinates of their own.
    pub(super) fn scatter(
        &mut self,
        code: &mut ProgramBuilder,
        store: &Store,
        source: Register,
    ) -> Result<(), Blocked> {
        let target = self.operand(store.operand).0;
        let at = self.coordinates(code, store.operand, &store.axes)?;
        let mask = store.condition.map(|condition| self.value(code, condition)).transpose()?;
        let span = self.kernel.store_span(store);
        let source = if self.kernel.value(store.value).span == span {
            source
        } else {
            self.widen(code, source, span)
        };
        let op = scatter_op(store.mode);
        self.partials.when_last(code, |code| code.scatter(op, target, source, at, mask));
        Ok(())
    }

    /// Broadcasts values over more dims, into a register of their own.
    fn widen(&self, code: &mut ProgramBuilder, source: Register, span: DimSet) -> Register {
        let everywhere = code.constant(Lane::Bool, self.program_span(span), Constant::Bool(true));
        code.select(everywhere, source, source)
    }

    /// Registers for the axes along which no loop walks.
    fn coordinates(
        &mut self,
        code: &mut ProgramBuilder,
        operand: OperandId,
        axes: &[ValueId],
    ) -> Result<Coordinates, Blocked> {
        let mut given = Vec::new();
        for (axis, &at) in axes.iter().enumerate() {
            if !self.axes.is_along(self.kernel, operand, axis, at) {
                let register = self.value(code, at)?;
                let dim = self.axes.of_operand(operand)[axis];
                given.push(Coordinate { axis: axis as u8, dim, register });
            }
        }
        let all = Coordinates::new(&given);
        let operand = || self.kernel.operand(operand).name.clone();
        all.ok_or_else(|| CompileError::Access { operand: operand() }.into())
    }

    /// The tile of a tensor that loops walk over.
    pub(super) fn load(
        &self,
        code: &mut ProgramBuilder,
        operand: OperandId,
        lane: Lane,
    ) -> Register {
        let known = self.kernel.operand(operand);
        let span = self.program_span(known.dims.iter().copied().collect());
        let register = code.register(lane, span);
        let source: ProgramOperand = self.operand(operand).0;
        code.load_into(register, source);
        register
    }
}

fn scatter_op(mode: StoreMode) -> ScatterOp {
    match mode {
        StoreMode::Set => ScatterOp::Set,
        StoreMode::Add => ScatterOp::Add,
        StoreMode::Multiply => ScatterOp::Multiply,
        StoreMode::Min => ScatterOp::Min,
        StoreMode::Max => ScatterOp::Max,
    }
}
