//! Recorded blocks as Operations: the blocks of a call, in the order in which they were queued.

use std::collections::HashMap;

use spyre::hal::BlockKind;

use super::{RecordedBlock, Recording};

/// An Operation that was carried out: where, its name, the steps before its compute, whether it has one,
/// and what it was given.
pub(super) type Operation = (u16, u16, String, Vec<&'static str>, bool, String);

/// The Operations of a recording, in the order in which their last blocks ended.
pub(super) fn operations(recording: &Recording) -> Vec<Operation> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<&RecordedBlock>> = Vec::new();
    for block in &recording.blocks {
        // A block that no call asked for is an Operation of its own: programs are loaded so.
        let Some(call) = &block.call else {
            groups.push(vec![block]);
            continue;
        };
        let place = *places.entry(call.last_block()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(block);
    }
    groups.iter_mut().filter_map(|group| operation(group)).collect()
}

fn operation(blocks: &mut [&RecordedBlock]) -> Option<Operation> {
    blocks.sort_by_key(|block| block.record.sequence);
    let is_compute =
        |block: &RecordedBlock| block.record.kind == BlockKind::Launch && !block.is_correction();
    let computes = || blocks.iter().filter(|block| is_compute(block));
    let steps: Vec<_> =
        blocks.iter().filter(|block| !is_compute(block)).filter_map(|block| step(block)).collect();
    let compute = computes().next();
    if compute.is_none() && steps.is_empty() {
        return None; // events and callbacks are no Operations
    }
    let name = compute.and_then(|block| block.record.label.name());
    let name = name.map_or_else(|| "copies".to_owned(), |name| name.to_string());
    let first = blocks.first()?;
    let shapes = first.call.as_ref().map(|call| call.shapes.clone()).unwrap_or_default();
    let stream = first.record.stream.0;
    Some((first.device.0, stream, name, steps, compute.is_some(), shapes))
}

fn step(block: &RecordedBlock) -> Option<&'static str> {
    match block.record.kind {
        BlockKind::CopyToDevice => Some("CopyToDevice"),
        BlockKind::CopyFromDevice => Some("CopyFromDevice"),
        BlockKind::CopyDevice => Some("CopyOnDevice"),
        BlockKind::CopyPeer => Some("CopyToPeer"),
        BlockKind::Fill => Some("Fill"),
        BlockKind::Launch => Some("DeviceLaunch"),
        _ => None,
    }
}
