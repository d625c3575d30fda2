//! Threads of the host that wait for blocks.

use std::sync::Arc;

use spyre_hal::{EngineIndex, StreamIndex, StreamPoint};

use super::callbacks::is_in_callback;
use super::{Drive, Scheduler};
use crate::core::{Only, Verdict};
use crate::interrupt::{self, INTERVAL_NANOSECONDS, Interruption};
use crate::stream::table::Lane;
use crate::sync::{Ordering, current, often, spin_loop};
use crate::{Error, StreamFault};

/// Runs that a waiting host carries out before it looks up.
const SLICE: u64 = 16;

impl Scheduler {
    /// Waits until a block has ended, well or badly, or until a signal interrupts the wait.
    pub(crate) fn wait(&self, lane: &Lane, sequence: u64) -> Result<(), Error> {
        if lane.is_done(sequence) {
            return Ok(());
        }
        if is_in_callback() {
            return Err(Error::InsideCallback { stream: lane.index });
        }
        let started_at = if interrupt::is_checked() { self.env.now() } else { u64::MAX };
        for _ in 0..self.settings.spins {
            if lane.is_done(sequence) {
                return Ok(());
            }
            if !self.assist(lane.index) {
                spin_loop();
            } else if self.env.now().saturating_sub(started_at) > INTERVAL_NANOSECONDS {
                break;
            }
        }
        self.help_external(lane.index);
        self.sleep_until(lane, sequence)
    }

    /// Waits until a block has ended, whatever signals come.
    pub(super) fn wait_through(&self, lane: &Lane, sequence: u64) {
        let point = StreamPoint { stream: lane.index, sequence };
        if self.core.lock().add_sleeper(point, current()) {
            while !lane.is_done(sequence) {
                self.env.park();
            }
        }
    }

    /// Refuses a host callback, which must not wait.
    pub(super) fn check_wait(&self, lane: &Lane) -> Result<(), Error> {
        if is_in_callback() { Err(Error::InsideCallback { stream: lane.index }) } else { Ok(()) }
    }

    /// Carries out a block that was listed but that no worker knows of, or wakes a worker now.
    pub(crate) fn help(&self, lane: &Lane, sequence: u64) {
        if self.drive == Drive::Inline {
            return self.combine();
        }
        let free = self.core.lock().free_engine();
        if let Some(engine) = free {
            self.assist_on(engine, lane.index);
        }
        if !lane.is_done(sequence) {
            // The thread that has the engine may not look again.
            self.workers.ring();
        }
    }

    /// Carries on a stream that was listed but that no worker knows of, or wakes a worker for what is left of it.
    pub(super) fn help_on(&self, lane: &Lane) {
        if self.drive == Drive::Inline {
            return self.combine();
        }
        let free = self.core.lock().free_engine();
        if let Some(engine) = free {
            self.assist_on(engine, lane.index);
        }
        if free.is_none() || self.core.lock().has_ready() {
            self.workers.ring();
        }
    }

    /// Waits until everything that is queued on a stream has ended, and reports its fault.
    pub(crate) fn synchronize(&self, lane: &Lane) -> Result<(), Error> {
        self.check_process()?;
        self.wait(lane, lane.ring.reserved())?;
        self.raise(lane)
    }

    /// Waits until everything that is queued on any stream has ended; reports no fault. A callback
    /// cannot wait, and goes on without.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        for lane in self.lanes() {
            let waited = self.wait(&lane, lane.ring.reserved());
            if matches!(waited, Err(Error::Interrupted { .. })) {
                return waited;
            }
        }
        Ok(())
    }

    /// Reports the open fault of a stream; what it kept from being written is poisoned then.
    pub(crate) fn raise(&self, lane: &Lane) -> Result<(), Error> {
        if !lane.failures.are_open() {
            return Ok(());
        }
        as_error(self.allocator.settle(lane, || self.core.lock().raise(lane.index)))
    }

    /// Waits for one block, and reports the fault that it ended with.
    pub(crate) fn wait_for_block(&self, point: StreamPoint) -> Result<(), Error> {
        self.check_process()?;
        let lane = self.lane(point.stream)?;
        self.wait(lane, point.sequence)?;
        self.raise_at(lane, point)
    }

    /// Returns true if a block has ended; reports the fault that it ended with.
    pub(crate) fn query_block(&self, point: StreamPoint) -> Result<bool, Error> {
        self.check_process()?;
        let lane = self.lane(point.stream)?;
        let is_done = lane.is_done(point.sequence);
        if is_done {
            self.raise_at(lane, point)?;
        }
        Ok(is_done)
    }

    /// Returns true if a block has ended well, or badly for a fault that was reported, or whose
    /// stream was let go on. What it was to write is poisoned then, and is refused to readers
    /// before they are queued.
    pub(crate) fn is_settled(&self, point: StreamPoint) -> bool {
        let lane = self.table.get(point.stream);
        let is_failing = |lane: &Lane| lane.failures.cause_of(point.sequence).is_some();
        lane.is_some_and(|lane| lane.is_done(point.sequence) && !is_failing(lane))
    }

    fn raise_at(&self, lane: &Lane, point: StreamPoint) -> Result<(), Error> {
        if !lane.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let raise = || self.core.lock().raise_at(point);
        let is_failing = lane.failures.are_open();
        match if is_failing { self.allocator.settle(lane, raise) } else { raise() } {
            Verdict::Well => Ok(()),
            Verdict::Failed(cause) => Err(Error::Stream(cause)),
            Verdict::Forgotten { last } => Err(Error::Forgotten { point, last }),
        }
    }

    /// Makes room in a full queue: by waiting a little for one that is being emptied, by letting it
    /// grow, and at its bound by waiting until so many blocks more would fit.
    #[cold]
    pub(crate) fn make_room(&self, lane: &Lane, blocks: u64) -> Result<(), Error> {
        if Self::finds_room(lane, blocks) {
            return Ok(());
        }
        let reserved = lane.ring.reserved();
        let bound = lane.ring.bound();
        let until = (reserved + blocks).saturating_sub(bound).max(lane.completed() + 1);
        // All may have ended, and the slots not be reported free yet: then this does not wait.
        spin_loop();
        match self.wait(lane, until.min(reserved)) {
            Err(Error::InsideCallback { stream }) => Err(Error::QueueFull { stream, bound }),
            other => other,
        }
    }

    /// Like [`make_room`](Self::make_room), without waiting for blocks to end; `false` at the
    /// bound.
    #[cold]
    pub(super) fn finds_room(lane: &Lane, blocks: u64) -> bool {
        is_being_emptied(lane) || lane.ring.grow(blocks).is_ok()
    }

    /// Carries out blocks of a stream that a host waits for, if no worker is awake to do it and it
    /// is the stream's turn. Says whether there was something to do.
    fn assist(&self, stream: StreamIndex) -> bool {
        if self.drive == Drive::Inline || self.awake_workers.load(Ordering::Acquire) > 0 {
            return false;
        }
        let free = self.core.lock().free_engine();
        let Some(engine) = free else { return false };
        self.assist_on(engine, stream)
    }

    fn assist_on(&self, engine: EngineIndex, stream: StreamIndex) -> bool {
        // A host that may be interrupted looks up often.
        let only = Only { stream, leaves_long: interrupt::is_checked() };
        let driven = self.drive(engine, Some(only), SLICE);
        if driven > 0 && self.core.lock().has_ready() {
            self.workers.ring();
        }
        driven > 0
    }

    #[cold]
    fn sleep_until(&self, lane: &Lane, sequence: u64) -> Result<(), Error> {
        if !interrupt::is_checked() {
            self.wait_through(lane, sequence);
            return Ok(());
        }
        let point = StreamPoint { stream: lane.index, sequence };
        // One that stops waiting is woken all the same: for no reason, as may be.
        let is_pending = self.core.lock().add_sleeper(point, current());
        while is_pending && !lane.is_done(sequence) {
            if let Some(why) = interrupt::check() {
                self.note_interruption(point, why);
                return Err(Error::Interrupted { point });
            }
            self.env.park_for(INTERVAL_NANOSECONDS);
        }
        Ok(())
    }

    /// Notes an interruption. After the first, what is queued goes on. A second one by the user,
    /// while the block is still waited for, cancels it.
    fn note_interruption(&self, point: StreamPoint, why: Interruption) {
        if why != Interruption::Keyboard {
            return;
        }
        let before = self.interrupted.lock().replace(point);
        let is_second = before
            .and_then(|before| Some(!self.table.get(before.stream)?.is_done(before.sequence)));
        if is_second == Some(true) {
            self.cancel_queued();
        }
    }
}

/// Returns true if entries are being taken just now. A queue that is kept short stays in the
/// caches.
fn is_being_emptied(lane: &Lane) -> bool {
    /// A few microseconds: a consumer reports what it took in batches.
    const LOOKS: u32 = often(200, 1);
    let freed = lane.ring.freed();
    (0..LOOKS).any(|_| {
        spin_loop();
        lane.ring.freed() != freed
    })
}

fn as_error(cause: Option<Arc<StreamFault>>) -> Result<(), Error> {
    cause.map_or(Ok(()), |cause| Err(Error::Stream(cause)))
}
