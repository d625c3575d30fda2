use std::fmt::Debug;

/// Which stream of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamIndex(pub u16);

/// The last control block of a stream that touches an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastUse {
    /// The stream.
    pub stream: StreamIndex,
    /// The block's number in it.
    pub sequence: u64,
}

/// How far the streams of a card have come.
pub trait Timelines: Debug + Send + Sync {
    /// Whether the block of this use has completed. Once it has, it stays so.
    fn is_done(&self, last_use: LastUse) -> bool;
}

/// A card with nothing under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Timelines for Idle {
    fn is_done(&self, _: LastUse) -> bool {
        true
    }
}
