//! Expressions: signs, names and loads.

use spyre_artifact::{Constant, Lane, UnaryOp};

use super::sides::Side;
use super::{Named, ParseError, Parser, refused};
use crate::text::Position;
use crate::text::token::Token;
use crate::text::words::{INFIX, Infix, PREFIX, PREFIX_STRENGTH};
use crate::{OperandId, ValueId};

/// Nested expressions: deeper ones would not fit the stack.
const DEEPEST: usize = 200;

impl<'a> Parser<'a> {
    /// Operations that bind at least so tightly.
    pub(super) fn expression(&mut self, strength: u8) -> Result<Side, ParseError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ParseError::at(
                self.place(),
                "this is nested too deeply: give parts names",
            ));
        }
        let mut left = self.prefix()?;
        while let Some(&(_, binds, infix)) = self.infix().filter(|found| found.1 >= strength.max(1))
        {
            let place = self.place();
            self.at += 1;
            let right = self.expression(binds + 1)?;
            left = self.combine(place, infix, left, right)?;
            // `a < b < c` means nothing.
            if matches!(infix, Infix::Compare(_))
                && self.infix().is_some_and(|next| next.1 == binds)
            {
                return Err(ParseError::at(self.place(), "comparisons do not chain: use `&`"));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn infix(&self) -> Option<&'static (&'static str, u8, Infix)> {
        match self.peek() {
            Token::Sign(sign) => INFIX.iter().find(|infix| infix.0 == sign),
            _ => None,
        }
    }

    fn combine(
        &mut self,
        place: Position,
        infix: Infix,
        left: Side,
        right: Side,
    ) -> Result<Side, ParseError> {
        let (left, right) = self.settle_pair(left, right)?;
        let made = match infix {
            Infix::Binary(op) => self.builder.binary(op, left, right),
            Infix::Compare(op) => self.builder.compare(op, left, right),
        };
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    fn prefix(&mut self) -> Result<Side, ParseError> {
        let place = self.place();
        let Token::Sign(sign) = self.peek() else { return self.primary() };
        let Some(&(_, op)) = PREFIX.iter().find(|prefix| prefix.0 == sign) else {
            return self.primary();
        };
        self.at += 1;
        if op == UnaryOp::Neg
            && let Some((side, lane)) = self.literal()?
        {
            return self.lane_of_literal(side.minus(), lane);
        }
        let side = self.expression(PREFIX_STRENGTH)?;
        let source = self.settle(side)?;
        self.unary(place, op, source)
    }

    fn unary(&mut self, place: Position, op: UnaryOp, source: ValueId) -> Result<Side, ParseError> {
        let made = self.builder.unary(op, source);
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    fn primary(&mut self) -> Result<Side, ParseError> {
        let place = self.place();
        if let Some((side, lane)) = self.literal()? {
            return self.lane_of_literal(side, lane);
        }
        match self.peek() {
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.expression(0)?;
                self.sign(")")?;
                Ok(inner)
            }
            Token::Word(word) => {
                self.at += 1;
                self.named(place, word)
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn named(&mut self, place: Position, word: &'a str) -> Result<Side, ParseError> {
        if matches!(word, "true" | "false") {
            let constant = self.builder.constant(Lane::Bool, Constant::Bool(word == "true"));
            return constant.map(Side::Value).map_err(|refusal| refused(place, &refusal));
        }
        let known = self.names.get(word).copied();
        let made = match known {
            Some(Named::Dim(dim)) => self.builder.index(dim),
            Some(Named::Scalar(scalar)) => self.builder.scalar(scalar),
            Some(Named::Value(value)) => Ok(value),
            Some(Named::Operand(operand)) => return self.load(place, operand),
            None => return self.call(place, word),
        };
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    fn load(&mut self, place: Position, operand: OperandId) -> Result<Side, ParseError> {
        let axes = if self.takes("[") {
            self.axes()?
        } else {
            let own = self.builder.own_axes(operand);
            own.map_err(|refusal| refused(place, &refusal))?
        };
        let otherwise = if self.takes_word("else") {
            let dtype = self.builder.kernel().operand(operand).dtype;
            let side = self.prefix()?;
            Some(match Lane::of(dtype.host_format()) {
                Some(lane) => self.settle_as(side, lane)?,
                None => self.settle(side)?,
            })
        } else {
            None
        };
        let made = self.builder.load_at(operand, axes, otherwise);
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    pub(super) fn axes(&mut self) -> Result<Vec<ValueId>, ParseError> {
        let mut axes = Vec::new();
        while !self.takes("]") {
            let side = self.expression(0)?;
            axes.push(self.settle_as(side, Lane::I64)?);
            self.separator("]")?;
        }
        Ok(axes)
    }
}
