use std::collections::HashMap;

use spyre_artifact::Register;

use crate::{DimSet, ValueId};

/// The loops that are open, and what has been computed in each.
#[derive(Debug)]
pub(super) struct Scopes(Vec<Scope>);

#[derive(Debug)]
struct Scope {
    open: DimSet,
    made: HashMap<ValueId, Register>,
}

impl Scopes {
    pub(super) fn new() -> Self {
        Self(vec![Scope { open: DimSet::NONE, made: HashMap::new() }])
    }

    /// All dims that are open.
    pub(super) fn open(&self) -> DimSet {
        self.0.last().map_or(DimSet::NONE, |scope| scope.open)
    }

    pub(super) fn enter(&mut self, dims: DimSet) {
        let open = self.open() | dims;
        self.0.push(Scope { open, made: HashMap::new() });
    }

    /// What was made since then means nothing any more.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn find(&self, value: ValueId) -> Option<Register> {
        self.0.iter().rev().find_map(|scope| scope.made.get(&value).copied())
    }

    pub(super) fn keep(&mut self, value: ValueId, register: Register) {
        if let Some(scope) = self.0.last_mut() {
            scope.made.insert(value, register);
        }
    }
}
