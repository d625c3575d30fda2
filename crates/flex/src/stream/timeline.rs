use std::fmt::Debug;
use std::sync::Arc;

use spyre_hal::StreamPoint;

use crate::StreamFault;

/// The last control block of a stream that touches an allocation.
pub type LastUse = StreamPoint;

/// Timelines of a card's streams: how far each has come.
pub trait Timelines: Debug + Send + Sync {
    /// Returns true if the block of this use has completed. Once it has, it stays so.
    fn is_done(&self, last_use: LastUse) -> bool;

    /// Returns true if a stream has failed, and was not let go on since.
    fn are_failing(&self) -> bool {
        false
    }

    /// The first cause of why the block of this use did not end well, if that is so, and the stream was
    /// not let go on since.
    fn failure_of(&self, _: LastUse) -> Option<Arc<StreamFault>> {
        None
    }
}

/// A card with nothing under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Timelines for Idle {
    fn is_done(&self, _: LastUse) -> bool {
        true
    }
}
