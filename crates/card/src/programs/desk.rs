use super::registers::Registers;
use super::shelf::Shelf;

/// Buffers that launches use one after another, so that none takes memory once it is warm.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) registers: Registers,
    /// Elements on their way, in their storage format.
    pub(super) raw: Vec<u8>,
    pub(super) shelf: Shelf,
}

/// What a desk may hold between two launches: as much as a core's LX, and as much again for what is
/// kept from loop to loop.
const MOST_BYTES: usize = 4 << 20;

/// What an instance may keep to itself.
const SMALL_BYTES: usize = 64 << 10;

impl Desk {
    pub(super) fn is_empty(&self) -> bool {
        self.registers.is_empty()
    }

    pub(super) fn is_small(&self) -> bool {
        self.capacity_bytes() <= SMALL_BYTES
    }

    fn capacity_bytes(&self) -> usize {
        self.raw.capacity() + self.registers.capacity_bytes() + self.shelf.capacity_bytes()
    }

    pub(super) fn is_worth_keeping(&self) -> bool {
        self.capacity_bytes() <= MOST_BYTES
    }
}
