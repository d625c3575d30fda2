//! Rule 13: accesses at coordinates that registers hold.

use super::{Scope, expect_lane, transfer};
use crate::isa::{
    Coordinates, Dim, Lane, Operand, OperandType, Refusal, Register, RegisterType, ScatterOp, Span,
};

/// Operands that tiles of a parallel loop store to, and those of which they read any part; bit i:
/// operand i.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traces {
    stored: u32,
    crossed: u32,
}

impl Scope<'_> {
    pub(super) fn gather(
        &mut self,
        target: Register,
        source: Operand,
        at: &Coordinates,
        keeps_outside: bool,
    ) -> Result<(), Refusal> {
        let operand = self.known_operand(source)?;
        if !operand.access.reads() {
            return Err(Refusal::Access { operand: source, access: operand.access.name() });
        }
        let needed = self.places(source, operand, at)?;
        let register =
            if keeps_outside { self.read(target)? } else { self.known_register(target)? };
        wide_enough(target, register, needed)?;
        transfer(target, register, source, operand, true)?;
        self.cross(source, at.dims())?;
        self.write(target)
    }

    pub(super) fn scatter(
        &mut self,
        op: ScatterOp,
        target: Operand,
        source: Register,
        at: &Coordinates,
        mask: Option<RegisterType>,
    ) -> Result<(), Refusal> {
        let operand = self.known_operand(target)?;
        let register = self.read(source)?;
        let is_allowed = operand.access.writes() && (op.step().is_none() || operand.access.reads());
        if !is_allowed {
            return Err(Refusal::Access { operand: target, access: operand.access.name() });
        }
        expect_lane(source, register.lane, op.takes(register.lane), "one that the mode takes")?;
        let places = self.places(target, operand, at)?;
        let needed = mask.map_or(places, |mask| places | mask.span);
        wide_enough(source, register, needed)?;
        transfer(source, register, target, operand, true)?;
        let own = operand.span.minus(at.dims());
        let shared = self.parallel().find(|(dim, _)| !own.contains(*dim));
        if let Some((dim, _)) = shared {
            return Err(Refusal::ParallelStore { operand: target, dim });
        }
        self.stored(target)
    }

    pub(super) fn mask(&self, mask: Register) -> Result<RegisterType, Refusal> {
        let register = self.read(mask)?;
        expect_lane(mask, register.lane, register.lane == Lane::Bool, "bool")?;
        Ok(register)
    }

    /// Notes that tiles of the parallel loops around this place write their parts of an operand.
    pub(super) fn stored(&mut self, operand: Operand) -> Result<(), Refusal> {
        self.trace(operand, |_, traces| traces.stored |= 1 << operand.index())
    }

    /// Notes that tiles of parallel loops over these dims read any part of an operand.
    fn cross(&mut self, operand: Operand, dims: Span) -> Result<(), Refusal> {
        self.trace(operand, |dim, traces| {
            if dims.contains(dim) {
                traces.crossed |= 1 << operand.index();
            }
        })
    }

    fn trace(&mut self, operand: Operand, note: impl Fn(Dim, &mut Traces)) -> Result<(), Refusal> {
        for (dim, traces) in self.parallel_traces() {
            note(dim, traces);
            if traces.stored & traces.crossed != 0 {
                return Err(Refusal::ParallelGather { operand, dim });
            }
        }
        Ok(())
    }

    /// The dims along which accesses at these coordinates differ: those of the registers, and those
    /// of the operand that have none.
    fn places(&self, operand: Operand, of: OperandType, at: &Coordinates) -> Result<Span, Refusal> {
        let mut seen = Span::NONE;
        let mut needed = of.span.minus(at.dims());
        self.opened(|| operand.to_string(), needed)?;
        for one in at.given() {
            if !of.span.contains(one.dim) || seen.contains(one.dim) {
                let span = of.span;
                let dim = one.dim;
                return Err(Refusal::CoordinateDim { operand, span, dim });
            }
            seen = seen.with(one.dim);
            let register = self.read(one.register)?;
            expect_lane(one.register, register.lane, register.lane == Lane::I64, "i64")?;
            needed = needed | register.span;
        }
        Ok(needed)
    }
}

fn wide_enough(register: Register, of: RegisterType, needed: Span) -> Result<(), Refusal> {
    let span = of.span;
    if needed.is_inside(span) {
        Ok(())
    } else {
        Err(Refusal::CoordinateSpan { register, span, needed })
    }
}
