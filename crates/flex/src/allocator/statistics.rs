use spyre_hal::RegionId;

use super::BlockState;
use super::blocks::Block;
use crate::BLOCK_BYTES;

/// Bytes that an allocator has given out, keeps and has free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Given out now.
    pub allocated_bytes: u64,
    /// The most that was given out at a time.
    pub peak_allocated_bytes: u64,
    /// Blocks given out now.
    pub allocations: u64,
    /// Blocks ever given out.
    pub total_allocations: u64,
    /// Taken from the card: regions.
    pub reserved_bytes: u64,
    /// Freed, and kept for requests of the same size.
    pub cached_bytes: u64,
    /// Free in the regions.
    pub free_bytes: u64,
    /// The largest free block of the regions.
    pub largest_free_bytes: u64,
}

impl Statistics {
    /// The share of free memory that the largest free block does not hold.
    pub fn fragmentation(&self) -> f64 {
        match self.free_bytes {
            0 => 0.0,
            free => 1.0 - self.largest_free_bytes as f64 / free as f64,
        }
    }

    #[inline]
    pub(super) fn allocate(&mut self, bytes: u64) {
        self.allocated_bytes += bytes;
        self.peak_allocated_bytes = self.peak_allocated_bytes.max(self.allocated_bytes);
        self.allocations += 1;
        self.total_allocations += 1;
    }

    #[inline]
    pub(super) fn free(&mut self, bytes: u64) {
        self.allocated_bytes -= bytes;
        self.allocations -= 1;
    }

    /// Counts that stay after a reset.
    pub(super) fn totals(&self) -> Self {
        Self { total_allocations: self.total_allocations, ..Self::default() }
    }
}

/// A block in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Index of the region of the card, as handles show it in VF mode.
    pub region: u16,
    /// Offset from the start of the region.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// State of the block.
    pub state: BlockState,
}

impl BlockInfo {
    pub(super) fn of(block: &Block, region: RegionId) -> Option<Self> {
        Some(Self {
            region: region.0,
            offset_bytes: block.offset * BLOCK_BYTES,
            bytes: block.units * BLOCK_BYTES,
            state: block.state?,
        })
    }
}
