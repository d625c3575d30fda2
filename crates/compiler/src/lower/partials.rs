//! Reductions that a launch may cut into tiles: what a tile has reduced is kept in memory of the plan's
//! own, the next tile goes on from there, and the last one stores.

use std::collections::{BTreeMap, HashMap, HashSet};

use spyre_artifact::{
    CorrectionMetadata, Intermediate, Operand, ProgramBuilder, Register, ScalarWord, TileFlag,
};

use super::nest::Nest;
use super::tileable_dims;
use crate::{DimId, DimSet, Expression, Kernel, ValueId};

/// Dims that are reduced over and cut, and where what was reduced so far is kept.
#[derive(Debug, Default)]
pub(super) struct Partials {
    dims: Vec<Flags>,
    kept: BTreeMap<ValueId, Operand>,
}

/// The words that say where along a dim a tile is.
#[derive(Clone, Copy, Debug)]
struct Flags {
    dim: DimId,
    is_later: ScalarWord,
    is_last: ScalarWord,
    is_not_last: ScalarWord,
}

/// The dims that can be cut so: nothing but reductions goes along them, and none of those is made from
/// another one's result, which is not there before the last tile.
pub(super) fn dims(kernel: &Kernel) -> DimSet {
    let stored = kernel.stores().iter().flat_map(|store| &kernel.operand(store.operand).dims);
    let stored: DimSet = stored.copied().collect();
    let held = tileable_dims::held_beside_reductions(kernel);
    let reduced =
        kernel.values().iter().fold(DimSet::NONE, |all, value| all | over(&value.expression));
    reduced.minus(stored).minus(held).iter().fold(DimSet::NONE, |cut, dim| {
        let cut_too = cut.with(dim);
        if is_one_pass(kernel, cut_too) { cut_too } else { cut }
    })
}

/// Name of the intermediate in which tiles hand on what they have reduced.
pub(super) fn name(value: ValueId) -> String {
    format!("{PARTIAL}{}", value.0)
}

const PARTIAL: &str = "partial ";

/// Returns true if tiles hand on what they have reduced in it. A real card keeps that in its scratchpads.
pub(crate) fn is_partial(intermediate: &Intermediate) -> bool {
    intermediate.name.starts_with(PARTIAL)
}

/// The reductions over any of these dims.
pub(super) fn reductions(kernel: &Kernel, cut: DimSet) -> impl Iterator<Item = ValueId> {
    let ids = (0..kernel.values().len() as u32).map(ValueId);
    ids.filter(move |&id| over(&kernel.value(id).expression).meets(cut))
}

/// Returns true if neither a reduction over these dims nor a coordinate is made from another such reduction, and if
/// those that are used together differ along the same dims: tiles would write a narrower one again and again.
fn is_one_pass(kernel: &Kernel, cut: DimSet) -> bool {
    let partial: HashSet<ValueId> = reductions(kernel, cut).collect();
    let mut made_from_partial: HashMap<ValueId, DimSet> = HashMap::new();
    for id in (0..kernel.values().len() as u32).map(ValueId) {
        let value = kernel.value(id);
        let sources = value.expression.sources();
        let mut spans = sources.iter().filter_map(|source| made_from_partial.get(source));
        let span = spans.next().copied();
        let is_alike = spans.all(|other| Some(*other) == span);
        let is_partial = partial.contains(&id);
        let is_too_early = is_partial || matches!(value.expression, Expression::Load { .. });
        if span.is_some() && (is_too_early || !is_alike) {
            return false;
        }
        if let Some(span) = span.or_else(|| is_partial.then_some(value.span)) {
            made_from_partial.insert(id, span);
        }
    }
    let axes = kernel.stores().iter().flat_map(|store| &store.axes);
    axes.into_iter().all(|axis| !made_from_partial.contains_key(axis))
}

fn over(expression: &Expression) -> DimSet {
    match expression {
        Expression::Reduce(_, over, _) => *over,
        _ => DimSet::NONE,
    }
}

impl Partials {
    /// Those over some dims, each with an operand of its own.
    pub(super) fn new(
        cut: DimSet,
        kept: impl IntoIterator<Item = (ValueId, Operand)>,
        code: &mut ProgramBuilder,
    ) -> Self {
        let flags = |dim| Flags {
            dim,
            is_later: code.scalar_word(),
            is_last: code.scalar_word(),
            is_not_last: code.scalar_word(),
        };
        Self { dims: cut.iter().map(flags).collect(), kept: kept.into_iter().collect() }
    }

    /// The flags that a launch tells the program of.
    pub(super) fn flagged(
        &self,
        nest: &Nest<'_>,
        metadata: CorrectionMetadata,
    ) -> CorrectionMetadata {
        self.dims.iter().fold(metadata, |metadata, flags| {
            let dim = nest.dim(flags.dim);
            metadata
                .with_flag(flags.is_later, dim, TileFlag::NotFirst)
                .with_flag(flags.is_last, dim, TileFlag::Last)
                .with_flag(flags.is_not_last, dim, TileFlag::NotLast)
        })
    }

    /// Has a reduction go on from where the tile before ended.
    pub(super) fn resume(&self, code: &mut ProgramBuilder, value: ValueId, into: Register) {
        let Some(&kept) = self.kept.get(&value) else { return };
        for flags in &self.dims {
            code.when(flags.is_later, |code| code.load_into(into, kept));
        }
    }

    /// Keeps what was reduced for the next tile, if there is one.
    pub(super) fn keep(&self, code: &mut ProgramBuilder, value: ValueId, register: Register) {
        let Some(&kept) = self.kept.get(&value) else { return };
        for flags in &self.dims {
            code.when(flags.is_not_last, |code| code.store(kept, register));
        }
    }

    /// Runs `body` in the last tile only.
    pub(super) fn when_last(
        &self,
        code: &mut ProgramBuilder,
        body: impl FnOnce(&mut ProgramBuilder),
    ) {
        nested(&self.dims, code, body);
    }
}

fn nested(flags: &[Flags], code: &mut ProgramBuilder, body: impl FnOnce(&mut ProgramBuilder)) {
    let mut body = Some(body);
    let mut run = |code: &mut ProgramBuilder| {
        if let Some(body) = body.take() {
            body(code);
        }
    };
    inside(flags, code, &mut run);
}

fn inside(flags: &[Flags], code: &mut ProgramBuilder, body: &mut dyn FnMut(&mut ProgramBuilder)) {
    match flags.split_first() {
        None => body(code),
        Some((first, rest)) => code.when(first.is_last, |code| inside(rest, code, body)),
    }
}
