//! Values that goals need, and the dims that they differ along.

use std::collections::HashSet;

use super::{Goal, Nest};
use crate::lower::product::Product;
use crate::lower::scans::is_made_apart;
use crate::{DimSet, Expression, ValueId};

impl Nest<'_> {
    /// Reductions that goals need and that are not computed.
    pub(in crate::lower) fn pending(&self, goals: &[Goal<'_>]) -> Vec<ValueId> {
        self.reductions_of(&Self::roots(goals))
    }

    /// The values that goals are about.
    pub(super) fn roots(goals: &[Goal<'_>]) -> Vec<ValueId> {
        let of = |goal: &Goal<'_>| match goal {
            Goal::Store(store) => {
                let others = store.axes.iter().chain(&store.condition).copied();
                others.chain([store.value]).collect()
            }
            Goal::Reduce { source, .. } | Goal::Seek { source, .. } => vec![*source],
            Goal::Multiply { product, .. } => vec![product.left, product.right],
            Goal::Keep(value, _) => vec![*value],
        };
        goals.iter().flat_map(of).collect()
    }

    /// Reductions that values are made from and that are not computed; no one behind one that is.
    pub(in crate::lower) fn reductions_of(&self, roots: &[ValueId]) -> Vec<ValueId> {
        let mut seen = HashSet::new();
        let mut rest = roots.to_vec();
        let mut found = Vec::new();
        while let Some(value) = rest.pop() {
            let is_there = self.scopes.find(value).is_some() || self.kept.contains_key(&value);
            if !seen.insert(value) || is_there {
                continue;
            }
            let expression = &self.kernel.value(value).expression;
            if is_made_apart(expression) {
                found.push(value);
            }
            rest.extend(expression.sources());
        }
        found.sort_unstable();
        found
    }

    pub(in crate::lower) fn reduced_over(&self, value: ValueId) -> DimSet {
        match self.kernel.value(value).expression {
            Expression::Reduce(_, over, _) => over,
            Expression::Seek(seek, dim, _) if seek.is_reduction() => DimSet::NONE.with(dim),
            _ => DimSet::NONE,
        }
    }

    pub(in crate::lower) fn span(&self, goal: Goal<'_>) -> DimSet {
        match goal {
            Goal::Store(store) => self.kernel.store_span(store),
            Goal::Reduce { source, .. } | Goal::Seek { source, .. } => {
                self.kernel.value(source).span
            }
            Goal::Multiply { product: Product { left, right, .. }, .. } => {
                self.kernel.value(left).span | self.kernel.value(right).span
            }
            Goal::Keep(value, _) => self.kernel.value(value).span,
        }
    }
}
