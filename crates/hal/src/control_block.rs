use std::fmt;
use std::sync::Arc;

use spyre_layout::DmaNest;

use crate::{
    CheckedOperands, DeviceHandle, DeviceRange, EventCell, ExternalWork, HostSource, HostTarget,
    Label, Loan, PeerMemory, StagedCopy, StreamPoint,
};

/// More bytes than can be copied in a few milliseconds.
const LONG_BYTES: u64 = 32 << 20;

/// One thing for a device to do. It owns, or keeps alive, everything that it touches on the host.
///
/// It is moved about on the launch path, so it is small: what is large is boxed.
#[derive(Debug)]
pub enum ControlBlock {
    /// Host memory to device memory.
    CopyToDevice(Box<CopyToDevice>),
    /// A few bytes that were taken when the block was made, to device memory.
    CopyStaged(StagedCopy),
    /// Device memory to host memory.
    CopyFromDevice(Box<CopyFromDevice>),
    /// Device memory to device memory of the same card.
    CopyDevice(Box<CopyDevice>),
    /// Device memory to the memory of another card.
    CopyPeer(Box<CopyPeer>),
    /// A few bytes, again and again.
    Fill {
        /// Bytes to write.
        pattern: Pattern,
        /// Target range.
        target: DeviceRange,
    },
    /// A program that lies in device memory.
    Launch {
        /// Handle of the program.
        program: DeviceHandle,
        /// Name of the launch.
        label: Label,
        /// Fingerprint of the ranges that it uses, if the scheduler has checked them.
        checked_operands: CheckedOperands,
        /// True if it may take many milliseconds: a host that waits leaves it to a worker.
        is_long: bool,
    },
    /// A function of the host, in its turn.
    HostCallback(HostCallback),
    /// Work outside the card, in its turn.
    External(Box<ExternalWork>),
    /// Notes that the stream has come this far, and the time if there is a cell for it.
    RecordEvent(Option<Arc<EventCell>>),
    /// Waits until another stream has come that far.
    WaitEvent(StreamPoint),
}

/// Kind of [`ControlBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are the variants of ControlBlock")]
pub enum BlockKind {
    CopyToDevice,
    CopyFromDevice,
    CopyDevice,
    CopyPeer,
    Fill,
    Launch,
    HostCallback,
    External,
    RecordEvent,
    WaitEvent,
}

/// Host memory to device memory.
#[derive(Debug)]
pub struct CopyToDevice {
    /// The host's bytes: without a nest, at least as many as the target's.
    pub source: HostSource,
    /// Target range.
    pub target: DeviceRange,
    /// Permutation and conversion of elements; without it, bytes as they are.
    pub nest: Option<Arc<DmaNest>>,
}

/// Device memory to host memory.
#[derive(Debug)]
pub struct CopyFromDevice {
    /// Source range.
    pub source: DeviceRange,
    /// The host's bytes: without a nest, at least as many as the source's.
    pub target: HostTarget,
    /// Permutation and conversion of elements; without it, bytes as they are.
    pub nest: Option<Arc<DmaNest>>,
}

/// Device memory to device memory of the same card.
#[derive(Clone, Debug)]
pub struct CopyDevice {
    /// Source range.
    pub source: DeviceRange,
    /// Target range. The two do not overlap.
    pub target: DeviceRange,
    /// Permutation and conversion of elements; without it, bytes as they are.
    pub nest: Option<Arc<DmaNest>>,
}

/// Device memory to the memory of another card: bytes as they are.
#[derive(Clone, Debug)]
pub struct CopyPeer {
    /// Source range, on the card that carries the block out.
    pub source: DeviceRange,
    /// Memory of the other card.
    pub peer: Arc<dyn PeerMemory>,
    /// Target range, on the other card.
    pub target: DeviceRange,
}

/// One to four bytes that a fill repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    bytes: [u8; 4],
    length: u8,
}

/// A function of the host, and why it may fail.
pub struct HostCallback(Box<dyn FnOnce() -> Result<(), String> + Send>);

impl ControlBlock {
    /// A launch whose operands were not checked.
    #[inline(always)]
    pub fn launch(program: DeviceHandle, label: Label) -> Self {
        Self::Launch { program, label, checked_operands: CheckedOperands::NONE, is_long: false }
    }

    /// Sets whether a launch may take long; other blocks stay as they are.
    #[inline(always)]
    #[must_use]
    pub fn lasting(mut self, lasts: bool) -> Self {
        if let Self::Launch { is_long, .. } = &mut self {
            *is_long = lasts;
        }
        self
    }

    /// Returns true if it may take many milliseconds.
    #[inline]
    pub fn is_long(&self) -> bool {
        if let Self::Launch { is_long, .. } = self {
            return *is_long;
        }
        self.ranges().iter().flatten().any(|range| range.bytes > LONG_BYTES)
    }

    /// The loan of the host memory that it uses, if that is borrowed from a caller.
    #[inline]
    pub fn loan(&self) -> Option<&Arc<Loan>> {
        match self {
            Self::CopyToDevice(copy) => copy.source.loan(),
            Self::CopyFromDevice(copy) => copy.target.loan(),
            _ => None,
        }
    }

    /// Sets which operands of a launch were checked.
    #[inline]
    pub fn set_checked_operands(&mut self, by_scheduler: CheckedOperands) {
        if let Self::Launch { checked_operands, .. } = self {
            *checked_operands = by_scheduler;
        }
    }

    /// Kind of the block.
    #[inline]
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::CopyToDevice(_) | Self::CopyStaged(_) => BlockKind::CopyToDevice,
            Self::CopyFromDevice(_) => BlockKind::CopyFromDevice,
            Self::CopyDevice(_) => BlockKind::CopyDevice,
            Self::CopyPeer(_) => BlockKind::CopyPeer,
            Self::Fill { .. } => BlockKind::Fill,
            Self::Launch { .. } => BlockKind::Launch,
            Self::HostCallback(_) => BlockKind::HostCallback,
            Self::External(_) => BlockKind::External,
            Self::RecordEvent(_) => BlockKind::RecordEvent,
            Self::WaitEvent(_) => BlockKind::WaitEvent,
        }
    }

    /// Name of the block, if it is a launch or external work that has one.
    #[inline]
    pub fn label(&self) -> Label {
        match self {
            Self::Launch { label, .. } => *label,
            Self::External(work) => work.label(),
            _ => Label::default(),
        }
    }

    /// The ranges of the card's own memory that it names: what it reads, and what it writes.
    ///
    /// A launch names its program, of zero bytes: what the program touches, the program knows.
    #[inline]
    pub fn ranges(&self) -> [Option<DeviceRange>; 2] {
        match self {
            Self::CopyToDevice(copy) => [None, Some(copy.target)],
            Self::CopyStaged(copy) => [None, Some(copy.target())],
            Self::CopyFromDevice(copy) => [Some(copy.source), None],
            Self::CopyDevice(copy) => [Some(copy.source), Some(copy.target)],
            Self::CopyPeer(copy) => [Some(copy.source), None],
            Self::Fill { target, .. } => [None, Some(*target)],
            Self::Launch { program, .. } => [Some(DeviceRange::start_of(*program, 0)), None],
            Self::HostCallback(_)
            | Self::External(_)
            | Self::RecordEvent(_)
            | Self::WaitEvent(_) => [None, None],
        }
    }
}

impl Pattern {
    /// Repeats one to four bytes; `None` for fewer or more.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut pattern = Self { bytes: [0; 4], length: bytes.len() as u8 };
        let is_fitting = (1..=4).contains(&bytes.len());
        is_fitting.then(|| pattern.bytes[..bytes.len()].copy_from_slice(bytes))?;
        Some(pattern)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Writes it over all of `target`; a last piece may be cut short.
    pub fn fill(&self, target: &mut [u8]) {
        match self.bytes() {
            [byte] => target.fill(*byte),
            bytes => {
                for piece in target.chunks_mut(bytes.len()) {
                    piece.copy_from_slice(&bytes[..piece.len()]);
                }
            }
        }
    }
}

impl From<u8> for Pattern {
    fn from(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }
}

impl HostCallback {
    /// Will call `function` once. An error is a data fault of the stream.
    pub fn new(function: impl FnOnce() -> Result<(), String> + Send + 'static) -> Self {
        Self(Box::new(function))
    }

    /// Calls it.
    pub fn call(self) -> Result<(), String> {
        (self.0)()
    }
}

impl fmt::Debug for HostCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostCallback")
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CopyToDevice => "copy to device",
            Self::CopyFromDevice => "copy from device",
            Self::CopyDevice => "copy on device",
            Self::CopyPeer => "copy to peer",
            Self::Fill => "fill",
            Self::Launch => "launch",
            Self::HostCallback => "host callback",
            Self::External => "external work",
            Self::RecordEvent => "event record",
            Self::WaitEvent => "event wait",
        })
    }
}

/// A slot of a queue is one cache line, with its state.
const _: () = assert!(size_of::<ControlBlock>() <= 48);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_repeats_and_may_be_cut_short() {
        let mut bytes = [0; 7];
        Pattern::new(&[1, 2, 3]).expect("three bytes").fill(&mut bytes);
        assert_eq!(bytes, [1, 2, 3, 1, 2, 3, 1]);
        Pattern::from(9).fill(&mut bytes);
        assert_eq!(bytes, [9; 7]);
        assert_eq!(Pattern::new(&[]), None);
        assert_eq!(Pattern::new(&[0; 5]), None);
    }
}
