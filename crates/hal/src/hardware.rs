use std::fmt::Debug;
use std::sync::Arc;

use crate::{ControlBlock, DeviceRange, Outcome, PeerMemory, Regions};

/// A part of a device that carries out one block at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineIndex(pub u16);

/// Names a started block when its completion is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// Description that a device gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the device.
    pub name: String,
    /// Number of blocks that it carries out at a time: one today.
    pub engines: u16,
    /// True if `start` returns at once, however long the block takes. If not, the runtime starts
    /// blocks on a thread of their own.
    pub is_prompt: bool,
}

/// State of a block after `start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is done.
    Done(Outcome),
    /// It is under way; its completion will be reported.
    Later,
}

/// Receiver of a device's reports of blocks that were done after `start` had returned.
pub trait Completions: Debug + Send + Sync {
    /// The block that was started with this token has ended. May be called on any thread, also
    /// before the `start` that it belongs to has returned.
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome);
}

/// A device that carries out [`ControlBlock`]s.
///
/// The runtime starts a block on an engine only when the engine's last block was reported, and
/// hands over only ranges that lie inside live allocations. Records and waits of events and host
/// callbacks never reach it.
///
/// # Contract
/// 1. *order*: a block's effects are visible to every block that starts after its completion was
///    reported.
/// 2. *once*: completion is reported exactly once per block, by `Started::Done` or by
///    `Completions::complete`, also when the device is lost, aborted or reset.
/// 3. *release*: a block, and what it holds of the host, is dropped before its completion is
///    reported.
/// 4. *bounds*: a block writes no bytes outside its own ranges, also when it fails.
/// 5. *exact*: a copy with a nest moves the nest's elements and nothing else; a copy without one
///    moves bytes as they are.
/// 6. *engines*: engines are independent: a block that hangs on one does not stop the others.
/// 7. *prompt*: a device that says it is prompt never waits in `start`.
/// 8. *abort*: after `abort`, the block that it names ends; if that is not running, nothing
///    happens, least of all to another block.
/// 9. *lost*: after a block has ended with [`Fault::DeviceLost`](crate::Fault::DeviceLost), all
///    others do, until `reset`. That a peer is lost is a failed copy, no more.
/// 10. *reset*: when `reset` returns, every block has been reported, or is about to be by a `start`
///     that no longer touches memory; the device is usable, and all regions are released and read
///     as zero when they are acquired again. A block that is started meanwhile is lost.
/// 11. *regions*: regions do not overlap, start at multiples of 128 bytes, and read as zero when
///     they are acquired.
/// 12. *trust nothing*: a program that is no program ends in a fault, never in anything worse.
/// 13. *programs*: where a device guards programs, a range that is
///     [protected](Regions::protect) is written by copies to the device, and by corrections that
///     patch tables there. A fill, a copy on the device, bytes of a peer or the store of a program
///     that would touch it ends in a fault and has written nothing; so does a launch from
///     elsewhere. What a copy has changed is what the next launch runs.
pub trait Hardware: Regions + PeerMemory {
    /// Description of the device. Always the same.
    fn description(&self) -> Description;

    /// Says where completions are to be reported. Called before the first `start`, and again when
    /// another runtime takes the device over.
    fn connect(&self, completions: Arc<dyn Completions>);

    /// Starts a block on a free engine.
    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started;

    /// Asks an engine to end the block that was started with this token, now, with
    /// [`Fault::Hung`](crate::Fault::Hung).
    fn abort(&self, engine: EngineIndex, token: Token);

    /// Ends everything and starts anew.
    fn reset(&self);

    /// Time that the engine's last block, which has ended, would have taken on a real card: the same
    /// for the same block each time. Zero where there is no model, and for a block that failed.
    fn modelled_nanoseconds(&self, _engine: EngineIndex) -> u64 {
        0
    }

    /// Address in this process at which the bytes of a range lie, if the device's memory is the host's:
    /// work outside the card reads and writes them there, in its turn, as long as the allocation lives.
    fn host_address(&self, _range: DeviceRange) -> Option<usize> {
        None
    }
}
