/// Inputs of one kind, and what they are tried on. A broken promise is a panic.
pub(crate) trait Attack {
    /// Tries the input of this seed.
    fn input(&mut self, seed: u64) -> Verdict;
}

/// Outcome of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An error, before anything was queued.
    Refused,
    /// It was taken, and ended well.
    Ran,
    /// It was taken, and failed its stream.
    Faulted,
}

/// Outcome of an input, and the most bytes that it may have taken at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) most_bytes: usize,
}

/// Most bytes that programs may take at once for their tiles.
const MOST_BYTES: usize = 256 << 20;

impl Verdict {
    /// Verdict on an input that was only read: memory in proportion to it.
    pub(crate) fn read(outcome: Outcome, input_bytes: usize) -> Self {
        Self { outcome, most_bytes: (1 << 20) + 64 * input_bytes }
    }

    /// Verdict on an input that was launched.
    pub(crate) fn launched(outcome: Outcome) -> Self {
        Self { outcome, most_bytes: MOST_BYTES }
    }
}
