//! Limits of a card.

use spyre_numerics::{DType, DataFormat, Profile, STICK_BYTES};

use super::CardNote;
use crate::{DimId, DimSet, Expression, Kernel, Operand};

/// Dims of a layout.
pub(super) const RANK: usize = 6;
/// Segments of a job that hold data, one for each tensor.
pub(super) const SEGMENTS: usize = 7;
/// Bytes of one tensor that a core addresses.
pub(super) const SPAN_BYTES: u64 = 256 << 20;
/// Bytes that a core's scratchpad holds: 2 MiB, of which the back end keeps a fifth.
pub(super) const SCRATCHPAD_BYTES: u64 = 1_677_721;
const CORES: u64 = 32;

/// Notes on tensors that hold for all extents: dtypes, ranks and the number of tensors.
pub(super) fn of_operands(kernel: &Kernel) -> Vec<CardNote> {
    let mut notes = Vec::new();
    for operand in kernel.operands() {
        let name = || operand.name.clone();
        let dtype = operand.dtype;
        let rank = operand.dims.len();
        match Profile::Card.device_format(dtype) {
            DataFormat::Invalid => notes.push(CardNote::DType { operand: name(), dtype }),
            // 16-bit floats have other bits there, and about as many.
            format if dtype == DType::Int64 => {
                notes.push(CardNote::Narrowed { operand: name(), dtype, format });
            }
            _ => {}
        }
        if rank > RANK {
            notes.push(CardNote::Rank { operand: name(), rank });
        }
    }
    let tensors = kernel.operands().len();
    if tensors > SEGMENTS {
        notes.push(CardNote::Segments { tensors });
    }
    notes
}

/// Notes on what would be too large. Dims without an extent are taken to be small.
pub(super) fn of_extents(kernel: &Kernel, extents: &[(&str, u64)]) -> Vec<CardNote> {
    let extent = |dim: DimId| {
        let known = extents.iter().find(|(name, _)| *name == kernel.dim_name(dim));
        known.map_or(1, |(_, extent)| *extent)
    };
    let mut notes = Vec::new();
    for operand in kernel.operands() {
        let bytes_per_core = bytes(operand, &operand.dims, extent).div_ceil(CORES);
        if bytes_per_core > SPAN_BYTES {
            notes.push(CardNote::Span { operand: operand.name.clone(), bytes_per_core });
        }
    }
    notes.extend(held_at_once(kernel, extent));
    notes
}

/// Reductions whose results are used along what they went over: all of it stays in the scratchpad.
fn held_at_once(kernel: &Kernel, extent: impl Fn(DimId) -> u64 + Copy) -> Option<CardNote> {
    let over = kernel.values().iter().fold(DimSet::NONE, |dims, value| match value.expression {
        Expression::Reduce(_, over, _) => dims | over,
        Expression::Scan(_, dim, _) => dims.with(dim),
        _ => dims,
    });
    let stored = kernel.stores().iter().map(|store| kernel.store_span(store));
    let held = over.minus(over.minus(stored.fold(DimSet::NONE, |all, span| all | span)));
    let held: Vec<DimId> = held.iter().collect();
    if held.is_empty() {
        return None;
    }
    let of = |operand: &Operand| {
        let own: Vec<DimId> =
            held.iter().copied().filter(|dim| operand.dims.contains(dim)).collect();
        if own.is_empty() { 0 } else { bytes(operand, &own, extent) }
    };
    let bytes = kernel.operands().iter().map(of).fold(0, u64::saturating_add);
    let dims = kernel.dim_names(held.iter().copied());
    (bytes > SCRATCHPAD_BYTES).then_some(CardNote::Scratchpad { dims, bytes })
}

/// The bytes of some dims of a tensor, in whole sticks.
fn bytes(operand: &Operand, dims: &[DimId], extent: impl Fn(DimId) -> u64) -> u64 {
    let format = Profile::Card.device_format(operand.dtype);
    let stick = STICK_BYTES as u64;
    let lanes = stick / format.element_bytes().map_or(1, |bytes| bytes as u64).max(1);
    let Some((&last, rest)) = dims.split_last() else { return stick };
    let sticks = extent(last).div_ceil(lanes);
    rest.iter().fold(sticks.saturating_mul(stick), |all, &dim| all.saturating_mul(extent(dim)))
}
