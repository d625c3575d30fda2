//! The loops of a program, from what is wanted: a reduction is computed once all dims are open along
//! which it differs, before the loops of those who need it. One that would need a loop inside a loop
//! over the same dim is computed before everything else, and kept in memory of the plan's own.

use std::collections::{BTreeMap, HashSet};
use std::ops::BitOr;

use spyre_artifact::{
    Dim, Lane, Operand, ProgramBuilder, ReduceOp, Register, ScalarWord, SeekOp, Span, Tile,
};
use spyre_numerics::{DataFormat, Profile};

use super::CompileError;
use super::access::{Axes, is_gathered, is_scatter, meeting_dims, must_follow};
use super::partials::Partials;
use super::product::{Product, Roles};
use super::scans::is_made_apart;
use super::scope::Scopes;
use super::short_scalars;
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

    /// Computes what goals need and what is the same all along the loops that will be opened for them.
    /// Where no loop is open yet, threads would have to be given it.
    fn make_before(
        &mut self,
        code: &mut ProgramBuilder,
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        let open = self.scopes.open();
        if open.is_empty() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let mut rest = Self::roots(goals);
        while let Some(value) = rest.pop() {
            let is_there = self.scopes.find(value).is_some() || self.kept.contains_key(&value);
            if is_there || !seen.insert(value) {
                continue;
            }
            let known = self.kernel.value(value);
            let is_computed = is_computed(&known.expression);
            if is_computed && known.span.is_inside(open) && self.reductions_of(&[value]).is_empty()
            {
                _ = self.value(code, value)?;
            } else {
                rest.extend(known.expression.sources());
            }
        }
        Ok(())
    }

    /// The loops that come first, of those over what is left of the goals' dims.
    pub(super) fn opening(&self, rest: DimSet, goals: &[Goal<'a>]) -> Result<Opening, Blocked> {
        let pending = self.pending(goals);
        let meeting = self.meeting(goals);
        let reduced =
            pending.iter().fold(DimSet::NONE, |dims, &value| dims | self.reduced_over(value));
        let scanned = self.scanned_along(&pending);
        if let Some(&value) = pending.iter().find(|&&value| self.disorders(value, meeting, rest)) {
            return Err(Blocked::NeedsIntermediate(value));
        }
        let mut first = rest.minus(reduced).minus(scanned);
        // What is reduced differs along these: the others are opened when it is there.
        let needed = pending.iter().map(|&value| self.kernel.value(value).span);
        let needed = needed.fold(DimSet::NONE, DimSet::bitor) & first;
        if !needed.is_empty() {
            first = needed;
        }
        if first.is_empty() && scanned.meets(rest) {
            return Ok(Opening::Scanned { reduced, pending });
        }
        if first.is_empty() {
            // Their loops would be inside of these.
            let mut pending = pending.iter();
            if let Some(&value) = pending.find(|&&value| self.reduced_over(value).meets(rest)) {
                return Err(Blocked::NeedsIntermediate(value));
            }
            first = rest;
        }
        let purpose = self.purpose(goals, &pending);
        let inner = rest.minus(first) | reduced;
        let is_gathered = |goal: &Goal<'_>| {
            matches!(goal, Goal::Reduce { .. } | Goal::Seek { .. } | Goal::Multiply { .. })
        };
        let order = if goals.iter().any(is_gathered) {
            TileOrder::One
        } else {
            TileOrder::Any { but: meeting }
        };
        Ok(Opening::Loops { first, inner, purpose, order })
    }

    /// Returns true if loops for a value that is not there yet would be between those over `rest`,
    /// which must run in the order in which stored values meet.
    fn disorders(&self, value: ValueId, meeting: DimSet, rest: DimSet) -> bool {
        let dims =
            self.reduced_over(value) | self.scanned_along(&[value]) | self.sorted_along(&[value]);
        !meeting.is_empty() && dims.meets(rest)
    }

    /// The dims along which values that are stored may meet in one place.
    fn meeting(&self, goals: &[Goal<'a>]) -> DimSet {
        goals.iter().fold(DimSet::NONE, |dims, goal| match goal {
            Goal::Store(store) if is_scatter(self.kernel, store) => {
                dims | meeting_dims(self.kernel, store)
            }
            _ => dims,
        })
    }

    /// Returns the purpose of the loops for goals, and for values that are not there yet.
    pub(super) fn purpose(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> Purpose {
        let sorted = self.sorted_along(pending);
        let roles = self.roles(goals, pending);
        let windows = self.windows(goals, pending);
        if !sorted.is_empty() {
            Purpose::Rows(sorted)
        } else if !roles.is_none() {
            Purpose::Products(roles)
        } else if !windows.is_empty() {
            Purpose::Windows(windows)
        } else {
            Purpose::Elements
        }
    }

    /// The dims over which something that is gathered is reduced, in these loops or inside of them.
    fn windows(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> DimSet {
        let inside = pending.iter().map(|&value| match self.kernel.value(value).expression {
            Expression::Reduce(_, over, source) if is_gathered(self.kernel, source) => over,
            _ => DimSet::NONE,
        });
        let here = goals.iter().map(|goal| match goal {
            Goal::Reduce { source, .. } if is_gathered(self.kernel, *source) => {
                self.kernel.value(*source).span.minus(self.scopes.open())
            }
            _ => DimSet::NONE,
        });
        inside.chain(here).fold(DimSet::NONE, |all, over| all | over)
    }

    /// Returns the roles of the dims that are opened for goals, in their products and in those before.
    fn roles(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> Roles {
        let pending = pending.iter().filter_map(|&value| Product::of(self.kernel, value));
        let mut roles = Roles::within(self.kernel, pending);
        for goal in goals {
            if let Goal::Multiply { product, .. } = goal {
                roles.are_many |= !roles.is_none();
                roles.over = roles.over | product.over;
            }
        }
        roles
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
    fn reduce_ready(
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

    fn stored_value(
        &mut self,
        code: &mut ProgramBuilder,
        store: &Store,
    ) -> Result<Register, Blocked> {
        let (_, format) = self.operand(store.operand);
        let lane = self.kernel.value(store.value).lane;
        let mut register = self.value(code, store.value)?;
        // A truth value that the card keeps as a float comes from integers, too.
        let own = Lane::of(self.kernel.operand(store.operand).dtype.host_format());
        let target = if lane.fits(format) { lane } else { own.unwrap_or(lane) };
        if target != lane {
            register = code.convert(target, register);
        }
        if is_scatter(self.kernel, store) {
            return Ok(register);
        }
        if store.condition.is_some() || store.mode.step().is_some() {
            let old = self.load(code, store.operand, target);
            if let Some(op) = store.mode.step() {
                register = code.binary(op, old, register);
            }
            if let Some(condition) = store.condition {
                let condition = self.value(code, condition)?;
                register = code.select(condition, register, old);
            }
        }
        Ok(register)
    }

    /// A value's tile in the loops that are open. Long chains of values are worked off from their
    /// start: they would not fit the stack.
    pub(super) fn value(
        &mut self,
        code: &mut ProgramBuilder,
        value: ValueId,
    ) -> Result<Register, Blocked> {
        let mut wanted = vec![value];
        while let Some(&next) = wanted.last() {
            match (self.scopes.find(next), self.missing_source(next)) {
                (Some(register), _) if wanted.len() == 1 => return Ok(register),
                (Some(_), _) => _ = wanted.pop(),
                (None, Some(source)) => wanted.push(source),
                (None, None) => _ = self.made(code, next)?,
            }
        }
        self.made(code, value)
    }

    /// A value that another one is computed from at the same place, and that is not there.
    fn missing_source(&self, value: ValueId) -> Option<ValueId> {
        let expression = &self.kernel.value(value).expression;
        let is_load = matches!(expression, Expression::Load { .. });
        if is_load || is_made_apart(expression) || self.kept.contains_key(&value) {
            return None;
        }
        expression.sources().into_iter().find(|&source| self.scopes.find(source).is_none())
    }

    fn made(&mut self, code: &mut ProgramBuilder, value: ValueId) -> Result<Register, Blocked> {
        let known = self.kernel.value(value);
        let register = match &known.expression {
            _ if self.kept.contains_key(&value) => {
                let register = code.register(known.lane, self.program_span(known.span));
                code.load_into(register, self.kept[&value]);
                register
            }
            Expression::Constant(constant) => code.constant(known.lane, Span::NONE, *constant),
            Expression::Scalar(scalar) => {
                let number = code.scalar(known.lane, self.scalars[scalar.0 as usize]);
                let is_short = self.profile == Profile::Card && known.lane == Lane::F32;
                if is_short && self.kernel.is_short(value) {
                    short_scalars::short(code, number)
                } else {
                    number
                }
            }
            Expression::Index(dim) => code.index(self.dim(*dim)),
            Expression::Load { .. } => self.load_at(code, value)?,
            Expression::Unary(op, source) => {
                let source = self.value(code, *source)?;
                code.unary(*op, source)
            }
            Expression::Binary(op, left, right) => {
                let left = self.value(code, *left)?;
                let right = self.value(code, *right)?;
                code.binary(*op, left, right)
            }
            Expression::Compare(op, left, right) => {
                let left = self.value(code, *left)?;
                let right = self.value(code, *right)?;
                code.compare(*op, left, right)
            }
            Expression::Select(condition, yes, no) => {
                let condition = self.value(code, *condition)?;
                let yes = self.value(code, *yes)?;
                let no = self.value(code, *no)?;
                code.select(condition, yes, no)
            }
            Expression::Convert(lane, source) => {
                let source = self.value(code, *source)?;
                code.convert(*lane, source)
            }
            Expression::Round(dtype, source) => {
                let source = self.value(code, *source)?;
                code.round(source, self.profile.supported_format(*dtype)?)
            }
            Expression::Size(dim) => code.extent(self.dim(*dim)),
            Expression::Random { word, seed, offset, index } => {
                let seed = self.value(code, *seed)?;
                let offset = self.value(code, *offset)?;
                let index = self.value(code, *index)?;
                code.random(*word, seed, offset, index)
            }
            Expression::Reduce(..)
            | Expression::Scan(..)
            | Expression::Seek(..)
            | Expression::Sort(..) => return Err(Blocked::NeedsIntermediate(value)),
        };
        self.scopes.keep(value, register);
        Ok(register)
    }

    /// Reductions that goals need and that are not computed.
    pub(super) fn pending(&self, goals: &[Goal<'_>]) -> Vec<ValueId> {
        self.reductions_of(&Self::roots(goals))
    }

    /// The values that goals are about.
    fn roots(goals: &[Goal<'_>]) -> Vec<ValueId> {
        let of = |goal: &Goal<'_>| match goal {
            Goal::Store(store) => {
                let others = store.axes.iter().chain(&store.condition).copied();
                others.chain([store.value]).collect()
            }
            Goal::Reduce { source, .. } | Goal::Seek { source, .. } => vec![*source],
            Goal::Multiply { product, .. } => vec![product.left, product.right],
            Goal::Keep(value, _) => vec![*value],
        };
        goals.iter().flat_map(of).collect()
    }

    /// Reductions that values are made from and that are not computed; no one behind one that is.
    pub(super) fn reductions_of(&self, roots: &[ValueId]) -> Vec<ValueId> {
        let mut seen = HashSet::new();
        let mut rest = roots.to_vec();
        let mut found = Vec::new();
        while let Some(value) = rest.pop() {
            let is_there = self.scopes.find(value).is_some() || self.kept.contains_key(&value);
            if !seen.insert(value) || is_there {
                continue;
            }
            let expression = &self.kernel.value(value).expression;
            if is_made_apart(expression) {
                found.push(value);
            }
            rest.extend(expression.sources());
        }
        found.sort_unstable();
        found
    }

    pub(super) fn reduced_over(&self, value: ValueId) -> DimSet {
        match self.kernel.value(value).expression {
            Expression::Reduce(_, over, _) => over,
            Expression::Seek(seek, dim, _) if seek.is_reduction() => DimSet::NONE.with(dim),
            _ => DimSet::NONE,
        }
    }

    pub(super) fn span(&self, goal: Goal<'_>) -> DimSet {
        match goal {
            Goal::Store(store) => self.kernel.store_span(store),
            Goal::Reduce { source, .. } | Goal::Seek { source, .. } => {
                self.kernel.value(source).span
            }
            Goal::Multiply { product: Product { left, right, .. }, .. } => {
                self.kernel.value(left).span | self.kernel.value(right).span
            }
            Goal::Keep(value, _) => self.kernel.value(value).span,
        }
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

/// Returns true if a value is computed from others of its own place.
fn is_computed(expression: &Expression) -> bool {
    matches!(
        expression,
        Expression::Unary(..)
            | Expression::Binary(..)
            | Expression::Compare(..)
            | Expression::Select(..)
            | Expression::Convert(..)
            | Expression::Round(..)
    )
}
