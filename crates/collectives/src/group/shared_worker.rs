//! Threads that carry a group's calls out: callers for a moment, and the group's own thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::group_state::GroupState;
use super::running_calls::EndedCall;
use super::worker::{Advance, Worker};
use super::{IDLE_SLICE, SLICE};

thread_local! {
    /// The group whose calls this thread carries out as a caller, by its address.
    static DRIVEN: Cell<usize> = const { Cell::new(0) };
}

/// Worker of a group, and who may carry its calls out: one thread at a time.
///
/// A caller that makes a call ready begins it, and ends it if that takes no time: then no thread has to be woken. What
/// is left waits for the group's thread, which sleeps until all ranks have come.
pub(super) struct SharedWorker {
    pub(super) state: Arc<GroupState>,
    worker: Mutex<Worker>,
    /// True while the group's thread sleeps for so short a time that a caller may leave it a call without a wake.
    naps: AtomicBool,
}

impl SharedWorker {
    pub(super) fn new(state: Arc<GroupState>, worker: Worker) -> Self {
        Self { state, worker: Mutex::new(worker), naps: AtomicBool::new(false) }
    }

    /// Carries calls out until the group is closed or has failed: the life of its thread.
    pub(super) fn run(&self) {
        let doorbell = &self.state.own.control().doorbell;
        let mut seen = 0;
        loop {
            let rings = doorbell.rings();
            let mut worker = self.worker.lock();
            let ((), failed) = worker.guarded(Worker::work, ());
            let is_over = worker.is_over;
            drop(worker);
            failed.into_iter().for_each(EndedCall::report);
            if is_over {
                return;
            }
            let calls = self.state.queue.lock().next_id;
            let naps = calls != seen;
            self.naps.store(naps, SeqCst);
            seen = calls;
            doorbell.sleep(rings, if naps { SLICE } else { IDLE_SLICE });
        }
    }

    /// Carries out what takes no time, and waits at most so long for other ranks. It wakes the group's thread for what
    /// is left, if that has something to do already.
    pub(super) fn drive(&self, patience: Duration) {
        let own = std::ptr::from_ref(self).addr();
        let before = DRIVEN.get();
        let doorbell = &self.state.own.control().doorbell;
        // The thread that carries calls out looks once more after this.
        doorbell.note();
        if before != 0 {
            // A callback: its caller looks once more, if it is of this group.
            if before != own {
                doorbell.ring();
            }
            return;
        }
        DRIVEN.set(own);
        loop {
            let rings = doorbell.rings();
            let Some(mut worker) = self.worker.try_lock() else { break };
            let (step, mut ended) =
                worker.guarded(|worker| worker.advance(patience), Advance::Nothing);
            let goes_on = self.goes_on(&worker, &step, rings);
            if let Advance::Ended(call) = step {
                ended.push(call);
            }
            drop(worker);
            ended.into_iter().for_each(EndedCall::report);
            if !goes_on {
                break;
            }
        }
        DRIVEN.set(before);
    }
}

impl SharedWorker {
    /// Carries calls out for a caller that waits for one, at most so long. It leaves what takes time to the group's
    /// thread, and waits for other ranks in its stead.
    pub(super) fn help(&self, time: Duration) {
        if DRIVEN.get() != 0 {
            return;
        }
        DRIVEN.set(std::ptr::from_ref(self).addr());
        let doorbell = &self.state.own.control().doorbell;
        let mut end = Instant::now() + time;
        loop {
            let rings = doorbell.rings();
            let Some(mut worker) = self.worker.try_lock() else { break };
            let advance = |worker: &mut Worker| worker.advance_or_sleep(end);
            let (step, mut ended) = worker.guarded(advance, Advance::Nothing);
            let goes_on = match step {
                Advance::Ended(call) => {
                    ended.push(call);
                    // It was this one, as a rule: others are not slept for.
                    end = Instant::now();
                    true
                }
                step => self.goes_on(&worker, &step, rings),
            };
            drop(worker);
            ended.into_iter().for_each(EndedCall::report);
            if !goes_on {
                break;
            }
        }
        DRIVEN.set(0);
    }

    /// Leaves what is left to the group's thread, or returns true if this thread is to look once more.
    fn goes_on(&self, worker: &Worker, step: &Advance, rings: u32) -> bool {
        let doorbell = &self.state.own.control().doorbell;
        match step {
            Advance::Ended(_) => true,
            Advance::Nothing => doorbell.rings() != rings,
            Advance::Round(round) => !self.leave(worker, *round),
            Advance::Work => {
                doorbell.ring();
                false
            }
        }
    }

    /// Leaves a call that waits for a round to the group's thread. Returns false if all ranks have come.
    fn leave(&self, worker: &Worker, round: u64) -> bool {
        let is_left = worker.wakes_at(round);
        if is_left && !self.naps.load(SeqCst) {
            self.state.own.control().doorbell.ring();
        }
        is_left
    }
}
