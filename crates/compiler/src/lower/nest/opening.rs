//! The loops that are opened next, and the tiles that they have.

use std::ops::BitOr;

use super::{Blocked, Goal, Nest, Opening};
use crate::lower::access::{is_gathered, is_scatter, meeting_dims};
use crate::lower::product::{Product, Roles};
use crate::lower::tile_order::TileOrder;
use crate::lower::tiles::Purpose;
use crate::{DimSet, Expression, ValueId};

impl<'a> Nest<'a> {
    /// The loops that come first, of those over what is left of the goals' dims.
    pub(in crate::lower) fn opening(
        &self,
        rest: DimSet,
        goals: &[Goal<'a>],
    ) -> Result<Opening, Blocked> {
        let pending = self.pending(goals);
        let meeting = self.meeting(goals);
        let reduced =
            pending.iter().fold(DimSet::NONE, |dims, &value| dims | self.reduced_over(value));
        let scanned = self.scanned_along(&pending);
        if let Some(&value) = pending.iter().find(|&&value| self.disorders(value, meeting, rest)) {
            return Err(Blocked::NeedsIntermediate(value));
        }
        let mut first = rest.minus(reduced).minus(scanned);
        // What is reduced differs along these: the others are opened when it is there.
        let needed = pending.iter().map(|&value| self.kernel.value(value).span);
        let needed = needed.fold(DimSet::NONE, DimSet::bitor) & first;
        if !needed.is_empty() {
            first = needed;
        }
        if first.is_empty() && scanned.meets(rest) {
            return Ok(Opening::Scanned { reduced, pending });
        }
        if first.is_empty() {
            // Their loops would be inside of these.
            let mut pending = pending.iter();
            if let Some(&value) = pending.find(|&&value| self.reduced_over(value).meets(rest)) {
                return Err(Blocked::NeedsIntermediate(value));
            }
            first = rest;
        }
        let purpose = self.purpose(goals, &pending);
        let inner = rest.minus(first) | reduced;
        let is_gathered = |goal: &Goal<'_>| {
            matches!(goal, Goal::Reduce { .. } | Goal::Seek { .. } | Goal::Multiply { .. })
        };
        let order = if goals.iter().any(is_gathered) {
            TileOrder::One
        } else {
            TileOrder::Any { but: meeting }
        };
        Ok(Opening::Loops { first, inner, purpose, order })
    }

    /// Returns true if loops for a value that is not there yet would be between those over `rest`,
    /// which must run in the order in which stored values meet.
    fn disorders(&self, value: ValueId, meeting: DimSet, rest: DimSet) -> bool {
        let dims =
            self.reduced_over(value) | self.scanned_along(&[value]) | self.sorted_along(&[value]);
        !meeting.is_empty() && dims.meets(rest)
    }

    /// The dims along which values that are stored may meet in one place.
    fn meeting(&self, goals: &[Goal<'a>]) -> DimSet {
        goals.iter().fold(DimSet::NONE, |dims, goal| match goal {
            Goal::Store(store) if is_scatter(self.kernel, store) => {
                dims | meeting_dims(self.kernel, store)
            }
            _ => dims,
        })
    }

    /// Returns the purpose of the loops for goals, and for values that are not there yet.
    pub(in crate::lower) fn purpose(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> Purpose {
        let sorted = self.sorted_along(pending);
        let roles = self.roles(goals, pending);
        let windows = self.windows(goals, pending);
        if !sorted.is_empty() {
            Purpose::Rows(sorted)
        } else if !roles.is_none() {
            Purpose::Products(roles)
        } else if !windows.is_empty() {
            Purpose::Windows(windows)
        } else {
            Purpose::Elements
        }
    }

    /// The dims over which something that is gathered is reduced, in these loops or inside of them.
    fn windows(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> DimSet {
        let inside = pending.iter().map(|&value| match self.kernel.value(value).expression {
            Expression::Reduce(_, over, source) if is_gathered(self.kernel, source) => over,
            _ => DimSet::NONE,
        });
        let here = goals.iter().map(|goal| match goal {
            Goal::Reduce { source, .. } if is_gathered(self.kernel, *source) => {
                self.kernel.value(*source).span.minus(self.scopes.open())
            }
            _ => DimSet::NONE,
        });
        inside.chain(here).fold(DimSet::NONE, |all, over| all | over)
    }

    /// Returns the roles of the dims that are opened for goals, in their products and in those before.
    fn roles(&self, goals: &[Goal<'_>], pending: &[ValueId]) -> Roles {
        let pending = pending.iter().filter_map(|&value| Product::of(self.kernel, value));
        let mut roles = Roles::within(self.kernel, pending);
        for goal in goals {
            if let &Goal::Multiply { product, lane, .. } = goal {
                roles.are_many |= !roles.is_none();
                roles.over = roles.over | product.over;
                roles.stepped = roles.stepped | self.stepped(product, lane);
            }
        }
        roles
    }
}
