use spyre_hal::{BlockKind, Label, StreamPoint};

use super::CauseId;

/// A block as the oracle knows it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Identity by which the card recognises it; `None` for blocks that never reach the card.
    pub(crate) identity: Option<u64>,
    pub(crate) kind: BlockKind,
    pub(crate) label: Label,
    pub(crate) effect: Effect,
    pub(crate) state: State,
}

/// Effect of a block on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Bytes that follow from a number: see [`payload`].
    Write {
        to: Span,
        number: u64,
    },
    Fill {
        to: Span,
        pattern: [u8; 4],
    },
    Copy {
        from: Span,
        to: Span,
    },
    Read {
        from: Span,
    },
    /// Adds one to the first word of its program.
    Count {
        program: usize,
    },
    WaitFor(StreamPoint),
}

impl Effect {
    /// The bytes that it writes, but for those that programs count in.
    pub(crate) fn target(self) -> Option<Span> {
        match self {
            Self::Write { to, .. } | Self::Fill { to, .. } | Self::Copy { to, .. } => Some(to),
            Self::None | Self::Read { .. } | Self::Count { .. } | Self::WaitFor(_) => None,
        }
    }
}

/// Some bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) allocation: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Progress of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    Running,
    Done,
    Failed(CauseId),
    Cancelled(CauseId),
}

impl Block {
    pub(crate) fn new(kind: BlockKind, identity: Option<u64>, effect: Effect) -> Self {
        Self { identity, kind, label: Label::default(), effect, state: State::Queued }
    }

    /// The allocations that it names.
    pub(crate) fn allocations(&self) -> [Option<usize>; 2] {
        match self.effect {
            Effect::None | Effect::WaitFor(_) => [None, None],
            Effect::Write { to, .. } | Effect::Fill { to, .. } => [None, Some(to.allocation)],
            Effect::Copy { from, to } => [Some(from.allocation), Some(to.allocation)],
            Effect::Read { from } => [Some(from.allocation), None],
            Effect::Count { program } => [Some(program), None],
        }
    }
}

impl State {
    pub(crate) fn cause(self) -> Option<CauseId> {
        match self {
            Self::Failed(cause) | Self::Cancelled(cause) => Some(cause),
            _ => None,
        }
    }

    pub(crate) fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// The bytes that a write of a number brings: the number itself, then variations of it.
pub(crate) fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let number = number.to_le_bytes();
    (0..bytes).map(|at| number[at % 8] ^ (at / 8) as u8).collect()
}
