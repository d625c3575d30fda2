//! Results of fewer dims beside one of more: the mean of each row beside what is made of its elements,
//! the logarithms of the sums beside the rows of attention. They share its loops, instead of computing
//! everything twice.
//!
//! Where the loops of the narrower ones are the first of the wider one's, they are stored between those
//! and the rest. Where not, and where all need the same products, tiles along the dims that they do not
//! have store the same values again, one tile after the other. Where such a dim is empty, nothing would
//! store them: then they have loops of their own.

use spyre_artifact::{BinaryOp, CompareOp, Lane, ProgramBuilder, Span};

use super::access::is_scatter;
use super::nest::{Blocked, Goal, Nest, Opening};
use super::product::Product;
use super::tile_order::TileOrder;
use crate::{DimSet, Expression};

/// Goals that are reached in the loops of the widest one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedLoops {
    /// The dims of the widest.
    all: DimSet,
    /// Those that not every one has.
    extra: DimSet,
    /// Those that something is reduced over inside.
    reduced: DimSet,
}

/// Goals, and the dims over which loops are missing for them.
pub(super) type Group<'a> = (DimSet, Vec<Goal<'a>>);

impl<'a> Nest<'a> {
    /// Reaches goals before any loop is open: together, where that saves a product.
    pub(super) fn reach_all(
        &mut self,
        code: &mut ProgramBuilder,
        goals: &[Goal<'a>],
    ) -> Result<(), Blocked> {
        let Some(beside) = self.beside(goals) else { return self.reach(code, goals) };
        let SharedLoops { all, extra, reduced } = beside;
        let purpose = self.purpose(goals, &self.pending(goals));
        let order = TileOrder::Any { but: extra };
        let stored = self.stored.clone();
        self.within(code, all, reduced, purpose, order, &mut |nest, code| nest.reach(code, goals))?;
        let all_stored = std::mem::replace(&mut self.stored, stored);
        let narrow: Vec<Goal<'a>> =
            goals.iter().copied().filter(|goal| self.span(*goal) != all).collect();
        let none = code.constant(Lane::I64, Span::NONE, 0_i64);
        let empty = extra.iter().map(|dim| {
            let extent = code.extent(self.dim(dim));
            code.compare(CompareOp::Equal, extent, none)
        });
        let empty: Vec<_> = empty.collect();
        let is_empty = empty.into_iter().reduce(|a, b| code.binary(BinaryOp::Or, a, b));
        let mut result = Ok(());
        if let Some(is_empty) = is_empty {
            code.when_any(is_empty, |code| result = self.reach(code, &narrow));
        }
        self.stored.extend(all_stored);
        result
    }

    /// Goals by the dims that are left of them, where those that can be reached between the loops of
    /// others are with them.
    pub(super) fn joined(&self, groups: Vec<Group<'a>>) -> Vec<Group<'a>> {
        let mut joined: Vec<Group<'a>> = Vec::new();
        // One takes in the narrower ones before it: those along the first of its dims.
        for (rest, goals) in groups {
            let mut together = goals;
            joined.retain(|(narrow, others)| {
                let both = [others.as_slice(), &together].concat();
                let takes_in = self.opens_for(rest, &together, *narrow, others, &both);
                if takes_in {
                    together = both;
                }
                !takes_in
            });
            joined.push((rest, together));
        }
        joined
    }

    /// Returns true if the first loops of a wider group are those of a narrower one, and of both.
    fn opens_for(
        &self,
        wide: DimSet,
        goals: &[Goal<'a>],
        narrow: DimSet,
        others: &[Goal<'a>],
        both: &[Goal<'a>],
    ) -> bool {
        if narrow.is_empty() || wide == narrow || !narrow.is_inside(wide) || !self.are_plain(both) {
            return false;
        }
        let own = self.opening(wide, goals).ok();
        let is_whole =
            |opening: &Opening| matches!(opening, Opening::Loops { first, .. } if *first == narrow);
        own.as_ref().is_some_and(is_whole)
            && own == self.opening(narrow, others).ok()
            && own == self.opening(wide, both).ok()
    }

    /// Returns true if all goals are stores, each to places of its own, of tensors that the kernel does
    /// not read.
    fn are_plain(&self, goals: &[Goal<'a>]) -> bool {
        goals.iter().all(|goal| match goal {
            Goal::Store(store) => !is_scatter(self.kernel, store) && !self.is_read(store.operand),
            _ => false,
        })
    }

    fn beside(&self, goals: &[Goal<'a>]) -> Option<SharedLoops> {
        let spans = || goals.iter().map(|goal| self.span(*goal));
        let all = spans().fold(DimSet::NONE, |all, span| all | span);
        let extra = spans().fold(DimSet::NONE, |extra, span| extra | all.minus(span));
        let (wide, narrow): (Vec<Goal<'a>>, Vec<Goal<'a>>) =
            goals.iter().partition(|goal| self.span(**goal) == all);
        let [of_wide, of_narrow] = [self.pending(&wide), self.pending(&narrow)];
        let reduced = of_wide.iter().fold(DimSet::NONE, |dims, &v| dims | self.reduced_over(v));
        let needed = of_wide.iter().fold(DimSet::NONE, |dims, &v| dims | self.kernel.value(v).span);
        let is_worth_it = of_narrow.iter().any(|&v| Product::of(self.kernel, v).is_some());
        let are_reductions = of_wide
            .iter()
            .all(|&v| matches!(self.kernel.value(v).expression, Expression::Reduce(..)));
        let can_be = self.are_plain(goals)
            && !narrow.is_empty()
            && is_worth_it
            && are_reductions
            && of_narrow.iter().all(|value| of_wide.contains(value))
            && all.is_inside(needed)
            && !all.meets(reduced);
        can_be.then_some(SharedLoops { all, extra, reduced })
    }

    /// Returns true if the kernel reads what an operand held before.
    fn is_read(&self, operand: crate::OperandId) -> bool {
        let reads = |expression: &Expression| matches!(expression, Expression::Load { operand: from, .. } if *from == operand);
        self.kernel.values().iter().any(|value| reads(&value.expression))
    }
}
