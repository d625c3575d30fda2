use std::convert::Infallible;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_hal::{
    BlockKind, ControlBlock, CopyDevice, CopyPeer, DeviceHandle, DeviceRange, Label, Pattern,
    StagingPool, StreamPoint,
};

use crate::stream::memory_use::try_each_of;
use crate::{Error, FailureEpoch, FlexStream, MemoryUse};

/// A composed list of control blocks: appended to while it is open, then finalized, then replayed
/// as often as one likes, each time as one reservation.
///
/// Blocks that can be carried out again can be appended: launches, fills, copies on the device and
/// to a peer, and copies of bytes that were staged. What they name is checked at every replay.
///
/// ```
/// use std::sync::Arc;
/// use spyre_flex::{Context, ControlBlockStream, Priority};
/// use spyre_hal::{ControlBlock, DeviceRange, Label, NullCard};
///
/// let context = Context::open(Arc::new(NullCard::new()))?;
/// let stream = context.stream(Priority::Low)?;
/// let program = stream.allocate(4096)?;
///
/// let mut blocks = ControlBlockStream::new();
/// blocks.append(stream.stage(&[1, 2, 3, 4], DeviceRange::start_of(program, 4)))?;
/// blocks.append(ControlBlock::launch(program, Label::named("matmul")))?;
/// blocks.finalize()?;
/// for _ in 0..3 {
///     blocks.replay(&stream)?;
/// }
/// stream.synchronize()?;
/// # Ok::<(), spyre_flex::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ControlBlockStream {
    blocks: Vec<Composed>,
    uses: Vec<(u64, MemoryUse)>,
    is_final: bool,
}

/// A block that can be made again and again.
#[derive(Clone, Debug)]
enum Composed {
    Stage { bytes: Arc<[u8]>, target: DeviceRange },
    CopyDevice(Box<CopyDevice>),
    CopyPeer(Box<CopyPeer>),
    Fill { pattern: Pattern, target: DeviceRange },
    Launch { program: DeviceHandle, label: Label },
}

impl ControlBlockStream {
    /// An empty list, open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns true if it holds no block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns true if it can be replayed.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Adds a block at the end.
    pub fn append(&mut self, block: ControlBlock) -> Result<(), Error> {
        if self.is_final {
            let remedy = "compose a new one";
            return Err(Error::Composition { state: "finalized", remedy });
        }
        crate::scheduler::check_shape(&block)?;
        let nth = self.blocks.len() as u64;
        let mut uses: SmallVec<[MemoryUse; 2]> = SmallVec::new();
        let Ok(()) = try_each_of(&block, |&range, access| {
            uses.push(MemoryUse { range, access });
            Ok::<(), Infallible>(())
        });
        self.blocks.push(Composed::from_block(block)?);
        self.uses.extend(uses.into_iter().map(|used| (nth, used)));
        Ok(())
    }

    /// Adds a block that uses memory besides what it names, as programs use that of their operands.
    pub fn append_using(&mut self, block: ControlBlock, uses: &[MemoryUse]) -> Result<(), Error> {
        let nth = self.blocks.len() as u64;
        self.append(block)?;
        self.uses.extend(uses.iter().map(|&used| (nth, used)));
        Ok(())
    }

    /// Adds the blocks of another list that is open, with what they use.
    pub fn extend(&mut self, other: Self) -> Result<(), Error> {
        if self.is_final || other.is_final {
            let remedy = "compose a new one";
            return Err(Error::Composition { state: "finalized", remedy });
        }
        let first = self.blocks.len() as u64;
        self.blocks.extend(other.blocks);
        self.uses.extend(other.uses.into_iter().map(|(nth, used)| (first + nth, used)));
        Ok(())
    }

    /// An open list of the blocks from this one on, with what they use.
    #[must_use]
    pub fn part_from(&self, first: usize) -> Self {
        let blocks = self.blocks.iter().skip(first).cloned().collect();
        let at = |&(nth, used): &(u64, MemoryUse)| Some((nth.checked_sub(first as u64)?, used));
        Self { blocks, uses: self.uses.iter().filter_map(at).collect(), is_final: false }
    }

    /// Ends the composing.
    pub fn finalize(&mut self) -> Result<(), Error> {
        if self.blocks.is_empty() {
            let remedy = "append blocks before it is finalized";
            return Err(Error::Composition { state: "empty", remedy });
        }
        self.is_final = true;
        Ok(())
    }

    /// Queues all blocks on a stream, as one.
    pub fn replay(&self, stream: &FlexStream) -> Result<StreamPoint, Error> {
        self.check_final()?;
        let blocks = self.blocks_for(stream);
        stream.scheduler().queue_known(stream.lane(), self.count(), &self.uses, blocks)
    }

    /// Queues all blocks on a stream, as one, for blocks that rely on others that were queued since a mark was taken:
    /// see [`FlexStream::submit_unless_failed_since`]. `None` if the stream has failed since.
    pub fn replay_unless_failed_since(
        &self,
        stream: &FlexStream,
        epoch: FailureEpoch,
    ) -> Result<Option<StreamPoint>, Error> {
        self.check_final()?;
        let known = (self.count(), self.uses.as_slice());
        let blocks = self.blocks_for(stream);
        stream.scheduler().queue_known_unless_failed_since(stream.lane(), epoch.0, known, blocks)
    }

    fn check_final(&self) -> Result<(), Error> {
        let open = Error::Composition { state: "open", remedy: "finalize it first" };
        self.is_final.then_some(()).ok_or(open)
    }

    fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn blocks_for(&self, stream: &FlexStream) -> impl Iterator<Item = ControlBlock> {
        let staging = &stream.lane().staging;
        self.blocks.iter().map(|block| block.to_block(staging))
    }
}

impl Composed {
    fn from_block(block: ControlBlock) -> Result<Self, Error> {
        Ok(match block {
            ControlBlock::CopyStaged(copy) => {
                Self::Stage { bytes: copy.bytes().into(), target: copy.target() }
            }
            ControlBlock::CopyDevice(copy) => Self::CopyDevice(copy),
            ControlBlock::CopyPeer(copy) => Self::CopyPeer(copy),
            ControlBlock::Fill { pattern, target } => Self::Fill { pattern, target },
            ControlBlock::Launch { program, label, .. } => Self::Launch { program, label },
            other => return Err(not_again(other.kind())),
        })
    }

    #[inline]
    fn to_block(&self, staging: &Arc<StagingPool>) -> ControlBlock {
        match self {
            Self::Stage { bytes, target } => {
                ControlBlock::CopyStaged(staging.stage(bytes, *target))
            }
            Self::CopyDevice(copy) => ControlBlock::CopyDevice(copy.clone()),
            Self::CopyPeer(copy) => ControlBlock::CopyPeer(copy.clone()),
            &Self::Fill { pattern, target } => ControlBlock::Fill { pattern, target },
            &Self::Launch { program, label } => ControlBlock::launch(program, label),
        }
    }
}

fn not_again(kind: BlockKind) -> Error {
    Error::NotReplayable { kind }
}
