use crate::programs::execute::registers::Registers;
use crate::programs::schedule::tile_cache::TileCache;
use crate::programs::strips::buffers::StripBuffers;

/// Buffers that launches use one after another, so that none takes memory once it is warm.
#[derive(Debug, Default)]
pub(in crate::programs) struct LaunchBuffers {
    pub(in crate::programs) registers: Registers,
    /// Elements on their way, in their storage format.
    pub(in crate::programs) raw: Vec<u8>,
    pub(in crate::programs) tile_cache: TileCache,
    pub(in crate::programs) strips: StripBuffers,
}

/// Bytes that buffers may hold between two launches: as much as a core's LX, and as much again for tiles that
/// are kept from loop to loop.
const MOST_BYTES: usize = 4 << 20;

/// Bytes that an instance may keep to itself.
const SMALL_BYTES: usize = 64 << 10;

impl LaunchBuffers {
    pub(in crate::programs) fn is_empty(&self) -> bool {
        self.registers.is_empty()
    }

    pub(in crate::programs) fn is_small(&self) -> bool {
        self.capacity_bytes() <= SMALL_BYTES
    }

    fn capacity_bytes(&self) -> usize {
        self.raw.capacity()
            + self.registers.capacity_bytes()
            + self.tile_cache.capacity_bytes()
            + self.strips.capacity_bytes()
    }

    pub(in crate::programs) fn is_worth_keeping(&self) -> bool {
        self.capacity_bytes() <= MOST_BYTES
    }
}
