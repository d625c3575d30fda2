use spyre_hal::{ControlBlock, DeviceRange};
use spyre_layout::DmaNest;

/// Memory that a launch uses besides its program, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Range that is used.
    pub range: DeviceRange,
    /// Access: how it is used.
    pub access: MemoryAccess,
}

/// Access of a block to memory. Its result is *poisoned* if the block is cancelled, and a block
/// that would read poisoned memory is refused.
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
    /// Returns true if it needs what is there.
    #[inline]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }

    /// Returns true if it changes what is there.
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Calls `use_range` for each range that a block names, until one fails.
///
/// A launch names its program, which is never poisoned: every launch is given anew what it works
/// on.
#[inline]
pub(crate) fn try_each_of<E>(
    block: &ControlBlock,
    mut use_range: impl FnMut(&DeviceRange, MemoryAccess) -> Result<(), E>,
) -> Result<(), E> {
    if let ControlBlock::Launch { program, .. } = block {
        return use_range(&DeviceRange::start_of(*program, 0), MemoryAccess::Read);
    }
    let [read, written] = block.ranges();
    if let Some(range) = &read {
        use_range(range, MemoryAccess::Read)?;
    }
    if let Some(range) = &written {
        use_range(range, write_of(block))?;
    }
    Ok(())
}

/// Access of a block to the memory that it writes.
#[inline]
fn write_of(block: &ControlBlock) -> MemoryAccess {
    let nest = match block {
        ControlBlock::CopyToDevice(copy) => copy.nest.as_deref(),
        ControlBlock::CopyDevice(copy) => copy.nest.as_deref(),
        _ => None,
    };
    if nest.is_none_or(DmaNest::fills_target) {
        MemoryAccess::WriteAll
    } else {
        MemoryAccess::WritePart
    }
}
