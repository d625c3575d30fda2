use std::collections::HashMap;

use spyre_numerics::Profile;

use super::product_sticks::ProductSticks;
use super::{Layouts, Restickified, Restickify, Stick};
use crate::matrix_product::MatrixProduct;
use crate::{DimSet, Expression, Kernel, OperandId, ValueId};

/// Layouts on their way from inputs to outputs. A value without a stick is the same everywhere, or
/// is made where it is needed: it lies as it must.
pub(super) struct Pass<'a> {
    kernel: &'a Kernel,
    profile: Profile,
    given: HashMap<OperandId, Stick>,
    sticks: Vec<Option<Stick>>,
    restickified: Vec<Restickify>,
    used_as_they_lie: Vec<OperandId>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(kernel: &'a Kernel, profile: Profile, given: &[(OperandId, Stick)]) -> Self {
        let given = given.iter().copied().collect();
        Self {
            kernel,
            profile,
            given,
            sticks: Vec::new(),
            restickified: Vec::new(),
            used_as_they_lie: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Layouts {
        let needed = self.needed();
        for (at, value) in self.kernel.values().iter().enumerate() {
            let stick = if needed[at] { self.value(&value.expression, value.span) } else { None };
            self.sticks.push(stick);
        }
        let stored = self.stores();
        let operands = (0..self.kernel.operands().len() as u32).map(OperandId);
        let stick = |operand| {
            let known = self.given.get(&operand).or_else(|| stored.get(&operand));
            known.copied().unwrap_or_else(|| self.kernel.default_stick(operand))
        };
        let operands = operands.map(stick).collect();
        let Self { restickified: restickify, used_as_they_lie, .. } = self;
        Layouts { operands, restickify, used_as_they_lie }
    }

    /// Values that are stored, or that such a value is made from. The products of a matrix product are
    /// none: they are never materialised.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.kernel.values().len()];
        let stores = self.kernel.stores().iter();
        let mut rest: Vec<ValueId> =
            stores.flat_map(|store| [Some(store.value), store.condition]).flatten().collect();
        while let Some(value) = rest.pop() {
            if !std::mem::replace(&mut needed[value.0 as usize], true) {
                rest.extend(self.needed_for(value));
            }
        }
        needed
    }

    fn needed_for(&self, value: ValueId) -> Vec<ValueId> {
        let expression = &self.kernel.value(value).expression;
        match MatrixProduct::find(self.kernel, expression) {
            Some(product) => product.sides.to_vec(),
            None if matches!(expression, Expression::Load { .. }) => Vec::new(),
            None => expression.sources(),
        }
    }

    /// Finds the layout of a value, from the layouts of those that it is made from.
    fn value(&mut self, expression: &Expression, span: DimSet) -> Option<Stick> {
        if let Some(product) = MatrixProduct::find(self.kernel, expression) {
            let sticks = ProductSticks::new(product, |side| self.stick(side));
            for (side, to) in sticks.sides {
                self.restickify(side, to);
            }
            return Some(sticks.result);
        }
        match expression {
            Expression::Load { operand, axes, .. } => Some(self.loaded(*operand, axes)),
            Expression::Reduce(_, over, source) => self.reduced(*source, *over, span),
            Expression::Seek(seek, dim, source) if seek.is_reduction() => {
                self.reduced(*source, DimSet::NONE.with(*dim), span)
            }
            Expression::Constant(_)
            | Expression::Scalar(_)
            | Expression::Index(_)
            | Expression::Size(_) => None,
            _ => self.met(&expression.sources()),
        }
    }

    /// Elements at other coordinates lie as those coordinates go along the tensor's sticks.
    fn loaded(&self, operand: OperandId, axes: &[ValueId]) -> Stick {
        let stick = self.given.get(&operand).copied();
        let stick = stick.unwrap_or_else(|| self.kernel.default_stick(operand));
        let Stick::Along(dim) = stick else { return stick };
        let at = self.kernel.operand(operand).dims.iter().position(|&own| own == dim);
        let axis = at.and_then(|at| axes.get(at)).map(|&axis| self.kernel.value(axis));
        match axis.map(|axis| &axis.expression) {
            Some(Expression::Index(dim)) => Stick::Along(*dim),
            _ => axis.and_then(|axis| axis.span.iter().last()).map_or(Stick::Sparse, Stick::Along),
        }
    }

    /// The card leaves one element of each stick that it reduces; the software card has no such need.
    fn reduced(&mut self, source: ValueId, over: DimSet, span: DimSet) -> Option<Stick> {
        let stick = self.stick(source)?;
        self.restickify(source, stick);
        match stick {
            Stick::Along(dim) if over.contains(dim) && self.profile == Profile::Open => {
                span.iter().last().map(Stick::Along)
            }
            Stick::Along(dim) if over.contains(dim) => Some(Stick::Sparse),
            stick => Some(stick),
        }
    }

    /// Gives the values that meet in an operation one layout: the one that needs the fewest restickifies, the
    /// first of several.
    fn met(&mut self, sources: &[ValueId]) -> Option<Stick> {
        let all = || sources.iter().filter_map(|&source| Some((source, self.stick(source)?)));
        let restickifies =
            |to: Stick| all().filter(|&(source, from)| self.wanted(source, to) != from).count();
        let along = all().map(|(_, stick)| stick).filter(|&stick| stick != Stick::Sparse);
        let best = along.map(|stick| (restickifies(stick), stick)).min_by_key(|(count, _)| *count);
        let Some((_, to)) = best else { return all().next().map(|(_, stick)| stick) };
        for &source in sources {
            self.restickify(source, self.wanted(source, to));
        }
        Some(to)
    }

    /// Returns the layout that a value must have beside values with these sticks.
    fn wanted(&self, value: ValueId, beside: Stick) -> Stick {
        match beside {
            Stick::Along(dim) if !self.kernel.value(value).span.contains(dim) => Stick::Sparse,
            _ => beside,
        }
    }

    /// Has a value turned, if the card needs it and it was not turned before.
    fn restickify(&mut self, value: ValueId, to: Stick) {
        let Some(from) = self.stick(value) else { return };
        let what = self.origin(value).map_or(Restickified::Value(value), Restickified::Operand);
        match what {
            _ if from != to => self.note(Restickify { what, from, to }),
            Restickified::Operand(operand) => self.used_as_they_lie.push(operand),
            _ => {}
        }
    }

    /// The one tensor that a value is made from element by element: it can be turned in the value's place.
    fn origin(&self, value: ValueId) -> Option<OperandId> {
        let expression = &self.kernel.value(value).expression;
        match expression {
            Expression::Load { operand, .. } => Some(*operand),
            Expression::Unary(..)
            | Expression::Binary(..)
            | Expression::Compare(..)
            | Expression::Select(..)
            | Expression::Convert(..)
            | Expression::Round(..) => {
                let sources = expression.sources().into_iter();
                let mut origins = sources
                    .filter(|&source| self.stick(source).is_some())
                    .map(|source| self.origin(source));
                let first = origins.next()??;
                origins.all(|other| other == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    fn note(&mut self, restickify: Restickify) {
        if self.profile == Profile::Card && !self.restickified.contains(&restickify) {
            self.restickified.push(restickify);
        }
    }

    /// Returns the layouts of outputs.
    fn stores(&mut self) -> HashMap<OperandId, Stick> {
        let mut stored: HashMap<OperandId, Stick> = HashMap::new();
        for store in self.kernel.stores() {
            let Some(from) = self.stick(store.value) else { continue };
            let operand = self.kernel.operand(store.operand);
            let is_there = |stick: &Stick| match stick {
                Stick::Along(dim) => operand.dims.contains(dim),
                Stick::Sparse => true,
            };
            let known = self.given.get(&store.operand).or_else(|| stored.get(&store.operand));
            let known = known.copied().or_else(|| Some(from).filter(is_there));
            let to = known.unwrap_or_else(|| self.kernel.default_stick(store.operand));
            self.restickify(store.value, from);
            if to != from {
                self.note(Restickify { what: Restickified::Stored(store.operand), from, to });
            }
            stored.insert(store.operand, to);
        }
        stored
    }

    fn stick(&self, value: ValueId) -> Option<Stick> {
        self.sticks.get(value.0 as usize).copied().flatten()
    }
}
