/// Policy that chooses the stream whose block is started next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// One block of each stream in turn; a few, on a device where they are done at once.
    RoundRobin,
    /// Streams of high priority first, and those that they wait for; streams of one priority in turn.
    /// A block of high priority is started after at most one other; streams of low priority get at
    /// least one block in sixteen.
    #[default]
    Priority,
    /// Stays with a stream until it is empty or waits.
    DrainOne,
}

/// Urgency of a stream, where the policy asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// The usual.
    #[default]
    Low,
    /// Before the usual.
    High,
}
