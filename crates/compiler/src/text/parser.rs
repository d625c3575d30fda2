use std::collections::HashMap;
use std::str::FromStr;

use spyre_artifact::{Constant, Lane, UnaryOp};
use spyre_numerics::DType;
use thiserror::Error;

use super::Position;
use super::token::{Spot, Token, tokens};
use super::words::{self, INFIX, Infix, PREFIX, PREFIX_STRENGTH, is_float_word};
use crate::{
    DimId, DimSet, Kernel, KernelBuilder, OperandId, Refusal, Role, ScalarId, Store, StoreMode,
    ValueId,
};

/// A text that is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {why}")]
pub struct ParseError {
    /// Where.
    pub place: Position,
    /// Why.
    pub why: String,
}

impl ParseError {
    pub(super) fn at(place: Position, why: impl Into<String>) -> Self {
        Self { place, why: why.into() }
    }
}

impl FromStr for Kernel {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.len() > MOST_TEXT_BYTES {
            let given = text.len();
            let why = format!(
                "the text has {given} bytes, and a kernel's has {MOST_TEXT_BYTES} at most: make \
                 several kernels of it"
            );
            return Err(ParseError::at(Position { line: 1, column: 1 }, why));
        }
        let spots = tokens(text)?;
        let mut parser = Parser {
            spots: &spots,
            at: 0,
            builder: KernelBuilder::new(""),
            names: HashMap::new(),
            depth: 0,
        };
        let kernel = parser.kernel()?;
        parser.skip_newlines();
        match parser.peek() {
            Token::End => Ok(kernel),
            _ => Err(parser.expected("the end of the text")),
        }
    }
}

/// The most bytes of a kernel's text: 16 MiB.
pub const MOST_TEXT_BYTES: usize = 16 << 20;

/// Nested expressions: deeper ones would not fit the stack.
const DEEPEST: usize = 200;

/// Meaning of a name.
#[derive(Clone, Copy, Debug)]
enum Named {
    Dim(DimId),
    Operand(OperandId),
    Scalar(ScalarId),
    Value(ValueId),
}

/// A side of an operation: a number has no lane until it is used.
#[derive(Clone, Copy, Debug)]
enum Side {
    Value(ValueId),
    Whole(i64),
    Float(f64),
}

impl Side {
    fn minus(self) -> Self {
        match self {
            Self::Whole(value) => Self::Whole(value.wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
            Self::Value(_) => self,
        }
    }
}

struct Parser<'a> {
    spots: &'a [Spot<'a>],
    at: usize,
    builder: KernelBuilder,
    names: HashMap<&'a str, Named>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn kernel(&mut self) -> Result<Kernel, ParseError> {
        self.skip_newlines();
        self.keyword("kernel")?;
        let place = self.place();
        let name = self.word("the kernel's name")?;
        if !super::is_name(name) {
            return Err(refused(place, &Refusal::BadName { name: name.to_owned() }));
        }
        self.builder = KernelBuilder::new(name);
        self.sign("(")?;
        while !self.takes(")") {
            let place = self.place();
            let name = self.word("a dim")?;
            let dim = self.builder.dim(name).map_err(|refusal| refused(place, &refusal))?;
            self.names.insert(name, Named::Dim(dim));
            self.separator(")")?;
        }
        self.sign("{")?;
        self.skip_newlines();
        while !self.is_sign("}") {
            self.statement()?;
            if !self.is_sign("}") {
                self.newline()?;
            }
            self.skip_newlines();
        }
        let place = self.place();
        self.sign("}")?;
        let builder = std::mem::replace(&mut self.builder, KernelBuilder::new(""));
        builder.build().map_err(|refusal| ParseError::at(place, refusal.to_string()))
    }

    fn statement(&mut self) -> Result<(), ParseError> {
        match self.peek() {
            Token::Word("in") => self.operand(Role::In),
            Token::Word("out") => self.operand(Role::Out),
            Token::Word("inout") => self.operand(Role::InOut),
            Token::Word("scalar") => self.scalar(),
            Token::Word(_) => self.assignment(),
            _ => Err(self.expected("a declaration, a value or a store")),
        }
    }

    fn operand(&mut self, role: Role) -> Result<(), ParseError> {
        self.at += 1;
        let place = self.place();
        let name = self.word("the operand's name")?;
        self.sign(":")?;
        let dtype_place = self.place();
        let dtype = self.word("a dtype")?;
        let dtype = DType::from_name(dtype)
            .ok_or_else(|| ParseError::at(dtype_place, format!("there is no dtype `{dtype}`")))?;
        self.sign("[")?;
        let mut dims = Vec::new();
        while !self.takes("]") {
            dims.push(self.dim()?);
            self.separator("]")?;
        }
        let made = self.builder.operand(name, role, dtype, &dims);
        let operand = made.map_err(|refusal| refused(place, &refusal))?;
        self.names.insert(name, Named::Operand(operand));
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        let place = self.place();
        let name = self.word("the scalar's name")?;
        self.sign(":")?;
        let lane_place = self.place();
        let lane = self.word("a lane")?;
        let lane = words::lane(lane).ok_or_else(|| {
            ParseError::at(lane_place, format!("`{lane}` is no lane: f32, f64, i64 and bool are"))
        })?;
        let made = self.builder.scalar_input(name, lane);
        let scalar = made.map_err(|refusal| refused(place, &refusal))?;
        self.names.insert(name, Named::Scalar(scalar));
        Ok(())
    }

    /// A value with a name, or a store.
    fn assignment(&mut self) -> Result<(), ParseError> {
        let place = self.place();
        let name = self.word("a name")?;
        if let Some(&Named::Operand(operand)) = self.names.get(name) {
            return self.store(place, operand);
        }
        self.sign("=")?;
        let side = self.expression(0)?;
        let value = self.settle(side)?;
        // A plain name would otherwise have two.
        let named = self.builder.value(value).is_ok_and(|value| value.name.is_some());
        if named {
            return Err(ParseError::at(place, "this is another name for the same value"));
        }
        self.builder.name(value, name).map_err(|refusal| refused(place, &refusal))?;
        self.names.insert(name, Named::Value(value));
        Ok(())
    }

    fn store(&mut self, place: Position, operand: OperandId) -> Result<(), ParseError> {
        let axes = if self.takes("[") {
            self.axes()?
        } else {
            let own = self.builder.own_axes(operand);
            own.map_err(|refusal| refused(place, &refusal))?
        };
        let modes = StoreMode::ALL.into_iter();
        let mode = modes.into_iter().find(|mode| self.is_sign(mode.sign()));
        let mode = mode.ok_or_else(|| self.expected("`=`, `+=`, `*=`, `min=` or `max=`"))?;
        self.at += 1;
        let dtype = self.builder.kernel().operand(operand).dtype;
        let side = self.expression(0)?;
        let value = match Lane::of(dtype.host_format()) {
            Some(lane) => self.settle_as(side, lane)?,
            None => self.settle(side)?,
        };
        let condition = if self.takes_word("if") {
            let side = self.expression(0)?;
            Some(self.settle(side)?)
        } else {
            None
        };
        let store = Store { operand, axes, value, mode, condition };
        self.builder.store_at(store).map_err(|refusal| refused(place, &refusal))
    }

    /// Operations that bind at least so tightly.
    fn expression(&mut self, strength: u8) -> Result<Side, ParseError> {
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

    /// A number, and its lane if it says which.
    fn literal(&mut self) -> Result<Option<(Side, Option<Lane>)>, ParseError> {
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

    fn lane_of_literal(&mut self, side: Side, lane: Option<Lane>) -> Result<Side, ParseError> {
        match lane {
            Some(lane) => self.settle_as(side, lane).map(Side::Value),
            None => Ok(side),
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

    fn axes(&mut self) -> Result<Vec<ValueId>, ParseError> {
        let mut axes = Vec::new();
        while !self.takes("]") {
            let side = self.expression(0)?;
            axes.push(self.settle_as(side, Lane::I64)?);
            self.separator("]")?;
        }
        Ok(axes)
    }

    fn call(&mut self, place: Position, word: &'a str) -> Result<Side, ParseError> {
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

    /// A number alone is what it looks like.
    fn settle(&mut self, side: Side) -> Result<ValueId, ParseError> {
        match side {
            Side::Value(value) => Ok(value),
            Side::Whole(_) => self.settle_as(side, Lane::I64),
            Side::Float(_) => self.settle_as(side, Lane::F32),
        }
    }

    fn settle_as(&mut self, side: Side, lane: Lane) -> Result<ValueId, ParseError> {
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

    fn settle_pair(&mut self, left: Side, right: Side) -> Result<(ValueId, ValueId), ParseError> {
        let lane = |parser: &Self, side: Side| match side {
            Side::Value(value) => parser.builder.value(value).ok().map(|value| value.lane),
            _ => None,
        };
        let is_float = matches!((left, right), (Side::Float(_), _) | (_, Side::Float(_)));
        let plain = if is_float { Lane::F32 } else { Lane::I64 };
        let common = lane(self, left).or_else(|| lane(self, right)).unwrap_or(plain);
        Ok((self.settle_as(left, common)?, self.settle_as(right, common)?))
    }

    fn dim(&mut self) -> Result<DimId, ParseError> {
        let place = self.place();
        let word = self.word("a dim")?;
        match self.names.get(word) {
            Some(&Named::Dim(dim)) => Ok(dim),
            _ => Err(ParseError::at(place, format!("`{word}` is no dim of this kernel"))),
        }
    }

    fn separator(&mut self, end: &'static str) -> Result<(), ParseError> {
        if self.takes(",") || self.is_sign(end) {
            return Ok(());
        }
        Err(self.expected(&format!("`,` or `{end}`")))
    }

    fn word(&mut self, what: &str) -> Result<&'a str, ParseError> {
        match self.peek() {
            Token::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), ParseError> {
        if self.takes_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = self.peek() == Token::Word(word);
        self.at += usize::from(is_it);
        is_it
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if found == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn sign(&mut self, sign: &str) -> Result<(), ParseError> {
        if self.takes(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn newline(&mut self) -> Result<(), ParseError> {
        match self.peek() {
            Token::Newline => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected("the end of the line")),
        }
    }

    fn skip_newlines(&mut self) {
        while self.peek() == Token::Newline {
            self.at += 1;
        }
    }

    fn peek(&self) -> Token<'a> {
        self.spots[self.at.min(self.spots.len() - 1)].token.clone()
    }

    fn place(&self) -> Position {
        self.spots[self.at.min(self.spots.len() - 1)].place
    }

    fn place_before(&self) -> Position {
        self.spots[self.at.clamp(1, self.spots.len()) - 1].place
    }

    fn expected(&self, what: &str) -> ParseError {
        let found = match self.peek() {
            Token::Word(text) | Token::Number(text) => format!("`{text}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Newline => "the end of the line".to_owned(),
            Token::End => "the end of the text".to_owned(),
        };
        ParseError::at(self.place(), format!("here should be {what}, not {found}"))
    }
}

fn refused(place: Position, refusal: &Refusal) -> ParseError {
    ParseError::at(place, refusal.to_string())
}
