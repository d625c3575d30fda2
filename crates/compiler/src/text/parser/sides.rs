//! Sides of operations: values, and numbers that take the lane of what they are used with.

use spyre_artifact::{Constant, Lane};

use super::{ParseError, Parser};
use crate::ValueId;
use crate::text::token::Token;
use crate::text::words::is_float_word;

/// A side of an operation: a number has no lane until it is used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Value(ValueId),
    Whole(i64),
    Float(f64),
}

impl Side {
    pub(super) fn minus(self) -> Self {
        match self {
            Self::Whole(value) => Self::Whole(value.wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
            Self::Value(_) => self,
        }
    }
}

impl Parser<'_> {
    /// A number, and its lane if it says which.
    pub(super) fn literal(&mut self) -> Result<Option<(Side, Option<Lane>)>, ParseError> {
        let place = self.place();
        let text = match self.peek() {
            Token::Number(text) => text,
            Token::Word(word) if is_float_word(word) => word,
            _ => return Ok(None),
        };
        self.at += 1;
        let bad = || ParseError::at(place, format!("`{text}` is no number"));
        let lane = Lane::ALL.into_iter().find(|lane| text.ends_with(lane.name()));
        let digits = lane.map_or(text, |lane| &text[..text.len() - lane.name().len()]);
        let is_whole = digits.bytes().all(|digit| digit.is_ascii_digit());
        let side = if is_whole {
            match digits.parse() {
                Ok(value) => Side::Whole(value),
                // One more than the largest, which minus makes the smallest.
                Err(_) if digits == "9223372036854775808" => Side::Whole(i64::MIN),
                Err(_) => return Err(bad()),
            }
        } else {
            Side::Float(digits.parse().map_err(|_| bad())?)
        };
        Ok(Some((side, lane)))
    }

    pub(super) fn lane_of_literal(
        &mut self,
        side: Side,
        lane: Option<Lane>,
    ) -> Result<Side, ParseError> {
        match lane {
            Some(lane) => self.settle_as(side, lane).map(Side::Value),
            None => Ok(side),
        }
    }

    /// A number alone is what it looks like.
    pub(super) fn settle(&mut self, side: Side) -> Result<ValueId, ParseError> {
        match side {
            Side::Value(value) => Ok(value),
            Side::Whole(_) => self.settle_as(side, Lane::I64),
            Side::Float(_) => self.settle_as(side, Lane::F32),
        }
    }

    pub(super) fn settle_as(&mut self, side: Side, lane: Lane) -> Result<ValueId, ParseError> {
        let constant = match (side, lane) {
            (Side::Value(value), _) => return Ok(value),
            (Side::Whole(value), Lane::F32 | Lane::F64) => Constant::Float(value as f64),
            (Side::Whole(value), _) => Constant::Int(value),
            (Side::Float(value), _) => Constant::Float(value),
        };
        let made = self.builder.constant(lane, constant);
        made.map_err(|_| {
            ParseError::at(self.place_before(), format!("a number of lane {lane} is needed here"))
        })
    }

    pub(super) fn settle_pair(
        &mut self,
        left: Side,
        right: Side,
    ) -> Result<(ValueId, ValueId), ParseError> {
        let lane = |parser: &Self, side: Side| match side {
            Side::Value(value) => parser.builder.value(value).ok().map(|value| value.lane),
            _ => None,
        };
        let is_float = matches!((left, right), (Side::Float(_), _) | (_, Side::Float(_)));
        let plain = if is_float { Lane::F32 } else { Lane::I64 };
        let common = lane(self, left).or_else(|| lane(self, right)).unwrap_or(plain);
        Ok((self.settle_as(left, common)?, self.settle_as(right, common)?))
    }
}
