use super::registers::Registers;

/// Buffers that launches use one after another, so that none takes memory once it is warm.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) registers: Registers,
    /// Elements on their way, in their storage format.
    pub(super) raw: Vec<u8>,
    pub(super) words: Vec<u64>,
}

/// What a desk may hold between two launches: as much as a core's LX.
const MOST_BYTES: usize = 2 << 20;

impl Desk {
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.raw.capacity() + self.registers.capacity_bytes() <= MOST_BYTES
    }
}
