//! Sums of exponentials below the largest one, in one pass: attention.
//!
//! `m = max<t>(s)` and `r = sum<t>(exp(s - m) * w)` would take two passes over `t`, and two times
//! everything that `s` is made from. One pass does, if what was summed up is scaled whenever a tile
//! brings a larger `m`. It is worth it where `s` holds something that is reduced itself: a product.
//!
//! Until some `s` is more than -inf, nothing is summed up; where none ever is, a sum is what one of
//! its terms would be: NaN, or zero if the kernel sees to it.

use std::collections::HashSet;

use spyre_artifact::{
    BinaryOp, CompareOp, Constant, Instruction, Lane, ProgramBuilder, ReduceOp, Register, Span,
    UnaryOp,
};

use super::mask_bounds::MaskBounds;
use super::nest::{Blocked, Goal, Nest};
use super::product::Product;
use super::tile_order::TileOrder;
use crate::{DimSet, Expression, ValueId};

/// A largest value, and what is summed up below it over the same dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Online {
    largest: ValueId,
    /// Values that it is the largest of.
    scores: ValueId,
    over: DimSet,
    lane: Lane,
    sums: Vec<Sum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    value: ValueId,
    source: ValueId,
    /// Value that is subtracted from the scores: the largest one, or what the kernel makes of it.
    taken_off: ValueId,
}

impl<'a> Nest<'a> {
    /// A largest value that is ready to be computed, with all that can be summed up along.
    pub(super) fn online(&self, ready: &[ValueId], first: &[ValueId]) -> Option<Online> {
        first.iter().find_map(|&largest| {
            let Expression::Reduce(ReduceOp::Max, over, scores) = self.expression(largest) else {
                return None;
            };
            let lane = self.kernel.value(largest).lane;
            let over = *over;
            let scores = *scores;
            let is_worth_it = lane.is_float()
                && !over.meets(self.scopes.open())
                && !self.reductions_of(&[scores]).is_empty();
            let sums = ready.iter().filter_map(|&value| self.sum_below(value, largest, scores));
            let can_be = |sum: &Sum| {
                let needed = self.reductions_of(&[sum.source]);
                needed.iter().all(|other| *other == largest || !ready.contains(other))
            };
            let sums: Vec<Sum> = sums.filter(|sum| is_worth_it && can_be(sum)).collect();
            (!sums.is_empty()).then_some(Online { largest, scores, over, lane, sums })
        })
    }

    /// The sum that a value is, if its terms are in proportion to exponentials below the largest.
    fn sum_below(&self, value: ValueId, largest: ValueId, scores: ValueId) -> Option<Sum> {
        let Expression::Reduce(ReduceOp::Max, of_largest, _) = *self.expression(largest) else {
            return None;
        };
        match *self.expression(value) {
            Expression::Reduce(ReduceOp::Sum, over, source) if over == of_largest => {
                let taken_off = self.proportional(source, largest, scores)?;
                Some(Sum { value, source, taken_off })
            }
            _ => None,
        }
    }

    /// Returns the value that is subtracted from the scores, in the exponential that a value is in
    /// proportion to.
    fn proportional(&self, value: ValueId, largest: ValueId, scores: ValueId) -> Option<ValueId> {
        let free = |value: ValueId| !self.is_made_from(value, largest);
        match *self.expression(value) {
            Expression::Unary(UnaryOp::Exp, power) => match *self.expression(power) {
                Expression::Binary(BinaryOp::Sub, from, taken_off) => {
                    let of_largest = self.kernel.value(largest).span;
                    let is_below =
                        from == scores && self.kernel.value(taken_off).span.is_inside(of_largest);
                    (is_below && self.is_pointwise_of(taken_off, largest)).then_some(taken_off)
                }
                _ => None,
            },
            Expression::Binary(BinaryOp::Mul, left, right) if free(right) => {
                self.proportional(left, largest, scores)
            }
            Expression::Binary(BinaryOp::Mul, left, right) if free(left) => {
                self.proportional(right, largest, scores)
            }
            _ => None,
        }
    }

    /// Computes the largest value and the sums in the same loops.
    pub(super) fn reduce_online(
        &mut self,
        code: &mut ProgramBuilder,
        online: &Online,
    ) -> Result<(), Blocked> {
        let lane = online.lane;
        let span = |nest: &Self, value| nest.program_span(nest.kernel.value(value).span);
        let largest = code.constant(lane, span(self, online.largest), f64::NEG_INFINITY);
        let sums = online.sums.iter().map(|sum| code.constant(lane, span(self, sum.value), 0.0));
        let sums: Vec<Register> = sums.collect();
        let goals = self.goals(online, largest, &sums);
        let pending = self.reductions_of(&[online.scores]);
        let inner = pending.iter().fold(DimSet::NONE, |all, &value| all | self.reduced_over(value));
        let purpose = self.purpose(&goals, &pending);
        self.within(code, online.over, inner, purpose, TileOrder::One, &mut |nest, code| {
            nest.add_tile_if_any(code, online, largest, &sums)
        })?;
        self.scopes.keep(online.largest, largest);
        let mut terms: Vec<(ValueId, Register)> = Vec::new();
        let has_terms = self.has_terms(code, online, largest);
        for (sum, &register) in online.sums.iter().zip(&sums) {
            let known = terms.iter().find(|(taken_off, _)| *taken_off == sum.taken_off);
            let term = match known {
                Some(&(_, term)) => term,
                None => self.term(code, sum, largest)?,
            };
            terms.push((sum.taken_off, term));
            self.scopes.keep(sum.value, code.select(has_terms, term, register));
        }
        Ok(())
    }

    /// One tile more, unless a mask leaves nothing of it.
    fn add_tile_if_any(
        &mut self,
        code: &mut ProgramBuilder,
        online: &Online,
        largest: Register,
        sums: &[Register],
    ) -> Result<(), Blocked> {
        let Some(mask) = self.mask(online.scores) else {
            return self.add_tile(code, online, largest, sums, None);
        };
        let bounds = self.mask_bounds(code, mask)?;
        let is_some = match bounds {
            Some(bounds) => bounds.is_some,
            None => self.value(code, mask)?,
        };
        let mut result = Ok(());
        code.when_any(is_some, |code| {
            result = self.add_tile(code, online, largest, sums, bounds);
        });
        result
    }

    /// Computes the scores of a tile, and puts their mask over them only where the tile is not all inside of it.
    fn mask_scores(
        &mut self,
        code: &mut ProgramBuilder,
        goal: Goal<'a>,
        scores: ValueId,
        bounds: MaskBounds,
    ) -> Result<(), Blocked> {
        let Expression::Select(mask, inside, least) = *self.expression(scores) else {
            return Ok(());
        };
        if !self.is_for_one(inside, scores) {
            return Ok(());
        }
        self.reduce_ready(code, &[goal])?;
        let target = self.value(code, inside)?;
        let mut result = Ok(());
        code.when_any(bounds.is_partial, |code| {
            self.scopes.enter(DimSet::NONE, DimSet::NONE);
            let sides = [self.value(code, mask), self.value(code, least)];
            self.scopes.leave();
            result = match sides {
                [Ok(condition), Ok(no)] => {
                    code.emit(Instruction::Select { target, condition, yes: target, no });
                    Ok(())
                }
                [Err(blocked), _] | [_, Err(blocked)] => Err(blocked),
            };
        });
        self.scopes.keep(scores, target);
        result
    }

    /// Returns true if a value is computed for one other only, which may take its register.
    fn is_for_one(&self, value: ValueId, user: ValueId) -> bool {
        let [own, other] = [value, user].map(|value| self.kernel.value(value));
        let is_computed = matches!(own.expression, Expression::Binary(..) | Expression::Unary(..));
        let users = self.kernel.values().iter();
        let users = users.filter(|known| known.expression.sources().contains(&value));
        let is_stored = self.kernel.stores().iter().any(|store| store.value == value);
        is_computed && own.span == other.span && users.count() == 1 && !is_stored
    }

    /// Returns the mask outside of which scores are -inf, if it is known before they are computed.
    fn mask(&self, scores: ValueId) -> Option<ValueId> {
        let Expression::Select(mask, _, no) = *self.expression(scores) else { return None };
        let is_least = matches!(
            *self.expression(no),
            Expression::Constant(Constant::Float(least)) if least == f64::NEG_INFINITY
        );
        (is_least && self.reductions_of(&[mask]).is_empty()).then_some(mask)
    }

    /// One tile more: its largest value first, then what was summed up before below that one, and
    /// then the tile's own sums.
    fn add_tile(
        &mut self,
        code: &mut ProgramBuilder,
        online: &Online,
        largest: Register,
        sums: &[Register],
        bounds: Option<MaskBounds>,
    ) -> Result<(), Blocked> {
        let Online { scores, lane, .. } = *online;
        let span = self.program_span(self.kernel.value(online.largest).span);
        let found = code.constant(lane, span, f64::NEG_INFINITY);
        let goal = Goal::Reduce { op: ReduceOp::Max, into: found, source: scores };
        if let Some(bounds) = bounds {
            self.mask_scores(code, goal, scores, bounds)?;
        }
        self.reach(code, &[goal])?;
        let found = code.binary(BinaryOp::Max, largest, found);
        let least = code.constant(lane, Span::NONE, f64::NEG_INFINITY);
        let zero = code.constant(lane, Span::NONE, 0.0);
        let is_none = code.compare(CompareOp::Equal, found, least);
        let finite = code.select(is_none, zero, found);
        let was_none = code.compare(CompareOp::Equal, largest, least);
        self.scopes.keep(online.largest, finite);
        let mut factors: Vec<(ValueId, Register)> = Vec::new();
        for (sum, &register) in online.sums.iter().zip(sums) {
            let known = factors.iter().find(|(taken_off, _)| *taken_off == sum.taken_off);
            let factor = match known {
                Some(&(_, factor)) => factor,
                None => {
                    let before = self.taken_off(code, online, sum, largest)?;
                    let now = self.value(code, sum.taken_off)?;
                    let step = code.binary(BinaryOp::Sub, before, now);
                    let factor = code.unary(UnaryOp::Exp, step);
                    code.select(was_none, zero, factor)
                }
            };
            factors.push((sum.taken_off, factor));
            let op = BinaryOp::Mul;
            let target = register;
            code.emit(Instruction::Binary { op, target, left: register, right: factor });
        }
        let goals = self.goals(online, largest, sums);
        self.reach(code, &goals[1..])?;
        code.copy(largest, found);
        Ok(())
    }

    /// Computes the value that is subtracted from the scores, if a register holds the largest one.
    fn taken_off(
        &mut self,
        code: &mut ProgramBuilder,
        online: &Online,
        sum: &Sum,
        largest: Register,
    ) -> Result<Register, Blocked> {
        self.scopes.enter(DimSet::NONE, DimSet::NONE);
        self.scopes.keep(online.largest, largest);
        let register = self.value(code, sum.taken_off);
        self.scopes.leave();
        register
    }

    /// True where a sum has terms, and all scores are -inf: it is what one of its terms is.
    fn has_terms(
        &mut self,
        code: &mut ProgramBuilder,
        online: &Online,
        largest: Register,
    ) -> Register {
        let least = code.constant(online.lane, Span::NONE, f64::NEG_INFINITY);
        let is_least = code.compare(CompareOp::Equal, largest, least);
        online.over.iter().fold(is_least, |is_term, dim| {
            let extent = code.extent(self.dim(dim));
            let none = code.constant(Lane::I64, Span::NONE, 0_i64);
            let are_some = code.compare(CompareOp::NotEqual, extent, none);
            code.binary(BinaryOp::And, is_term, are_some)
        })
    }

    /// A term of a sum whose score is the largest one.
    fn term(
        &mut self,
        code: &mut ProgramBuilder,
        sum: &Sum,
        largest: Register,
    ) -> Result<Register, Blocked> {
        let taken_off = self.value(code, sum.taken_off)?;
        let power = code.binary(BinaryOp::Sub, largest, taken_off);
        Ok(code.unary(UnaryOp::Exp, power))
    }

    fn goals(&self, online: &Online, largest: Register, sums: &[Register]) -> Vec<Goal<'a>> {
        let lane = online.lane;
        let of_sums = online.sums.iter().zip(sums).map(|(sum, &into)| {
            match Product::of(self.kernel, sum.value) {
                Some(product) => Goal::Multiply { into, lane, product },
                None => Goal::Reduce { op: ReduceOp::Sum, into, source: sum.source },
            }
        });
        let first = Goal::Reduce { op: ReduceOp::Max, into: largest, source: online.scores };
        [first].into_iter().chain(of_sums).collect()
    }

    pub(super) fn expression(&self, value: ValueId) -> &'a Expression {
        &self.kernel.value(value).expression
    }

    fn is_made_from(&self, value: ValueId, part: ValueId) -> bool {
        let mut seen = HashSet::new();
        let mut rest = vec![value];
        while let Some(next) = rest.pop() {
            // Values come after what they are made from.
            if next >= part && seen.insert(next) {
                rest.extend(self.expression(next).sources());
            }
        }
        seen.contains(&part)
    }

    /// Returns true if a value is computed from another one, and from nothing that is reduced besides.
    fn is_pointwise_of(&self, value: ValueId, part: ValueId) -> bool {
        let is_of_part = |&other: &ValueId| self.is_made_from(part, other);
        self.is_made_from(value, part) && self.reductions_of(&[value]).iter().all(is_of_part)
    }
}
