mod calls;
mod cursor;
mod expressions;
mod sides;

use std::collections::HashMap;
use std::str::FromStr;

use spyre_artifact::Lane;
use spyre_numerics::DType;
use thiserror::Error;

use super::Position;
use super::token::{Spot, Token, tokens};
use super::words;
use crate::{
    DimId, Kernel, KernelBuilder, OperandId, Refusal, Role, ScalarId, Store, StoreMode, ValueId,
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

/// Meaning of a name.
#[derive(Clone, Copy, Debug)]
enum Named {
    Dim(DimId),
    Operand(OperandId),
    Scalar(ScalarId),
    Value(ValueId),
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
        let first = self.at;
        let side = self.expression(0)?;
        let is_plain_name = self.at == first + 1;
        let value = self.settle(side)?;
        // A conversion to the lane that a value has is the value.
        let has_name = self.builder.value(value).is_ok_and(|value| value.name.is_some());
        if has_name && is_plain_name {
            return Err(ParseError::at(place, "this is another name for the same value"));
        }
        if has_name {
            self.builder.reserve(name).map_err(|refusal| refused(place, &refusal))?;
            self.names.insert(name, Named::Value(value));
            return Ok(());
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
}

fn refused(place: Position, refusal: &Refusal) -> ParseError {
    ParseError::at(place, refusal.to_string())
}
