//! Bounds of a mask in a tile, from the least and the largest of the whole numbers that it compares: they tell
//! cheaply that nothing of a tile is left, or all of it.

use spyre_artifact::{BinaryOp, CompareOp, Lane, ProgramBuilder, ReduceOp, Register, Span};

use super::nest::{Blocked, Nest};
use crate::ir::neutral;
use crate::{Expression, ValueId};

/// Conditions on a mask in the tile that the loops are at.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskBounds {
    /// False if the mask is nowhere true.
    pub(super) is_some: Register,
    /// False if the mask is true everywhere.
    pub(super) is_partial: Register,
}

impl Nest<'_> {
    /// The bounds of a mask, if it compares what differs along dims of its own.
    pub(super) fn mask_bounds(
        &mut self,
        code: &mut ProgramBuilder,
        mask: ValueId,
    ) -> Result<Option<MaskBounds>, Blocked> {
        if self.has_bounds(mask) { self.bounds_of(code, mask).map(Some) } else { Ok(None) }
    }

    fn has_bounds(&self, mask: ValueId) -> bool {
        match *self.expression(mask) {
            Expression::Binary(BinaryOp::And, left, right) => {
                self.has_bounds(left) && self.has_bounds(right)
            }
            Expression::Compare(op, left, right) => {
                let [left, right] = [left, right].map(|side| self.kernel.value(side));
                opposite(op).is_some()
                    && left.lane == Lane::I64
                    && right.lane == Lane::I64
                    && !left.span.meets(right.span)
            }
            _ => false,
        }
    }

    fn bounds_of(
        &mut self,
        code: &mut ProgramBuilder,
        mask: ValueId,
    ) -> Result<MaskBounds, Blocked> {
        match *self.expression(mask) {
            Expression::Compare(op, left, right) => {
                let [left, right] = [self.ends(code, left)?, self.ends(code, right)?];
                let [first, last] = [[left[0], right[1]], [left[1], right[0]]];
                let is_less = matches!(op, CompareOp::Less | CompareOp::LessEqual);
                let [some, all] = if is_less { [first, last] } else { [last, first] };
                let partial = opposite(op).unwrap_or(op);
                Ok(MaskBounds {
                    is_some: code.compare(op, some[0], some[1]),
                    is_partial: code.compare(partial, all[0], all[1]),
                })
            }
            Expression::Binary(_, left, right) => {
                let [left, right] = [self.bounds_of(code, left)?, self.bounds_of(code, right)?];
                Ok(MaskBounds {
                    is_some: code.binary(BinaryOp::And, left.is_some, right.is_some),
                    is_partial: code.binary(BinaryOp::Or, left.is_partial, right.is_partial),
                })
            }
            _ => Err(Blocked::NeedsIntermediate(mask)),
        }
    }

    /// The least and the largest number of a value's tile.
    fn ends(
        &mut self,
        code: &mut ProgramBuilder,
        value: ValueId,
    ) -> Result<[Register; 2], Blocked> {
        let source = self.value(code, value)?;
        if self.kernel.value(value).span.is_empty() {
            return Ok([source; 2]); // one number
        }
        Ok([ReduceOp::Min, ReduceOp::Max].map(|op| {
            let start = neutral(op, Lane::I64).unwrap_or(0_i64.into());
            let end = code.constant(Lane::I64, Span::NONE, start);
            code.reduce(op, end, source);
            end
        }))
    }
}

/// The comparison that is true where one of order is not.
fn opposite(op: CompareOp) -> Option<CompareOp> {
    Some(match op {
        CompareOp::Less => CompareOp::GreaterEqual,
        CompareOp::LessEqual => CompareOp::Greater,
        CompareOp::Greater => CompareOp::LessEqual,
        CompareOp::GreaterEqual => CompareOp::Less,
        _ => return None,
    })
}
