use std::collections::HashMap;

use spyre_artifact::Register;

use crate::{DimId, DimSet, ValueId};

/// The loops that are open, and what has been computed in each.
#[derive(Debug)]
pub(super) struct Scopes(Vec<Scope>);

#[derive(Debug, Default)]
struct Scope {
    open: DimSet,
    /// The dims that one tile is all of.
    whole: DimSet,
    made: HashMap<ValueId, Register>,
    /// Registers that scans carry from tile to tile of the loop that this is the body of.
    carries: HashMap<ValueId, Register>,
}

impl Scopes {
    pub(super) fn new() -> Self {
        Self(vec![Scope::default()])
    }

    /// All dims that are open.
    pub(super) fn open(&self) -> DimSet {
        self.0.last().map_or(DimSet::NONE, |scope| scope.open)
    }

    /// Returns true if one tile is all of a dim that is open.
    pub(super) fn is_whole(&self, dim: DimId) -> bool {
        self.0.last().is_some_and(|scope| scope.whole.contains(dim))
    }

    /// Opens dims, some of them as one whole tile.
    pub(super) fn enter(&mut self, dims: DimSet, whole: DimSet) {
        let before = self.0.last().map_or(DimSet::NONE, |scope| scope.whole);
        let open = self.open() | dims;
        let whole = before | whole;
        self.0.push(Scope { open, whole, ..Scope::default() });
    }

    /// Returns the register that a scan carries along the innermost loop.
    pub(super) fn carry(&self, scan: ValueId) -> Option<Register> {
        self.0.last()?.carries.get(&scan).copied()
    }

    /// Has a scan carry something along the innermost loop.
    pub(super) fn set_carry(&mut self, scan: ValueId, register: Register) {
        if let Some(scope) = self.0.last_mut() {
            scope.carries.insert(scan, register);
        }
    }

    /// Leaves the innermost scope. Values that were made in it are not valid any more.
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
