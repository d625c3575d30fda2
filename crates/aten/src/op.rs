use std::collections::HashMap;
use std::sync::LazyLock;

use crate::pointwise::{Entry, entries};
use crate::{Call, Decline, Recipe};

/// An operator of PyTorch that kernels are known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(u16);

/// How a family of ops is carried out.
struct Known {
    name: &'static str,
    entries: Vec<&'static Entry>,
}

static OPS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut ops: Vec<Known> = Vec::new();
    for entry in entries() {
        for &name in &entry.names {
            match ops.iter_mut().find(|known| known.name == name) {
                Some(known) => known.entries.push(entry),
                None => ops.push(Known { name, entries: vec![entry] }),
            }
        }
    }
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

    /// Its name in PyTorch, without `aten::`.
    pub fn name(self) -> &'static str {
        OPS[usize::from(self.0)].name
    }

    /// How a call of it is carried out.
    pub fn recipe(self, call: &Call<'_>) -> Result<Recipe, Decline> {
        let mut why = Decline::Argument { argument: 0, expected: "arguments of the op" };
        for entry in &OPS[usize::from(self.0)].entries {
            match entry.recipe(call) {
                Err(decline @ Decline::Argument { .. }) => why = decline,
                outcome => return outcome,
            }
        }
        Err(why)
    }
}
