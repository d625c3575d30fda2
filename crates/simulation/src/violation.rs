use std::fmt;

/// A promise that was broken, with the seed that shows it and what happened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: Promise,
    /// What was seen.
    pub message: String,
    /// The seed; zero until the run is over.
    pub seed: u64,
    /// How many operations were made.
    pub operations: u64,
    /// The end of the log.
    pub tail: Vec<String>,
}

/// What the runtime promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Memory that a block may still touch is not given to somebody else.
    NoUseAfterFree,
    /// Every block ends.
    NoneLost,
    /// Every block ends once.
    NoneDoubled,
    /// A block starts when the one before it in its stream has ended, and what it waits for.
    InOrder,
    /// Bytes are where they were written.
    RightBytes,
    /// A fault is told to whom it concerns, with its first cause, and to nobody else.
    RightFault,
    /// What a caller gets wrong is refused, and nothing else is.
    RightRefusal,
    /// Memory that cancelled work was to write is refused to readers.
    NoSilentResult,
    /// Memory numbers add up.
    RightNumbers,
    /// Only blocks that hang are aborted.
    NoFalseAlarm,
    /// Whoever waits is woken.
    NoDeadlock,
}

impl Violation {
    pub(crate) fn new(promise: Promise, message: impl Into<String>) -> Self {
        Self { promise, message: message.into(), seed: 0, operations: 0, tail: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "  {line}")?;
        }
        let Self { promise, message, seed, operations, .. } = self;
        write!(f, "seed {seed}, after {operations} operations: {promise:?} broken: {message}")
    }
}

impl std::error::Error for Violation {}
