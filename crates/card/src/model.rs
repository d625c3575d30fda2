use spyre_artifact::cost::{Pattern, Work};

/// What a kernel moves and multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Bytes of device memory, in whole sticks, each tensor once.
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) products: u64,
}

impl Traffic {
    /// What it takes on a real card to go over memory in this way.
    pub(crate) fn nanoseconds(self, pattern: Pattern) -> u64 {
        let Self { read_bytes, written_bytes, products } = self;
        Work { read_bytes, written_bytes, products, partial_sums: 0, pattern }.nanoseconds()
    }
}
