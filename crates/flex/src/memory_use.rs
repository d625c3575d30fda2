use spyre_hal::{ControlBlock, DeviceRange};
use spyre_layout::DmaNest;

/// Memory that a launch uses besides its program, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Where it is.
    pub range: DeviceRange,
    /// How it is used.
    pub access: MemoryAccess,
}

/// How a block uses memory: its result is *poisoned* if the block is cancelled, and a block that would
/// read poisoned memory is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryAccess {
    /// It is read.
    Read,
    /// It is read, and some or all of it is written.
    Update,
    /// Some of it is written. The rest stays as it is, poison included.
    WritePart,
    /// All that the allocation is to hold is written: what was poisoned is healed.
    WriteAll,
}

impl MemoryAccess {
    /// Whether it needs what is there.
    #[inline]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }

    /// Whether it changes what is there.
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// The uses of the memory that a block names.
///
/// A launch names its program, which nothing poisons: every launch is told anew what it works on.
#[inline]
pub(crate) fn of_block(block: &ControlBlock) -> [Option<MemoryUse>; 2] {
    let [read, written] = block.ranges();
    let nest = match block {
        ControlBlock::CopyToDevice(copy) => copy.nest.as_deref(),
        ControlBlock::CopyDevice(copy) => copy.nest.as_deref(),
        _ => None,
    };
    let fills = nest.is_none_or(DmaNest::fills_target);
    let access = if fills { MemoryAccess::WriteAll } else { MemoryAccess::WritePart };
    [
        read.map(|range| MemoryUse { range, access: MemoryAccess::Read }),
        written.map(|range| MemoryUse { range, access }),
    ]
}
