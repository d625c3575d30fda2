use spyre_artifact::cost::{Pattern, Work};

/// Bytes that a kernel moves, and products that it computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Bytes of device memory, in whole sticks, each tensor once.
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) products: u64,
}

impl Traffic {
    /// Modelled nanoseconds on a real card, for this pattern of memory accesses.
    pub(crate) fn nanoseconds(self, pattern: Pattern) -> u64 {
        let Self { read_bytes, written_bytes, products } = self;
        Work { read_bytes, written_bytes, products, partial_sums: 0, pattern }.nanoseconds()
    }
}
