//! Numbers that are known at launch, as the card's 16-bit float has them: see `ir/short_constants.rs`.

use spyre_artifact::{BinaryOp, Lane, ProgramBuilder, Register, Span, UnaryOp};

use crate::ir::{INFINITE, LARGEST};

/// The number itself, or what stands for it if it is infinite or too large.
pub(super) fn short(code: &mut ProgramBuilder, number: Register) -> Register {
    let is_infinite = code.unary(UnaryOp::IsInf, number);
    let near = within(code, number, INFINITE);
    let far = within(code, number, LARGEST);
    code.select(is_infinite, near, far)
}

fn within(code: &mut ProgramBuilder, number: Register, most: f64) -> Register {
    let largest = code.constant(Lane::F32, Span::NONE, most);
    let least = code.constant(Lane::F32, Span::NONE, -most);
    let below = code.binary(BinaryOp::Min, number, largest);
    code.binary(BinaryOp::Max, below, least)
}
