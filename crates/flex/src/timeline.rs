use std::fmt::Debug;

use spyre_hal::StreamPoint;

/// The last control block of a stream that touches an allocation.
pub type LastUse = StreamPoint;

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
