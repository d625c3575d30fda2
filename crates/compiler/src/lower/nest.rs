//! The loops of a program, from what is wanted: a reduction is computed once all dims are open along
//! which it differs, before the loops of those who need it. One that would need a loop inside a loop
//! over the same dim is computed before everything else, and kept in memory of the plan's own.

mod needs;
mod opening;
mod values;

use std::collections::{BTreeMap, HashSet};

use spyre_artifact::{
    Dim, Lane, Operand, ProgramBuilder, ReduceOp, Register, ScalarWord, SeekOp, Span, Tile,
};
use spyre_numerics::{DataFormat, Profile};

use super::CompileError;
use super::access::{Axes, is_scatter, must_follow};
use super::partials::Partials;
use super::product::Product;
use super::scope::Scopes;
use super::tile_order::TileOrder;
use super::tiles::{Purpose, tile};
use crate::ir::neutral;
use crate::{DimId, DimSet, Expression, Kernel, OperandId, Store, ValueId};

/// A kernel on its way into a program.
pub(super) struct Nest<'a> {
    pub(super) kernel: &'a Kernel,
    profile: Profile,
    pub(super) axes: Axes,
    operands: Vec<(Operand, DataFormat)>,
    scalars: Vec<ScalarWord>,
    pub(super) scopes: Scopes,
    /// Operands that hold what the kernel has stored.
    pub(super) stored: HashSet<OperandId>,
    /// Values that are kept in memory, and where.
    pub(super) kept: BTreeMap<ValueId, Operand>,
    /// Reductions that go on from tile to tile.
    pub(super) partials: Partials,
}

/// The reason why a loop nest cannot be built.
#[derive(Debug)]
pub(super) enum Blocked {
    /// This value must be an intermediate in memory.
    NeedsIntermediate(ValueId),
    Error(CompileError),
}

impl<E: Into<CompileError>> From<E> for Blocked {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Result that some loops are for.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    Store(&'a Store),
    /// A value goes to memory of the plan's own.
    Keep(ValueId, Operand),
    /// The source of a reduction goes into its register.
    Reduce {
        op: ReduceOp,
        into: Register,
        source: ValueId,
    },
    /// The best of the source goes into a register, and its place into another.
    Seek {
        op: SeekOp,
        into: [Register; 2],
        source: ValueId,
        dim: DimId,
    },
    /// A matrix product goes into its register.
    Multiply {
        into: Register,
        lane: Lane,
        product: Product,
    },
}

/// Next loops on the way to goals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// Loops over the first of their dims, with loops over others inside.
    Loops { first: DimSet, inner: DimSet, purpose: Purpose, order: TileOrder },
    /// Loops along dims that values are scanned along.
    Scanned { reduced: DimSet, pending: Vec<ValueId> },
}

impl<'a> Nest<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        profile: Profile,
        axes: Axes,
        operands: Vec<(Operand, DataFormat)>,
        scalars: Vec<ScalarWord>,
        partials: Partials,
    ) -> Self {
        let scopes = Scopes::new();
        let stored = HashSet::new();
        let kept = BTreeMap::new();
        Self { kernel, profile, axes, operands, scalars, scopes, stored, kept, partials }
    }

    /// Writes what is to be kept, each after what it needs, and then all of the kernel's stores.
    pub(super) fn write(
        &mut self,
        code: &mut ProgramBuilder,
        keep: &[(ValueId, Operand)],
    ) -> Result<(), Blocked> {
        for &(value, operand) in keep {
            self.reach(code, &[Goal::Keep(value, operand)])?;
            self.kept.insert(value, operand);
        }
        let mut rest = self.kernel.stores();
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(self.together(rest));
            let goals: Vec<Goal<'a>> = together.iter().map(Goal::Store).collect();
            self.reach_all(code, &goals)?;
            rest = behind;
        }
        Ok(())
    }

    /// Returns the number of stores, from the first one on, that may share loops.
    fn together(&self, stores: &[Store]) -> usize {
        let follows = |&at: &usize| {
            stores[..at].iter().any(|before| must_follow(self.kernel, before, &stores[at]))
        };
        (1..stores.len()).find(follows).unwrap_or(stores.len())
    }

    /// Reaches goals in the loops that are open, and in more.
    pub(super) fn reach(
        &mut self,
        code: &mut ProgramBuilder,
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        self.reduce_ready(code, goals)?;
        let mut groups: BTreeMap<Vec<DimId>, Vec<Goal<'a>>> = BTreeMap::new();
        for &goal in goals {
            let rest = self.span(goal).minus(self.scopes.open());
            groups.entry(rest.iter().collect()).or_default().push(goal);
        }
        let groups = groups.into_iter().map(|(rest, goals)| (rest.into_iter().collect(), goals));
        for (rest, goals) in self.joined(groups.collect()) {
            if rest.is_empty() {
                self.finish(code, &goals)?;
            } else {
                self.open(code, rest, &goals)?;
            }
        }
        Ok(())
    }

    /// Opens loops over what is left of the goals' dims: first those that nothing is reduced over,
    /// so that reductions are computed between the loops.
    fn open(
        &mut self,
        code: &mut ProgramBuilder,
        rest: DimSet,
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        match self.opening(rest, goals)? {
            Opening::Scanned { reduced, pending } => {
                self.open_scanned(code, rest, reduced, &pending, goals)
            }
            Opening::Loops { first, inner, purpose, order } => {
                self.make_before(code, goals)?;
                let mut body = |nest: &mut Self, code: &mut _| nest.reach(code, goals);
                self.within(code, first, inner, purpose, order, &mut body)
            }
        }
    }

    /// Runs `body` inside loops over these dims.
    pub(super) fn within(
        &mut self,
        code: &mut ProgramBuilder,
        dims: DimSet,
        rest: DimSet,
        purpose: Purpose,
        order: TileOrder,
        body: &mut dyn FnMut(&mut Self, &mut ProgramBuilder) -> Result<(), Blocked>,
    ) -> Result<(), Blocked> {
        let open = self.scopes.open();
        let tile_of = |dim: DimId| {
            if order.is_single(dim) { 1.into() } else { tile(purpose, dim, dims, open, rest) }
        };
        let loops: Vec<(DimId, Tile)> = dims.iter().map(|dim| (dim, tile_of(dim))).collect();
        let whole = loops.iter().filter(|(_, tile)| *tile == Tile::All).map(|(dim, _)| *dim);
        self.scopes.enter(dims, whole.collect());
        let result = self.nested(code, &loops, order, body);
        self.scopes.leave();
        result
    }

    fn nested(
        &mut self,
        code: &mut ProgramBuilder,
        loops: &[(DimId, Tile)],
        order: TileOrder,
        body: &mut dyn FnMut(&mut Self, &mut ProgramBuilder) -> Result<(), Blocked>,
    ) -> Result<(), Blocked> {
        let Some((&(dim, tile), inner)) = loops.split_first() else { return body(self, code) };
        let is_parallel = order.is_parallel(dim);
        let dim = self.dim(dim);
        let mut result = Ok(());
        let run = |code: &mut ProgramBuilder| {
            result = self.nested(code, inner, order, body);
        };
        if is_parallel {
            code.each_parallel(dim, tile, run);
        } else {
            code.each(dim, tile, run);
        }
        result
    }

    /// Computes, one after the other, all reductions that goals need and that differ along open dims only.
    pub(super) fn reduce_ready(
        &mut self,
        code: &mut ProgramBuilder,
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        loop {
            let open = self.scopes.open();
            let pending = self.pending(goals);
            let can_be = |&value: &ValueId| self.kernel.value(value).span.is_inside(open);
            let ready: Vec<ValueId> = pending.iter().copied().filter(can_be).collect();
            // Those that need no other one of them.
            let first: Vec<ValueId> = ready
                .iter()
                .copied()
                .filter(|&value| {
                    let needed = self.reductions_of(&self.kernel.value(value).expression.sources());
                    !needed.iter().any(|other| ready.contains(other))
                })
                .collect();
            if first.is_empty() {
                return Ok(());
            }
            match self.online(&ready, &first) {
                Some(online) => self.reduce_online(code, &online)?,
                None => self.reduce(code, &first)?,
            }
        }
    }

    /// Computes reductions; those over the same dims in the same loops.
    fn reduce(&mut self, code: &mut ProgramBuilder, values: &[ValueId]) -> Result<(), Blocked> {
        let mut groups: BTreeMap<Vec<DimId>, Vec<ValueId>> = BTreeMap::new();
        for &value in values {
            groups.entry(self.reduced_over(value).iter().collect()).or_default().push(value);
        }
        for (over, values) in groups {
            if over.is_empty() {
                self.go_along(code, &values)?;
            } else {
                self.reduce_over(code, over.into_iter().collect(), &values)?;
            }
        }
        Ok(())
    }

    fn reduce_over(
        &mut self,
        code: &mut ProgramBuilder,
        over: DimSet,
        values: &[ValueId],
    ) -> Result<(), Blocked> {
        if over.meets(self.scopes.open()) {
            return Err(Blocked::NeedsIntermediate(values[0]));
        }
        let mut goals = Vec::new();
        for &value in values {
            let known = self.kernel.value(value);
            if let Expression::Seek(seek, dim, source) = known.expression {
                goals.extend(self.seek_goal(code, value, seek, dim, source));
                continue;
            }
            let Expression::Reduce(op, _, source) = known.expression else { continue };
            let start = neutral(op, known.lane);
            let start = start.ok_or(CompileError::Operation { name: op.name() })?;
            let lane = known.lane;
            let into = code.constant(lane, self.program_span(known.span), start);
            self.partials.resume(code, value, into);
            goals.push(match Product::of(self.kernel, value) {
                Some(product) => Goal::Multiply { into, lane, product },
                None => Goal::Reduce { op, into, source },
            });
            self.scopes.keep(value, into);
        }
        self.reach(code, &goals)?;
        for &value in values {
            if let Some(register) = self.scopes.find(value) {
                self.partials.keep(code, value, register);
            }
        }
        Ok(())
    }

    /// Everything that the goals need is in reach: no loop is missing.
    fn finish(&mut self, code: &mut ProgramBuilder, goals: &[Goal<'a>]) -> Result<(), Blocked> {
        let mut stores = Vec::new();
        for &goal in goals {
            match goal {
                Goal::Reduce { op, into, source } => {
                    let source = self.value(code, source)?;
                    code.reduce(op, into, source);
                }
                Goal::Seek { op, into: [value, place], source, dim } => {
                    let source = self.value(code, source)?;
                    code.seek(op, value, place, source, self.dim(dim));
                }
                Goal::Multiply { into, lane, product } => {
                    self.add_product(code, into, product, lane)?;
                }
                Goal::Store(store) => stores.push((store, self.stored_value(code, store)?)),
                Goal::Keep(value, operand) => {
                    let register = self.value(code, value)?;
                    code.store(operand, register);
                }
            }
        }
        // What is read is read before anything is stored.
        for (store, register) in stores {
            if is_scatter(self.kernel, store) {
                self.scatter(code, store, register)?;
            } else {
                let target = self.operand(store.operand).0;
                self.partials.when_last(code, |code| code.store(target, register));
            }
        }
        self.stored.extend(goals.iter().filter_map(|goal| match goal {
            Goal::Store(store) => Some(store.operand),
            _ => None,
        }));
        Ok(())
    }

    pub(super) fn operand(&self, operand: OperandId) -> (Operand, DataFormat) {
        self.operands[operand.0 as usize]
    }

    pub(super) fn dim(&self, dim: DimId) -> Dim {
        self.axes.dims[usize::from(dim.0)].expect("every dim that a value has is an operand's")
    }

    pub(super) fn program_span(&self, dims: DimSet) -> Span {
        Span::of(&dims.iter().map(|dim| self.dim(dim)).collect::<Vec<_>>())
    }
}
