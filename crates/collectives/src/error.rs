use std::time::Duration;

use spyre_numerics::DataFormat;

use crate::{Collective, ReduceOp};

/// Errors of collectives.
///
/// [`Error::is_argument`] are mistakes of a caller, found before anything is queued: the group goes on.
/// Every other error is the end of its group, which keeps the first one as its cause and repeats it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options of a group contradict each other.
    #[error("group {group}: {reason}")]
    Options {
        /// Name of the group.
        group: String,
        /// Contradiction, with its numbers.
        reason: String,
    },
    /// A call has the wrong number of buffers.
    #[error("{collective} takes {expected} {role}, not {given}")]
    BufferCount {
        /// Operation of the call.
        collective: Collective,
        /// `inputs` or `outputs`.
        role: &'static str,
        /// Buffers that the operation takes on this rank.
        expected: usize,
        /// Buffers of the call.
        given: usize,
    },
    /// Two buffers of a call need the same number of bytes and do not have it.
    #[error("{collective}: {what} has {given} bytes, and must have {expected}")]
    BufferBytes {
        /// Operation of the call.
        collective: Collective,
        /// Buffer that does not fit.
        what: String,
        /// Bytes that it must have.
        expected: usize,
        /// Bytes that it has.
        given: usize,
    },
    /// A buffer ends inside an element.
    #[error("{collective}: a buffer of {bytes} bytes does not hold whole elements of {format}")]
    PartialElement {
        /// Operation of the call.
        collective: Collective,
        /// Format of its elements.
        format: DataFormat,
        /// Bytes of the buffer.
        bytes: usize,
    },
    /// A root or a peer is no rank of the group.
    #[error("{collective}: rank {rank} is not in group {group}, which has ranks 0 to {last}")]
    RankOutOfRange {
        /// Operation of the call.
        collective: Collective,
        /// Name of the group.
        group: String,
        /// Rank that was asked for.
        rank: usize,
        /// Last rank of the group.
        last: usize,
    },
    /// A rank sends to itself, or receives from itself.
    #[error("{collective}: rank {rank} is this rank itself; copy the tensor")]
    SelfPeer {
        /// Operation of the call.
        collective: Collective,
        /// Rank that was asked for.
        rank: usize,
    },
    /// Elements of this format cannot be reduced this way.
    #[error("{op} of {format} is not defined; {remedy}")]
    NotReducible {
        /// Reduction that was asked for.
        op: &'static str,
        /// Format of the elements.
        format: DataFormat,
        /// Another way to the result.
        remedy: &'static str,
    },
    /// A reduction was left out.
    #[error(
        "{collective} needs a reduction; set CollectiveCall::reduction, for example to {}",
        ReduceOp::Sum
    )]
    NoReduction {
        /// Operation of the call.
        collective: Collective,
    },
    /// The store of the group failed or had no answer in time.
    #[error("group {group}: the store has no {key}: {reason}")]
    Store {
        /// Name of the group.
        group: String,
        /// Key that was asked for.
        key: String,
        /// Answer of the store.
        reason: String,
    },
    /// Ranks run different versions of this crate, or talk about different groups.
    #[error("group {group}: rank {rank} cannot join: {reason}")]
    Handshake {
        /// Name of the group.
        group: String,
        /// Rank that answered wrongly.
        rank: usize,
        /// Its answer.
        reason: String,
    },
    /// Ranks called different operations, or with other types or sizes.
    #[error("group {group}: calls of the ranks do not fit together: {reason}")]
    Mismatch {
        /// Name of the group.
        group: String,
        /// Both descriptions.
        reason: String,
    },
    /// A process of the group has ended.
    #[error("group {group}: {reason}")]
    Died {
        /// Name of the group.
        group: String,
        /// Rank that ended.
        rank: usize,
        /// Rank, process, the way of its end, and the call.
        reason: String,
    },
    /// A call was not over in time.
    #[error("group {group}: timeout: {reason}")]
    Timeout {
        /// Name of the group.
        group: String,
        /// Time that the call had.
        after: Duration,
        /// Call, and the ranks that did not arrive with what they did last.
        reason: String,
    },
    /// Another rank of the group failed first.
    #[error("group {group}: rank {rank} failed: {reason}")]
    PeerFailed {
        /// Name of the group.
        group: String,
        /// Rank that failed.
        rank: usize,
        /// Cause as that rank wrote it.
        reason: String,
    },
    /// The group was aborted on this rank.
    #[error("group {group} was aborted: {reason}")]
    Aborted {
        /// Name of the group.
        group: String,
        /// Reason that the caller gave.
        reason: String,
    },
    /// The group was shut down, on this rank or on another.
    #[error("group {group}: {reason}")]
    Closed {
        /// Name of the group.
        group: String,
        /// Rank that left, and when.
        reason: String,
    },
    /// The transport to another machine failed.
    #[error("group {group}: {reason}")]
    Remote {
        /// Name of the group.
        group: String,
        /// Rank on the other machine.
        rank: usize,
        /// Answer of the transport.
        reason: String,
    },
    /// The system refused a call.
    #[error("{what}: {reason}")]
    System {
        /// Call, with its arguments.
        what: String,
        /// Answer of the system.
        reason: String,
    },
}

impl Error {
    /// Returns true for mistakes of a caller that were found before anything was queued.
    pub fn is_argument(&self) -> bool {
        matches!(
            self,
            Self::Options { .. }
                | Self::BufferCount { .. }
                | Self::BufferBytes { .. }
                | Self::PartialElement { .. }
                | Self::RankOutOfRange { .. }
                | Self::SelfPeer { .. }
                | Self::NotReducible { .. }
                | Self::NoReduction { .. }
        )
    }

    /// Returns true if a deadline has passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// Returns true if the way to another machine failed.
    pub fn is_network(&self) -> bool {
        matches!(self, Self::Remote { .. } | Self::Store { .. })
    }
}
