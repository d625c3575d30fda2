use std::sync::{Arc, OnceLock};

use spyre_hal::{ControlBlock, StagingPool, StreamIndex, StreamPoint};

use crate::allocator::StreamAllocationCache;
use crate::stream::failures::Failures;
use crate::stream::fences;
use crate::stream::poison::PoisonWatch;
use crate::stream::ring::{Line, Ring, RingSizes};
use crate::stream::timeline::Timelines;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::{Priority, StreamFault};

/// A control block in its queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) block: ControlBlock,
    /// Time when it was queued, if that is being traced.
    pub(crate) queued_at: u64,
}

impl Entry {
    /// Returns true if a device carries it out, rather than the scheduler or the host.
    #[inline]
    pub(crate) fn is_for_device(&self) -> bool {
        !matches!(
            self.block,
            ControlBlock::RecordEvent(_)
                | ControlBlock::WaitEvent(_)
                | ControlBlock::HostCallback(_)
                | ControlBlock::External(_)
        )
    }
}

/// A stream, as every thread may see it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) index: StreamIndex,
    pub(crate) priority: Priority,
    pub(crate) ring: Ring<Entry>,
    /// The number of the last block that has ended: all before it have, too.
    completed: Line<AtomicU64>,
    /// Allocations whose uses are noted here.
    pub(crate) allocation_cache: Arc<StreamAllocationCache>,
    /// Buffers for small copies.
    pub(crate) staging: Arc<StagingPool>,
    /// True if the scheduler knows that there may be something in the ring.
    pub(crate) is_listed: AtomicBool,
    /// True if a block of it ever failed.
    pub(crate) has_failed: AtomicBool,
    /// First block of each failing range, with its cause.
    pub(crate) failures: Failures,
    /// The card's, set while any of its streams is failing.
    pub(crate) poison_watch: Arc<PoisonWatch>,
    /// Number of times that it failed, or was let go on after that.
    pub(crate) failure_epoch: AtomicU64,
    /// True if new blocks are refused.
    pub(crate) is_refusing: AtomicBool,
}

impl Lane {
    /// Notes that blocks run again behind those that are cancelled, and gives the last of these: the
    /// last that is queued. Places that are taken from now on are of a [new epoch](Self::is_unfailed_since).
    pub(crate) fn bump_failure_epoch(&self) -> u64 {
        self.failure_epoch.fetch_add(1, Ordering::AcqRel);
        fences::heavy();
        self.ring.reserved()
    }

    /// Like [`bump_failure_epoch`](Self::bump_failure_epoch), after the last failure: none is open
    /// now.
    pub(crate) fn go_on(&self) -> u64 {
        let until = self.bump_failure_epoch();
        self.failures.end(until);
        until
    }

    /// Returns true if the lane has not failed, or been let go on, since this `failure_epoch`.
    /// Asked after blocks were given their places: then they are cancelled if any block since that
    /// epoch was.
    #[inline]
    pub(crate) fn is_unfailed_since(&self, epoch: u64) -> bool {
        fences::light();
        self.failure_epoch.load(Ordering::Acquire) == epoch
    }

    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.0.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn complete(&self, sequence: u64) {
        self.completed.0.store(sequence, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_done(&self, sequence: u64) -> bool {
        self.completed() >= sequence
    }
}

/// Streams in a row that are made together.
const CHUNK: usize = 64;

type Chunk = [OnceLock<Arc<Lane>>; CHUNK];

/// All lanes of a card, by index. A lane stays for as long as the card, and is used again.
#[derive(Debug)]
pub(crate) struct StreamTable {
    chunks: [OnceLock<Box<Chunk>>; CHUNK],
    free: Mutex<Free>,
    poison_watch: Arc<PoisonWatch>,
}

#[derive(Debug, Default)]
struct Free {
    made: usize,
    by_priority: [Vec<StreamIndex>; 2],
}

impl StreamTable {
    /// Number of streams that a card can have.
    pub(crate) const STREAMS: usize = CHUNK * CHUNK;

    pub(crate) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNK],
            free: Mutex::default(),
            poison_watch: Arc::default(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: StreamIndex) -> Option<&Arc<Lane>> {
        let at = usize::from(index.0);
        self.chunks.get(at / CHUNK)?.get()?[at % CHUNK].get()
    }

    /// A lane that no stream has, and whether it is new; `None` if there are too many.
    ///
    /// One with blocks of its last owner in it is given out only if there is no other: if they
    /// fail, the next owner's are cancelled.
    pub(crate) fn open(&self, priority: Priority, sizes: RingSizes) -> Option<(Arc<Lane>, bool)> {
        let mut free = self.free.lock();
        let is_last = free.made == Self::STREAMS;
        let is_idle =
            |index: &StreamIndex| self.get(*index).is_some_and(|l| l.is_done(l.ring.reserved()));
        let unused = &mut free.by_priority[priority as usize];
        if let Some(at) = unused.iter().rposition(|index| is_idle(index) || is_last) {
            let index = unused.remove(at);
            return self.get(index).map(|lane| (Arc::clone(lane), false));
        }
        if is_last {
            return None;
        }
        let watch = Arc::clone(&self.poison_watch);
        let lane = Arc::new(Lane::new(StreamIndex(free.made as u16), priority, sizes, watch));
        let chunk = self.chunks[free.made / CHUNK]
            .get_or_init(|| Box::new([const { OnceLock::new() }; CHUNK]));
        chunk[free.made % CHUNK].get_or_init(|| Arc::clone(&lane));
        free.made += 1;
        Some((lane, true))
    }

    /// Gives a lane back. Its blocks may still be queued: the next owner's come behind them.
    pub(crate) fn close(&self, lane: &Lane) {
        self.free.lock().by_priority[lane.priority as usize].push(lane.index);
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter().map_while(OnceLock::get))
    }
}

impl Timelines for StreamTable {
    #[inline]
    fn is_done(&self, last_use: StreamPoint) -> bool {
        self.get(last_use.stream).is_none_or(|lane| lane.is_done(last_use.sequence))
    }

    fn are_failing(&self) -> bool {
        self.lanes().any(|lane| lane.failures.are_open())
    }

    fn failure_of(&self, last_use: StreamPoint) -> Option<Arc<StreamFault>> {
        let lane = self.get(last_use.stream)?;
        let is_done = lane.is_done(last_use.sequence);
        lane.failures.cause_of(last_use.sequence).filter(|_| is_done)
    }
}

impl Lane {
    fn new(
        index: StreamIndex,
        priority: Priority,
        sizes: RingSizes,
        poison_watch: Arc<PoisonWatch>,
    ) -> Self {
        Self {
            index,
            priority,
            ring: Ring::new(sizes),
            completed: Line(AtomicU64::new(0)),
            allocation_cache: Arc::default(),
            staging: StagingPool::new(),
            is_listed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            failures: Failures::default(),
            poison_watch,
            failure_epoch: AtomicU64::new(0),
            is_refusing: AtomicBool::new(false),
        }
    }
}
