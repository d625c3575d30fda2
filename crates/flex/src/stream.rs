//! Streams: their queues of blocks, events, failures and the table that all threads see.

pub(crate) mod card_wait;
mod control_block_stream;
mod event;
pub(crate) mod failures;
mod fault;
pub(crate) mod fences;
pub(crate) mod memory_use;
pub(crate) mod poison;
pub(crate) mod ring;
pub(crate) mod table;
pub(crate) mod timeline;

use std::sync::Arc;

use spyre_hal::{
    ControlBlock, CopyDevice, CopyFromDevice, CopyPeer, CopyToDevice, DeviceHandle, DeviceRange,
    ExternalWork, HostBuffer, HostCallback, HostSource, HostTarget, Label, Pattern, StagingPool,
    StreamIndex, StreamPoint,
};
use spyre_layout::DmaNest;

pub use control_block_stream::ControlBlockStream;
pub use event::Event;
pub use fault::StreamFault;
pub use memory_use::{MemoryAccess, MemoryUse};
pub use timeline::{Idle, LastUse, Timelines};

use crate::context::{Context, Handle};
use crate::sync::Ordering;
use crate::{Error, Priority, Scheduler};
use table::Lane;

/// A queue of work for a card: blocks of one stream are carried out one after another, those of
/// different streams in any order.
///
/// Every method but [`synchronize`](Self::synchronize) returns at once; if a queue is at its bound,
/// far past normal use, the next submission waits for room. Errors of a caller are reported at the
/// call, and then nothing was queued. What goes wrong later is reported by the next synchronizing
/// call: `synchronize`, `query`, or waiting for a ticket or an event.
///
/// Dropping a stream does not stop its work.
#[derive(Debug)]
pub struct FlexStream {
    handle: Arc<Handle>,
    lane: Arc<Lane>,
}

/// Count of a stream's failures at a moment, to tell whether it has failed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureEpoch(pub(crate) u64);

/// A block that was queued.
#[derive(Clone, Debug)]
pub struct Ticket {
    handle: Arc<Handle>,
    point: StreamPoint,
}

impl FlexStream {
    pub(crate) fn open(handle: &Arc<Handle>, priority: Priority) -> Result<Self, Error> {
        let lane = handle.scheduler.open_lane(priority)?;
        Ok(Self { handle: Arc::clone(handle), lane })
    }

    /// Its number on the card.
    pub fn index(&self) -> StreamIndex {
        self.lane.index
    }

    /// Priority of the stream.
    pub fn priority(&self) -> Priority {
        self.lane.priority
    }

    /// The most blocks that can be queued at once.
    pub fn queue_bound(&self) -> u64 {
        self.lane.ring.bound()
    }

    /// Device memory, for use on this stream first. If memory is short because streams still use
    /// what was freed, it waits for them once.
    pub fn allocate(&self, bytes: u64) -> Result<DeviceHandle, Error> {
        let scheduler = &self.handle.scheduler;
        scheduler.check_process()?;
        scheduler.allocator().allocate_or_drain(bytes, self.lane.index, || scheduler.drain())
    }

    /// Device memory for programs, which the card guards; see
    /// [`FlexAllocator::allocate_program`](crate::FlexAllocator::allocate_program).
    pub fn allocate_program(&self, bytes: u64) -> Result<DeviceHandle, Error> {
        let scheduler = &self.handle.scheduler;
        scheduler.check_process()?;
        scheduler.allocator().allocate_program_or_drain(bytes, || scheduler.drain())
    }

    /// Host memory to device memory.
    pub fn copy_to_device(
        &self,
        source: impl Into<Lent<HostSource>>,
        target: DeviceRange,
    ) -> Result<StreamPoint, Error> {
        self.copy_in(source.into(), target, None)
    }

    /// Host memory to device memory, permuted and converted by a nest.
    pub fn copy_to_device_with(
        &self,
        nest: &Arc<DmaNest>,
        source: impl Into<Lent<HostSource>>,
        target: DeviceRange,
    ) -> Result<StreamPoint, Error> {
        self.copy_in(source.into(), target, Some(Arc::clone(nest)))
    }

    /// A few bytes, which are taken before the call returns, to device memory.
    ///
    /// The stream keeps 64 buffers for that. Of copies that are queued at once, which the bound of the
    /// queue limits, those past 64 take theirs from the heap and give it back when they are done.
    pub fn copy_staged(&self, bytes: &[u8], target: DeviceRange) -> Result<StreamPoint, Error> {
        self.handle.scheduler.check_process()?;
        self.submit([self.stage(bytes, target)])
    }

    /// Makes the copy of [`copy_staged`](Self::copy_staged) as a block, to be submitted with
    /// others.
    #[inline]
    pub fn stage(&self, bytes: &[u8], target: DeviceRange) -> ControlBlock {
        if self.handle.scheduler.check_process().is_err() {
            // It will be refused; the pool's lock may be held by a thread of the parent.
            return ControlBlock::CopyStaged(StagingPool::new().stage(bytes, target));
        }
        ControlBlock::CopyStaged(self.lane.staging.stage(bytes, target))
    }

    /// Device memory to host memory.
    pub fn copy_from_device(
        &self,
        source: DeviceRange,
        target: impl Into<Lent<HostTarget>>,
    ) -> Result<StreamPoint, Error> {
        self.copy_out(source, target.into(), None)
    }

    /// Device memory to host memory, permuted and converted by a nest.
    pub fn copy_from_device_with(
        &self,
        nest: &Arc<DmaNest>,
        source: DeviceRange,
        target: impl Into<Lent<HostTarget>>,
    ) -> Result<StreamPoint, Error> {
        self.copy_out(source, target.into(), Some(Arc::clone(nest)))
    }

    /// Device memory to device memory of the same card, as it is or by a nest.
    pub fn copy_on_device(
        &self,
        source: DeviceRange,
        target: DeviceRange,
        nest: Option<Arc<DmaNest>>,
    ) -> Result<StreamPoint, Error> {
        self.submit([ControlBlock::CopyDevice(Box::new(CopyDevice { source, target, nest }))])
    }

    /// Device memory to the memory of another card. The target must be a live allocation there, and
    /// stay so: if it is gone when the bytes come, the copy fails.
    pub fn copy_to_peer(
        &self,
        source: DeviceRange,
        peer: &Context,
        target: DeviceRange,
    ) -> Result<StreamPoint, Error> {
        self.handle.scheduler.check_process()?;
        peer.allocator().check(target.handle, target.offset, target.bytes)?;
        let peer = peer.as_peer();
        self.submit([ControlBlock::CopyPeer(Box::new(CopyPeer { source, peer, target }))])
    }

    /// One to four bytes, again and again.
    pub fn fill(
        &self,
        target: DeviceRange,
        pattern: impl Into<Pattern>,
    ) -> Result<StreamPoint, Error> {
        self.submit([ControlBlock::Fill { pattern: pattern.into(), target }])
    }

    /// The program that lies at a handle.
    #[inline]
    pub fn launch(&self, program: DeviceHandle) -> Result<StreamPoint, Error> {
        self.launch_labelled(program, Label::default())
    }

    /// The program that lies at a handle, called by a name.
    #[inline]
    pub fn launch_labelled(
        &self,
        program: DeviceHandle,
        label: Label,
    ) -> Result<StreamPoint, Error> {
        let launch = ControlBlock::launch(program, label);
        self.handle.scheduler.queue_block(&self.lane, launch)
    }

    /// A function of the host, when everything queued before has ended. It runs on a thread of the
    /// runtime and must not wait for this card. An error, or a panic, fails the stream.
    pub fn host_callback(
        &self,
        function: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<StreamPoint, Error> {
        self.submit([ControlBlock::HostCallback(HostCallback::new(function))])
    }

    /// Work outside the card, when everything queued before has ended; see [`ExternalWork`]. The device
    /// memory that it uses is checked and kept as what blocks name is: what it writes cannot be read if
    /// it fails.
    pub fn external(&self, work: ExternalWork, uses: &[MemoryUse]) -> Result<StreamPoint, Error> {
        let block = ControlBlock::External(Box::new(work));
        if self.is_idle() {
            // It is begun here.
            return self.handle.scheduler.queue_next(&self.lane, block, uses);
        }
        self.submit_waiting(block, uses)
    }

    /// Like [`external`](Self::external), for work that threads can carry on which wait for it: they call `help` before
    /// they sleep. It may do nothing, and returns soon.
    pub fn external_with_help(
        &self,
        work: ExternalWork,
        uses: &[MemoryUse],
        help: impl Fn() + Send + Sync + 'static,
    ) -> Result<StreamPoint, Error> {
        let point = self.external(work, uses)?;
        if !self.lane.is_done(point.sequence) {
            self.handle.scheduler.add_help(&self.lane, point, Arc::new(help));
        }
        Ok(point)
    }

    /// Queues a block that uses memory which it does not name, and waits for room at the queue's bound.
    fn submit_waiting(
        &self,
        block: ControlBlock,
        uses: &[MemoryUse],
    ) -> Result<StreamPoint, Error> {
        let mut blocks = vec![block];
        loop {
            match self.handle.scheduler.queue_using(&self.lane, &mut blocks, uses) {
                Err(Error::QueueFull { .. }) => self.wait_for_room(1)?,
                queued => return queued,
            }
        }
    }

    /// Makes an event stand for everything that was queued here so far. An event that is timed has a
    /// block of its own, which notes when it is reached; another is reached with the last block that
    /// is there already.
    pub fn record(&self, event: &Event) -> Result<StreamPoint, Error> {
        event.bind(&self.handle.scheduler)?;
        let cell = event.cell();
        let last = match &cell {
            None => self.handle.scheduler.last_queued(&self.lane)?,
            Some(_) => None,
        };
        let point = match last {
            Some(last) => last,
            None => self.submit([ControlBlock::RecordEvent(cell)])?,
        };
        event.set_recorded(point);
        Ok(point)
    }

    /// Has what is queued from now on wait for what the event stands for now: if that fails, so does it.
    /// An event that was never recorded, or that has been reached, is not waited for, nor is one whose
    /// failure was reported: no stream reports another one's fault of the past.
    ///
    /// The event may be another card's; the host waits for neither.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        let scheduler = &self.handle.scheduler;
        scheduler.check_process()?;
        let Some(point) = event.recorded() else { return Ok(()) };
        if !event.is_of(scheduler) {
            return self.wait_across(event);
        }
        if scheduler.is_settled(point) {
            return Ok(());
        }
        self.submit([ControlBlock::WaitEvent(point)]).map(drop)
    }

    /// Queues a block, waits until it has ended, and reports its fault. If the device is free, the
    /// caller carries it out itself, so that no other thread has to be woken.
    ///
    /// A host callback is refused, and then nothing was queued: what a block borrows from the caller
    /// is in use until this returns, and no longer.
    pub fn run(&self, block: ControlBlock) -> Result<(), Error> {
        self.handle.scheduler.run_block(&self.lane, block)
    }

    /// Queues a block that takes little time, and carries it out if the device is free. A fault is
    /// reported by the next call that synchronizes, as that of any block that is queued.
    pub fn run_soon(&self, block: ControlBlock) -> Result<(), Error> {
        self.handle.scheduler.run_soon(&self.lane, block)
    }

    /// Returns true if everything that was queued has ended, well or badly.
    pub fn is_idle(&self) -> bool {
        self.lane.is_done(self.lane.ring.reserved())
    }

    /// Queues blocks as one: they take their places together, in order.
    #[inline]
    pub fn submit<B>(&self, blocks: B) -> Result<StreamPoint, Error>
    where
        B: AsRef<[ControlBlock]> + IntoIterator<Item = ControlBlock>,
    {
        self.handle.scheduler.queue_blocks(&self.lane, blocks)
    }

    /// Returns true if a block of any stream has ended well, or badly for a fault that was
    /// reported: what waits for it need not.
    pub fn is_settled(&self, point: StreamPoint) -> bool {
        self.handle.scheduler.is_settled(point)
    }

    /// Queues all blocks of a list as one and leaves it empty, to be filled again. The last of them
    /// also uses memory that no block names: memory that a program gets by its correction. It is
    /// checked and kept as what blocks name is. With an `Err`, the blocks stay where they are.
    ///
    /// It never waits: at the bound of the queue it is refused as [`Error::QueueFull`], and the caller
    /// [waits for room](Self::wait_for_room) once it has let go of its locks.
    #[inline]
    pub fn submit_using(
        &self,
        blocks: &mut Vec<ControlBlock>,
        others: &[MemoryUse],
    ) -> Result<StreamPoint, Error> {
        self.handle.scheduler.queue_using(&self.lane, blocks, others)
    }

    /// Waits until there is room for so many blocks more, at most the queue's bound. Others may take it
    /// before the caller does.
    pub fn wait_for_room(&self, blocks: u64) -> Result<(), Error> {
        self.handle.scheduler.check_process()?;
        self.handle.scheduler.make_room(&self.lane, blocks.min(self.queue_bound()))
    }

    /// A mark for [`submit_unless_failed_since`](Self::submit_unless_failed_since), to be taken before
    /// what later blocks rely on is queued.
    #[inline]
    pub fn failure_epoch(&self) -> FailureEpoch {
        FailureEpoch(self.lane.failure_epoch.load(Ordering::Acquire))
    }

    /// Like [`submit_using`](Self::submit_using), for blocks that rely on others that were queued
    /// since a mark was taken: either those have ended well when these start, or these are
    /// cancelled, too. `None`, and the list is empty, if that cannot be said, because the stream
    /// has failed since.
    #[inline]
    pub fn submit_unless_failed_since(
        &self,
        epoch: FailureEpoch,
        blocks: &mut Vec<ControlBlock>,
        others: &[MemoryUse],
    ) -> Result<Option<StreamPoint>, Error> {
        self.handle.scheduler.queue_unless_failed_since(&self.lane, epoch.0, blocks, others)
    }

    /// The last block that was queued; number 0 if there was none.
    pub fn last_point(&self) -> StreamPoint {
        StreamPoint { stream: self.lane.index, sequence: self.lane.ring.reserved() }
    }

    /// Something to wait for one block with.
    pub fn ticket(&self, point: StreamPoint) -> Ticket {
        Ticket { handle: Arc::clone(&self.handle), point }
    }

    /// Waits until everything that is queued has ended, and reports the stream's fault: a data fault
    /// once, others until a reset. It may carry out blocks itself.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.handle.scheduler.synchronize(&self.lane)
    }

    /// Returns true if everything that is queued has ended. Reports the stream's fault, as
    /// [`synchronize`](Self::synchronize) does.
    pub fn query(&self) -> Result<bool, Error> {
        self.handle.scheduler.check_process()?;
        self.handle.scheduler.raise(&self.lane)?;
        Ok(self.lane.is_done(self.lane.ring.reserved()))
    }

    /// Lets the stream go on after a structural fault. What was queued behind it is cancelled.
    pub fn reset(&self) -> Result<(), Error> {
        self.handle.scheduler.reset_stream(self.lane.index)
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.handle.scheduler
    }

    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    fn copy_in(
        &self,
        source: Lent<HostSource>,
        target: DeviceRange,
        nest: Option<Arc<DmaNest>>,
    ) -> Result<StreamPoint, Error> {
        let source = source.0?;
        self.submit([ControlBlock::CopyToDevice(Box::new(CopyToDevice { source, target, nest }))])
    }

    fn copy_out(
        &self,
        source: DeviceRange,
        target: Lent<HostTarget>,
        nest: Option<Arc<DmaNest>>,
    ) -> Result<StreamPoint, Error> {
        let target = target.0?;
        let copy = CopyFromDevice { source, target, nest };
        self.submit([ControlBlock::CopyFromDevice(Box::new(copy))])
    }
}

impl Drop for FlexStream {
    fn drop(&mut self) {
        self.handle.scheduler.close_lane(&self.lane);
    }
}

impl Ticket {
    /// Point of the block: its stream and its number.
    pub fn point(&self) -> StreamPoint {
        self.point
    }

    /// Waits until the block has ended, and reports the fault if it failed or was cancelled. If that is
    /// more than 256 failures of the stream ago, the answer is [`Error::Forgotten`].
    pub fn wait(&self) -> Result<(), Error> {
        self.handle.scheduler.wait_for_block(self.point)
    }

    /// Returns true if the block has ended. Reports the fault if it failed or was cancelled.
    pub fn query(&self) -> Result<bool, Error> {
        self.handle.scheduler.query_block(self.point)
    }
}

/// Host memory for a copy, if it could be had.
#[derive(Debug)]
pub struct Lent<T>(Result<T, Error>);

impl From<HostSource> for Lent<HostSource> {
    fn from(source: HostSource) -> Self {
        Self(Ok(source))
    }
}

impl From<Vec<u8>> for Lent<HostSource> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Ok(bytes.into()))
    }
}

/// The buffer is lent until the copy is done.
impl From<&HostBuffer> for Lent<HostSource> {
    fn from(buffer: &HostBuffer) -> Self {
        Self(buffer.lend_to_read().map_err(Error::from))
    }
}

impl From<HostTarget> for Lent<HostTarget> {
    fn from(target: HostTarget) -> Self {
        Self(Ok(target))
    }
}

/// The buffer is lent until the copy is done.
impl From<&HostBuffer> for Lent<HostTarget> {
    fn from(buffer: &HostBuffer) -> Self {
        Self(buffer.lend_to_write().map_err(Error::from))
    }
}
