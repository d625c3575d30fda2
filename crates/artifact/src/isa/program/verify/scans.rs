//! Checks of scans, seeks and sorts along one dim, and of extents and random numbers.

use super::{BlockKind, Scope, expect_lane};
use crate::isa::{Dim, Lane, Refusal, Register, RegisterType, ScanOp, Span};

/// Words that one Philox counter gives.
const RANDOM_WORDS: u8 = 4;

impl Scope<'_> {
    pub(super) fn extent(&mut self, target: Register, dim: Dim) -> Result<(), Refusal> {
        self.known_dim(dim)?;
        self.result(target, Span::NONE, Some(Lane::I64))
    }

    pub(super) fn random(
        &mut self,
        word: u8,
        target: Register,
        sources: [Register; 3],
    ) -> Result<(), Refusal> {
        if word >= RANDOM_WORDS {
            return Err(Refusal::RandomWord { word });
        }
        let mut span = Span::NONE;
        for source in sources {
            let input = self.read(source)?;
            expect_lane(source, input.lane, input.lane == Lane::I64, "i64")?;
            span = span | input.span;
        }
        self.result(target, span, Some(Lane::I64))
    }

    pub(super) fn scan(
        &mut self,
        op: ScanOp,
        target: Register,
        source: Register,
        carry: Register,
        dim: Dim,
    ) -> Result<(), Refusal> {
        let input = self.read_along(source, dim)?;
        expect_lane(source, input.lane, op.takes(input.lane), "one that the operation takes")?;
        let held = self.read(carry)?;
        let is_wide = input.lane == Lane::F32 && held.lane == Lane::F64;
        expect_lane(carry, held.lane, held.lane == input.lane || is_wide, "the source's or wider")?;
        expect_span(carry, held.span, input.span.without(dim))?;
        self.write(carry)?;
        self.write_typed(target, input)
    }

    pub(super) fn seek(
        &mut self,
        value: Register,
        place: Register,
        source: Register,
        dim: Dim,
    ) -> Result<(), Refusal> {
        let RegisterType { lane, span } = self.read_along(source, dim)?;
        let span = span.without(dim);
        if value == place {
            return Err(Refusal::SameRegister { register: value });
        }
        self.read(value)?;
        self.read(place)?;
        self.write_typed(value, RegisterType { lane, span })?;
        self.write_typed(place, RegisterType { lane: Lane::I64, span })
    }

    pub(super) fn order(
        &mut self,
        places: Register,
        values: Register,
        source: Register,
        dim: Dim,
    ) -> Result<(), Refusal> {
        let input = self.read_along(source, dim)?;
        if places == values {
            return Err(Refusal::SameRegister { register: values });
        }
        let is_whole = self.blocks.iter().any(|block| {
            matches!(block.kind, BlockKind::Loop { dim: open, is_whole: true, .. } if open == dim)
        });
        if !is_whole {
            return Err(Refusal::NotWhole { dim });
        }
        self.write_typed(places, RegisterType { lane: Lane::I64, ..input })?;
        self.write_typed(values, input)
    }

    /// The type of a register that is read along a dim.
    fn read_along(&self, source: Register, dim: Dim) -> Result<RegisterType, Refusal> {
        self.known_dim(dim)?;
        let input = self.read(source)?;
        if input.span.contains(dim) {
            Ok(input)
        } else {
            Err(Refusal::NotAlong { source_register: source, span: input.span, dim })
        }
    }

    /// Writes a register that must be of this type.
    fn write_typed(&mut self, target: Register, of: RegisterType) -> Result<(), Refusal> {
        let found = self.known_register(target)?;
        expect_lane(target, found.lane, found.lane == of.lane, of.lane.name())?;
        expect_span(target, found.span, of.span)?;
        self.write(target)
    }
}

fn expect_span(register: Register, span: Span, expected: Span) -> Result<(), Refusal> {
    if span == expected { Ok(()) } else { Err(Refusal::AlongSpan { register, span, expected }) }
}
