use std::collections::HashMap;
use std::sync::LazyLock;

use crate::pointwise::{Entry, entries};
use crate::recipe::Function;
use crate::{
    Call, Decline, Recipe, attention, casts, complex_parts, data_dependent, indexing, losses,
    making, membership, optimisers, permuting, products, quantised, random, recurrent, reductions,
    rolling, rows, scans, scattering, sorting, spatial, unsigned,
};

/// An operator of PyTorch that kernels are known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(u16);

struct NativeRow {
    name: &'static str,
    source: RecipeSource,
}

enum RecipeSource {
    /// Rows of expressions: the first one that takes the arguments is used.
    Rows(Vec<&'static Entry>),
    Function(Function),
}

static OPS: LazyLock<Vec<NativeRow>> = LazyLock::new(|| {
    let mut ops: Vec<NativeRow> = Vec::new();
    for (entry, &name) in
        entries().iter().flat_map(|entry| entry.names.iter().map(move |name| (entry, name)))
    {
        let row = ops.iter_mut().find(|row| row.name == name);
        match row.map(|row| &mut row.source) {
            Some(RecipeSource::Rows(rows)) => rows.push(entry),
            _ => ops.push(NativeRow { name, source: RecipeSource::Rows(vec![entry]) }),
        }
    }
    let functions = [
        reductions::OPS,
        rows::OPS,
        products::OPS,
        quantised::OPS,
        indexing::OPS,
        making::OPS,
        sorting::OPS,
        losses::OPS,
        scans::OPS,
        scattering::OPS,
        permuting::OPS,
        membership::OPS,
        rolling::OPS,
        random::OPS,
        recurrent::OPS,
        attention::OPS,
        optimisers::OPS,
        data_dependent::OPS,
        casts::OPS,
    ]
    .into_iter()
    .chain(spatial::OPS.iter().copied())
    .flatten();
    let rows = functions
        .map(|&(name, function)| NativeRow { name, source: RecipeSource::Function(function) });
    ops.extend(rows);
    ops
});

static NAMES: LazyLock<HashMap<&'static str, Op>> =
    LazyLock::new(|| Op::all().map(|op| (op.name(), op)).collect());

impl Op {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..OPS.len() as u16).map(Self)
    }

    /// The op of this name, such as `add.out`.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.get(name).copied()
    }

    /// The op of this place in [`all`](Self::all).
    pub fn numbered(number: usize) -> Option<Self> {
        (number < OPS.len()).then_some(Self(number as u16))
    }

    /// Its name in PyTorch, without `aten::`.
    pub fn name(self) -> &'static str {
        OPS[usize::from(self.0)].name
    }

    /// Returns the recipe of a call of it.
    pub fn recipe(self, call: &Call<'_>) -> Result<Recipe, Decline> {
        let rows = match &OPS[usize::from(self.0)].source {
            RecipeSource::Rows(rows) => rows,
            RecipeSource::Function(function) => {
                let recipe = complex_parts::recipe(self.name(), *function, call)?;
                unsigned::check(self.name(), call, &recipe)?;
                return Ok(recipe);
            }
        };
        let mut why = Decline::Argument { argument: 0, expected: "arguments of the op" };
        for entry in rows {
            match entry.recipe(call) {
                Err(decline @ (Decline::Argument { .. } | Decline::DType { .. })) => why = decline,
                outcome => return outcome,
            }
        }
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Op;

    #[test]
    fn no_two_ops_have_one_name() {
        let mut names = HashSet::new();
        let twice: Vec<_> = Op::all().map(Op::name).filter(|&name| !names.insert(name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
