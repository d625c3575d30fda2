//! Scans, sorts and seeks along a dim. A scan carries something from tile to tile: its loop runs in
//! order, inside all others, and what it carries is made before it. A sort needs all of its dim as one
//! tile. A place is sought like something that is reduced, with a second register beside it.

use std::collections::HashMap;

use spyre_artifact::{Constant, Lane, OrderOp, ProgramBuilder, Register, ScanOp};

use super::nest::{Blocked, Goal, Nest};
use super::tile_order::TileOrder;
use crate::{DimId, DimSet, Expression, Seek, ValueId};

/// Returns true if a value is computed once, at its place among the loops, for all of its uses.
pub(super) fn is_made_apart(expression: &Expression) -> bool {
    matches!(
        expression,
        Expression::Reduce(..) | Expression::Scan(..) | Expression::Seek(..) | Expression::Sort(..)
    )
}

/// The order that a value is made by, its dim and its source.
type Order = (OrderOp, DimId, ValueId);

impl<'a> Nest<'a> {
    /// The dims that some of these values are scans along.
    pub(super) fn scanned_along(&self, values: &[ValueId]) -> DimSet {
        values.iter().filter_map(|&value| self.scan_of(value)).map(|(_, dim, _)| dim).collect()
    }

    /// The dims that some of these values are sorted along.
    pub(super) fn sorted_along(&self, values: &[ValueId]) -> DimSet {
        values.iter().filter_map(|&value| self.order_of(value)).map(|(_, dim, _)| dim).collect()
    }

    /// Opens a loop that scans go along: one that all their other dims are open around.
    pub(super) fn open_scanned(
        &mut self,
        code: &mut ProgramBuilder,
        rest: DimSet,
        reduced: DimSet,
        pending: &[ValueId],
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        let scanned = self.scanned_along(pending);
        let mut dims = rest.iter().filter(|&dim| scanned.contains(dim) && !reduced.contains(dim));
        let is_blocked = |value: &ValueId| self.is_blocked(*value);
        let can_be = |dim: DimId| {
            let mut scans = pending.iter().filter(|&&value| self.is_scan(value, dim));
            !scans.any(is_blocked)
        };
        let Some(dim) = dims.find(|&dim| can_be(dim)) else {
            return Err(Blocked::NeedsIntermediate(self.to_keep(rest, pending)));
        };
        let mut carries = Vec::new();
        for &value in pending {
            if let Some((op, along, _)) = self.scan_of(value)
                && along == dim
            {
                carries.push((value, self.carry(code, op, dim, value)));
            }
        }
        let purpose = self.purpose(goals, pending);
        let dims = DimSet::NONE.with(dim);
        let inner = rest.minus(dims) | reduced;
        self.within(code, dims, inner, purpose, TileOrder::One, &mut |nest, code| {
            carries.iter().for_each(|&(value, carry)| nest.scopes.set_carry(value, carry));
            nest.reach(code, goals)
        })
    }

    /// Makes scans and sorts whose dims are open.
    pub(super) fn go_along(
        &mut self,
        code: &mut ProgramBuilder,
        values: &[ValueId],
    ) -> Result<(), Blocked> {
        let mut orders: HashMap<Order, [Register; 2]> = HashMap::new();
        for &value in values {
            let register = match (self.scan_of(value), self.order_of(value)) {
                (Some((op, dim, source)), _) => {
                    let carry =
                        self.scopes.carry(value).ok_or(Blocked::NeedsIntermediate(value))?;
                    let source = self.value(code, source)?;
                    code.scan(op, source, carry, self.dim(dim))
                }
                (_, Some(order)) => {
                    let made = match orders.get(&order) {
                        Some(&made) => made,
                        None => self.order(code, value, order)?,
                    };
                    orders.insert(order, made);
                    let is_sort =
                        matches!(self.kernel.value(value).expression, Expression::Sort(..));
                    made[usize::from(is_sort)]
                }
                (None, None) => continue,
            };
            self.scopes.keep(value, register);
        }
        Ok(())
    }

    /// Returns the goal that seeks a place, if it is one for all.
    pub(super) fn seek_goal(
        &mut self,
        code: &mut ProgramBuilder,
        value: ValueId,
        seek: Seek,
        dim: DimId,
        source: ValueId,
    ) -> Option<Goal<'a>> {
        let op = seek.place()?;
        let span = self.program_span(self.kernel.value(value).span);
        let lane = self.kernel.value(source).lane;
        let best = code.constant(lane, span, nothing(lane));
        // No place yet: whatever comes first is better.
        let place = code.constant(Lane::I64, span, -1_i64);
        self.scopes.keep(value, place);
        Some(Goal::Seek { op, into: [best, place], source, dim })
    }

    fn order(
        &mut self,
        code: &mut ProgramBuilder,
        value: ValueId,
        (op, dim, source): Order,
    ) -> Result<[Register; 2], Blocked> {
        if !self.scopes.is_whole(dim) {
            return Err(Blocked::NeedsIntermediate(value));
        }
        let source = self.value(code, source)?;
        Ok(code.order(op, source, self.dim(dim)))
    }

    /// Makes the register that a scan carries along, with its value before the first element. Sums and
    /// products of singles are carried along in double, as PyTorch does on a CPU.
    fn carry(&self, code: &mut ProgramBuilder, op: ScanOp, dim: DimId, value: ValueId) -> Register {
        let known = self.kernel.value(value);
        let is_exact = matches!(op, ScanOp::Min | ScanOp::Max);
        let lane = match known.lane {
            Lane::F32 if !is_exact => Lane::F64,
            lane => lane,
        };
        code.constant(lane, self.program_span(known.span.without(dim)), op.start(lane))
    }

    /// Returns true if a scan needs another dim to be open around it that is not.
    fn is_blocked(&self, scan: ValueId) -> bool {
        let open = self.scopes.open();
        let span = self.kernel.value(scan).span;
        self.scan_of(scan).is_some_and(|(_, dim, _)| !span.without(dim).is_inside(open))
    }

    /// Returns the value that is in the way of loops over some dims: a scan that needs others around
    /// it, or a reduction over one of them. It is the first such value, as others may be made from it.
    fn to_keep(&self, rest: DimSet, pending: &[ValueId]) -> ValueId {
        let is_in_the_way = |value: &&ValueId| {
            let is_scan = self.scan_of(**value).is_some_and(|(_, dim, _)| rest.contains(dim));
            is_scan && self.is_blocked(**value) || self.reduced_over(**value).meets(rest)
        };
        pending.iter().find(is_in_the_way).copied().unwrap_or(pending[0])
    }

    fn is_scan(&self, value: ValueId, along: DimId) -> bool {
        self.scan_of(value).is_some_and(|(_, dim, _)| dim == along)
    }

    fn scan_of(&self, value: ValueId) -> Option<(ScanOp, DimId, ValueId)> {
        match self.kernel.value(value).expression {
            Expression::Scan(op, dim, source) => Some((op, dim, source)),
            _ => None,
        }
    }

    fn order_of(&self, value: ValueId) -> Option<Order> {
        match self.kernel.value(value).expression {
            Expression::Seek(seek, dim, source) => Some((seek.order()?, dim, source)),
            Expression::Sort(op, dim, source) => Some((op, dim, source)),
            _ => None,
        }
    }
}

/// A number of a lane, which is never looked at.
fn nothing(lane: Lane) -> Constant {
    match lane {
        Lane::I64 => Constant::Int(0),
        Lane::Bool => Constant::Bool(false),
        _ => Constant::Float(0.0),
    }
}
