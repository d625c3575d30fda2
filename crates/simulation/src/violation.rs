use std::fmt;

/// A promise that was broken, with the seed that shows it and what happened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise that was broken.
    pub promise: Promise,
    /// Description of what was seen.
    pub message: String,
    /// The seed; zero until the run is over.
    pub seed: u64,
    /// Number of operations that were made.
    pub operations: u64,
    /// The end of the log.
    pub tail: Vec<String>,
}

/// Promise of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Memory that a block may still touch is not given to another stream.
    NoUseAfterFree,
    /// Every block ends.
    NoneLost,
    /// Every block ends once.
    NoneDoubled,
    /// A block starts when the one before it in its stream has ended, and what it waits for.
    InOrder,
    /// Bytes are where they were written.
    RightBytes,
    /// A fault is reported to the callers whom it concerns, with its first cause, and to no others.
    RightFault,
    /// Calls that a caller gets wrong are refused, and no others are.
    RightRefusal,
    /// Memory that cancelled work was to write is refused to readers.
    NoSilentResult,
    /// Memory numbers add up.
    RightNumbers,
    /// Only blocks that hang are aborted.
    NoFalseAlarm,
    /// Every caller that waits is woken.
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
