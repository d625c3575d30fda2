//! Copies that end half-way.

use crate::{ControlBlock, CopyFromDevice, DeviceMemory, DeviceRange, Fault, Outcome};

/// Writes the first half of the block's target, and fails. A launch has none, and only fails.
pub(super) fn carry_out(memory: &DeviceMemory, block: ControlBlock) -> Outcome {
    let (written, bytes) = match block {
        ControlBlock::CopyFromDevice(mut copy) => half_to_host(memory, &mut copy)?,
        ControlBlock::CopyPeer(mut copy) => {
            let bytes = copy.target.bytes;
            copy.source.bytes /= 2;
            copy.target.bytes = copy.source.bytes;
            memory.copy_peer(&copy)?;
            (copy.target.bytes, bytes)
        }
        block => match block.ranges()[1] {
            Some(target) => half_to_device(memory, block, target)?,
            None => (0, 0),
        },
    };
    let why = format!("it ended after {written} of {bytes} bytes");
    Err(Fault::CopyFailed { why: why.into() })
}

/// Copies all, and puts the second half back: so a nest is half done too.
fn half_to_host(memory: &DeviceMemory, copy: &mut CopyFromDevice) -> Result<(u64, u64), Fault> {
    let bytes = copy.target.bytes().len();
    let kept = copy.target.bytes()[bytes / 2..].to_vec();
    memory.copy_from(copy)?;
    copy.target.bytes_mut()[bytes / 2..].copy_from_slice(&kept);
    Ok((bytes as u64 / 2, bytes as u64))
}

fn half_to_device(
    memory: &DeviceMemory,
    block: ControlBlock,
    target: DeviceRange,
) -> Result<(u64, u64), Fault> {
    let half = target.bytes / 2;
    let rest = DeviceRange { offset: target.offset + half, bytes: target.bytes - half, ..target };
    let kept = memory.bytes(rest)?;
    memory.carry_out(block)?;
    memory.write(rest, &kept)?;
    Ok((half, target.bytes))
}
