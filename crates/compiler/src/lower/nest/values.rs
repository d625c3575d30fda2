//! Values in registers, in the loops that are open.

use std::collections::HashSet;

use spyre_artifact::{Lane, ProgramBuilder, Register, Span};
use spyre_numerics::Profile;

use super::{Blocked, Goal, Nest};
use crate::lower::access::is_scatter;
use crate::lower::scans::is_made_apart;
use crate::lower::short_scalars;
use crate::{Expression, Store, ValueId};

impl<'a> Nest<'a> {
    /// Computes what goals need and what is the same all along the loops that will be opened for them.
    /// Where no loop is open yet, threads would have to be given it.
    pub(super) fn make_before(
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

    pub(super) fn stored_value(
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
    pub(in crate::lower) fn value(
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
