//! Values that are made alike are one.

use std::collections::HashMap;

use spyre_artifact::Lane;

use super::{Expression, Kernel, ValueId};

impl Kernel {
    /// Returns the kernel with equal values merged: of several that are computed alike, all uses name
    /// the first one. The others are there still, without uses.
    pub(crate) fn merged(&self) -> Self {
        let mut first: HashMap<(Expression, Lane), ValueId> = HashMap::new();
        let mut chosen: Vec<ValueId> = Vec::with_capacity(self.values.len());
        let mut merged = self.clone();
        for (at, value) in merged.values.iter_mut().enumerate() {
            let same = |source: &mut ValueId| *source = chosen[source.0 as usize];
            value.expression.sources_mut().into_iter().for_each(same);
            let key = (value.expression.clone(), value.lane);
            chosen.push(*first.entry(key).or_insert(ValueId(at as u32)));
        }
        for store in &mut merged.stores {
            let sources =
                store.axes.iter_mut().chain([&mut store.value]).chain(&mut store.condition);
            sources.for_each(|source| *source = chosen[source.0 as usize]);
        }
        merged
    }
}
