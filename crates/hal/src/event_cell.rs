use std::sync::atomic::{AtomicU64, Ordering};

/// Index of a stream on its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamIndex(pub u16);

/// A control block by its place: the stream, and its number there, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamPoint {
    /// The stream.
    pub stream: StreamIndex,
    /// The block's number in it.
    pub sequence: u64,
}

/// Time at which an event was reached: what a record block leaves behind.
///
/// It has its cache lines to itself: the thread that reaches it writes here, the one that records it
/// counts references.
#[derive(Debug)]
#[repr(align(128))]
pub struct EventCell {
    reached_at: AtomicU64,
}

/// No time yet.
const NEVER: u64 = u64::MAX;

impl EventCell {
    /// Notes the time, in nanoseconds of the runtime's clock.
    pub fn reach(&self, nanoseconds: u64) {
        self.reached_at.store(nanoseconds, Ordering::Release);
    }

    /// The time of the record that was reached last, in nanoseconds.
    pub fn reached_at(&self) -> Option<u64> {
        Some(self.reached_at.load(Ordering::Acquire)).filter(|&time| time != NEVER)
    }
}

impl Default for EventCell {
    fn default() -> Self {
        Self { reached_at: AtomicU64::new(NEVER) }
    }
}
