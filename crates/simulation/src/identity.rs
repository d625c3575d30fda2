//! Identity by which the card recognises a block: a block does not name its stream.

use spyre_hal::{ControlBlock, DeviceRange};

use crate::log::Fingerprint;
use crate::oracle::RegionAddress;

/// A number that no block of another stream has at the same time.
pub(crate) fn identity(block: &ControlBlock) -> u64 {
    let range = |range: &DeviceRange| {
        (
            RegionAddress::of(range.handle).number(),
            range.handle.tag().generation,
            range.offset,
            range.bytes,
        )
    };
    match block {
        ControlBlock::CopyToDevice(copy) => first_word(copy.source.bytes()),
        ControlBlock::CopyStaged(copy) => first_word(copy.bytes()),
        ControlBlock::CopyFromDevice(copy) => first_word(copy.target.bytes()),
        ControlBlock::CopyDevice(copy) => {
            Fingerprint::of(&(1, range(&copy.source), range(&copy.target)))
        }
        ControlBlock::Fill { pattern, target } => Fingerprint::of(&(2, pattern, range(target))),
        ControlBlock::Launch { program, label, .. } => Fingerprint::of(&(
            3,
            RegionAddress::of(*program).number(),
            program.tag().generation,
            label,
        )),
        _ => 0,
    }
}

fn first_word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}
