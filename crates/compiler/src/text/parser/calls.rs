//! Calls of functions, with values between parentheses and dims between angle brackets.

use std::collections::HashMap;

use spyre_artifact::{BinaryOp, CompareOp, Constant, Lane, ReduceOp, UnaryOp};
use spyre_numerics::DType;

use super::sides::Side;
use super::{Named, ParseError, Parser, refused};
use crate::text::composed::{ComposedFunction, composed};
use crate::text::{Position, words};
use crate::{DimId, DimSet, Refusal, Seek, Value, ValueId};

impl<'a> Parser<'a> {
    pub(super) fn call(&mut self, place: Position, word: &'a str) -> Result<Side, ParseError> {
        if word == "size" {
            self.sign("(")?;
            let dim = self.dim()?;
            self.sign(")")?;
            let made = self.builder.size(dim);
            return made.map(Side::Value).map_err(|refusal| refused(place, &refusal));
        }
        if self.is_sign("<") {
            return self.call_along(place, word);
        }
        if !self.is_sign("(") {
            return Err(ParseError::at(place, format!("nothing is called `{word}`")));
        }
        self.at += 1;
        let mut sides = Vec::new();
        while !self.takes(")") {
            sides.push(self.expression(0)?);
            self.separator(")")?;
        }
        if let Some(function) = composed(word) {
            return self.call_composed(place, word, function, &sides);
        }
        let made = match sides[..] {
            [source] => {
                if let Some(lane) = words::lane(word) {
                    let source = self.settle(source)?;
                    self.builder.convert(lane, source)
                } else if let Some(op) = words::unary(word) {
                    let source = self.settle(source)?;
                    self.builder.unary(op, source)
                } else {
                    return Err(self.unknown_call(place, word, 1));
                }
            }
            [left, right] => {
                let Some(op) = words::binary(word) else {
                    return Err(self.unknown_call(place, word, 2));
                };
                let (left, right) = self.settle_pair(left, right)?;
                self.builder.binary(op, left, right)
            }
            [seed, offset, index, nth] if word == "random" => {
                let Side::Whole(nth) = nth else {
                    return Err(ParseError::at(place, "which random word it is, is a number"));
                };
                let bad = || refused(place, &Refusal::RandomWord { word: nth });
                let nth = u8::try_from(nth).map_err(|_| bad())?;
                let seed = self.settle_as(seed, Lane::I64)?;
                let offset = self.settle_as(offset, Lane::I64)?;
                let index = self.settle_as(index, Lane::I64)?;
                self.builder.random(seed, offset, index, nth)
            }
            [condition, yes, no] if word == "where" => {
                let condition = self.settle(condition)?;
                let (yes, no) = self.settle_pair(yes, no)?;
                self.builder.select(condition, yes, no)
            }
            _ => return Err(self.unknown_call(place, word, sides.len())),
        };
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    /// The expression that a function stands for.
    fn call_composed(
        &mut self,
        place: Position,
        word: &str,
        function: &'static ComposedFunction,
        sides: &[Side],
    ) -> Result<Side, ParseError> {
        let takes = function.parameters.len();
        let given = sides.len();
        if takes != given {
            return Err(ParseError::at(place, format!("`{word}` takes {takes}, not {given}")));
        }
        let mut names = HashMap::new();
        for (&parameter, &side) in function.parameters.iter().zip(sides) {
            names.insert(parameter, Named::Value(self.settle(side)?));
        }
        let outer = (self.spots, self.at, std::mem::replace(&mut self.names, names));
        self.spots = &function.body;
        self.at = 0;
        let made = self.expression(0);
        (self.spots, self.at, self.names) = outer;
        made.map_err(|error| ParseError::at(place, format!("`{word}`: {}", error.why)))
    }

    /// The first place of an extreme among several dims, counted through all of them.
    fn seek_among(
        &mut self,
        seek: Seek,
        dims: &[DimId],
        source: ValueId,
    ) -> Result<ValueId, Refusal> {
        let &Value { lane, span, .. } = self.builder.value(source)?;
        let all: DimSet = dims.iter().copied().collect();
        let op = if seek == Seek::ArgMax { ReduceOp::Max } else { ReduceOp::Min };
        let extreme = self.builder.reduce(op, all.minus(all.minus(span)), source)?;
        let mut is_there = self.builder.compare(CompareOp::Equal, source, extreme)?;
        if lane.is_float() {
            let [one, other] = [source, extreme].map(|of| self.builder.unary(UnaryOp::IsNan, of));
            let both = self.builder.binary(BinaryOp::And, one?, other?)?;
            is_there = self.builder.binary(BinaryOp::Or, is_there, both)?;
        }
        let mut place = self.builder.constant(Lane::I64, Constant::Int(0))?;
        let mut count = self.builder.constant(Lane::I64, Constant::Int(1))?;
        for &dim in dims {
            let size = self.builder.size(dim)?;
            let index = self.builder.index(dim)?;
            let before = self.builder.binary(BinaryOp::Mul, place, size)?;
            place = self.builder.binary(BinaryOp::Add, before, index)?;
            count = self.builder.binary(BinaryOp::Mul, count, size)?;
        }
        let candidate = self.builder.select(is_there, place, count)?;
        self.builder.reduce(ReduceOp::Min, all, candidate)
    }

    /// An operation over dims, or a rounding to a dtype.
    fn call_along(&mut self, place: Position, word: &'a str) -> Result<Side, ParseError> {
        self.sign("<")?;
        if word == "round" {
            let dtype_place = self.place();
            let dtype = self.word("a dtype")?;
            let dtype = DType::from_name(dtype).ok_or_else(|| {
                ParseError::at(dtype_place, format!("there is no dtype `{dtype}`"))
            })?;
            self.sign(">")?;
            let source = self.argument()?;
            let made = self.builder.round(dtype, source);
            return made.map(Side::Value).map_err(|refusal| refused(place, &refusal));
        }
        let mut dims = vec![self.dim()?];
        while self.takes(",") {
            dims.push(self.dim()?);
        }
        self.sign(">")?;
        let source = self.argument()?;
        let made = if let Some(op) = words::reduce(word) {
            self.builder.reduce(op, dims.into_iter().collect::<DimSet>(), source)
        } else if let ([dim], Some(op)) = (&dims[..], words::scan(word)) {
            self.builder.scan(op, *dim, source)
        } else if let ([dim], Some(seek)) = (&dims[..], words::seek(word)) {
            self.builder.seek(seek, *dim, source)
        } else if let Some(seek) = words::seek(word).filter(|seek| seek.is_reduction()) {
            self.seek_among(seek, &dims, source)
        } else if let ([dim], Some(op)) = (&dims[..], words::sort(word)) {
            self.builder.sort(op, *dim, source)
        } else {
            let is_known = words::scan(word).is_some()
                || words::seek(word).is_some()
                || words::sort(word).is_some();
            let why = if is_known {
                format!("`{word}` goes over one dim")
            } else {
                format!("nothing that goes over dims is called `{word}`")
            };
            return Err(ParseError::at(place, why));
        };
        made.map(Side::Value).map_err(|refusal| refused(place, &refusal))
    }

    fn argument(&mut self) -> Result<ValueId, ParseError> {
        self.sign("(")?;
        let side = self.expression(0)?;
        self.sign(")")?;
        self.settle(side)
    }

    fn unknown_call(&self, place: Position, word: &str, given: usize) -> ParseError {
        let takes = if words::lane(word).is_some() || words::unary(word).is_some() {
            "one value"
        } else if words::binary(word).is_some() {
            "two values"
        } else if word == "where" {
            "three values"
        } else if word == "random" {
            "three values and which word"
        } else {
            return ParseError::at(place, format!("nothing is called `{word}`"));
        };
        ParseError::at(place, format!("`{word}` takes {takes}, not {given}"))
    }
}
