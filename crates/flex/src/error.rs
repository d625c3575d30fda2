use std::sync::Arc;

use spyre_hal::{BlockKind, DeviceHandle, DeviceRange, HostBusy, StreamIndex, StreamPoint};

use crate::{EnvironmentError, StreamFault};

/// Requests that the runtime refuses. An `Err` means that nothing was done.
///
/// [`Error::Stream`] and [`Error::Forgotten`] are the exceptions: they report a block that was queued
/// before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// There is no block for the request.
    #[error(
        "out of device memory: {requested} bytes asked; {free} bytes free in {reserved} reserved, \
         the largest block {largest}; {committed} of {limit} bytes committed. Free tensors, or \
         raise SPYRE_MEMORY_LIMIT"
    )]
    OutOfMemory {
        requested: u64,
        free: u64,
        reserved: u64,
        largest: u64,
        committed: u64,
        limit: u64,
    },

    /// Handles could no longer tell one card from another.
    #[error("{open} cards are open in this process, and handles tell no more apart: drop some")]
    TooManyCards { open: usize },

    /// The handle does not name a live allocation of this card.
    #[error("{handle} is not a live allocation of this card: {why}")]
    BadHandle { handle: DeviceHandle, why: &'static str },

    /// An access past the end of an allocation.
    #[error("{bytes} bytes at offset {offset} of {handle} end past its {allocated} bytes")]
    OutOfRange { handle: DeviceHandle, offset: u64, bytes: u64, allocated: u64 },

    /// A block that would touch nothing.
    #[error("{range}: there is nothing to copy or fill; leave it out")]
    ZeroBytes { range: DeviceRange },

    /// A copy onto itself.
    #[error("source ({from}) and target ({to}) overlap: copy by way of a third place")]
    Overlap { from: DeviceRange, to: DeviceRange },

    /// A copy between ranges of different lengths.
    #[error("source ({from}) and target ({to}) differ in length")]
    UnequalBytes { from: DeviceRange, to: DeviceRange },

    /// The source of a copy ends too early.
    #[error("the copy reads {needed} bytes, and its source holds {given}")]
    SourceTooSmall { given: u64, needed: u64 },

    /// The target of a copy ends too early.
    #[error("the copy writes {needed} bytes, and its target holds {given}")]
    TargetTooSmall { given: u64, needed: u64 },

    /// A host buffer that a block has.
    #[error(transparent)]
    HostBusy(#[from] HostBusy),

    /// A stream that this card does not have.
    #[error("this card has no stream {}: it is another card's, or was never made", .stream.0)]
    UnknownStream { stream: StreamIndex },

    /// An event of another card, or one that lies in the future.
    #[error("the event was recorded on another card: wait for it there, or make one for each card")]
    ForeignEvent,

    /// An event that was never recorded.
    #[error("the event was never recorded: record it on a stream first")]
    NotRecorded,

    /// An event whose time was asked, and that keeps none.
    #[error("the event keeps no time: make it with Event::timed")]
    NotTimed,

    /// An event whose time was asked before it was reached.
    #[error("the event has not been reached yet: synchronize first")]
    NotReached,

    /// The card has as many streams as it can have.
    #[error("a card has at most {streams} streams: drop some, or share them")]
    TooManyStreams { streams: usize },

    /// Too many blocks at once, or none.
    #[error("{blocks} blocks cannot be queued at once: 1 to {bound} can")]
    BatchSize { blocks: u64, bound: u64 },

    /// No room, where it must not be waited for: in a host callback, or by
    /// [`submit_using`](crate::FlexStream::submit_using).
    #[error(
        "stream {} holds {bound} blocks, its bound, and a host callback, or a caller that holds locks, must \
         not wait for it: wait_for_room() outside of them, and submit again",
        .stream.0
    )]
    QueueFull { stream: StreamIndex, bound: u64 },

    /// A callback that would wait for itself.
    #[error(
        "a host callback must not wait for stream {}: blocks behind the callback would never run",
        .stream.0
    )]
    InsideCallback { stream: StreamIndex },

    /// A child process that uses its parent's card.
    #[error(
        "this process was forked from one that had opened the card, which does not survive a \
         fork: open it in the child only, or start processes with spawn"
    )]
    Forked,

    /// A composed stream that can no longer, or not yet, be used so.
    #[error("the control block stream is {state}: {remedy}")]
    Composition { state: &'static str, remedy: &'static str },

    /// A block that can be carried out only once.
    #[error("a block of kind {kind} cannot be replayed: submit it beside the composed stream")]
    NotReplayable { kind: BlockKind },

    /// A block that was queued before has failed.
    #[error(transparent)]
    Stream(Arc<StreamFault>),

    /// A wait that a signal ended. What is queued goes on.
    #[error(
        "the wait for block {} of stream {} was interrupted; what is queued goes on",
        .point.sequence, .point.stream.0
    )]
    Interrupted { point: StreamPoint },

    /// Memory whose contents were to be written by a block that failed, or was cancelled.
    #[error(
        "{handle} does not hold what it should: the work that was to write it was cancelled. Write \
         all of it anew, or make it anew. The first cause was {cause}"
    )]
    Poisoned { handle: DeviceHandle, cause: Arc<StreamFault> },

    /// A block whose end is too many failures ago: it may have been one of them.
    #[error(
        "how block {} of stream {} ended is no longer known: too many blocks of the stream have \
         failed since; ask for it sooner. The last failure that was forgotten: {last}",
        .point.sequence, .point.stream.0
    )]
    Forgotten { point: StreamPoint, last: Arc<StreamFault> },

    /// The environment says something that cannot be.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}
