//! The scheduler: workers and submitters that run the state machine of `core`.

pub(crate) mod arrivals;
pub(crate) mod bell;
mod callbacks;
mod checks;
pub(crate) mod combiner;
mod drive;
mod external;
mod queueing;
mod reset;
mod wait;
mod watchdog;

use std::sync::{Arc, OnceLock, Weak};

use spyre_hal::{
    Completions, ControlBlock, EngineIndex, Hardware, Outcome, StreamIndex, StreamPoint, Token,
};

use crate::core::Core;
use crate::process::Process;
use crate::recorder::Record;
use crate::recorder::Tape;
use crate::stream::fences;
use crate::stream::ring::{Line, RingSizes};
use crate::stream::table::{Lane, StreamTable};
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, fence, spin_loop};
use crate::{Env, Error, FlexAllocator, Policy, Priority};

use arrivals::Arrivals;
use bell::Bell;
pub(crate) use checks::check_shape;
use combiner::Combiner;
pub(crate) use drive::wake;

/// Threads that start blocks on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Drive {
    /// The thread that submits or completes: for devices that are prompt.
    Inline,
    /// A thread for each engine, which spins briefly for more and then sleeps.
    Workers,
}

/// Settings of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// Policy that chooses the stream whose block is started next.
    pub policy: Policy,
    /// Threads that start blocks; by default what fits the device.
    pub drive: Option<Drive>,
    /// Blocks that a stream's queue holds at first. A power of two.
    pub queue_blocks: u64,
    /// Blocks that it may grow to hold; then a submission waits. A power of two.
    pub queue_bound: u64,
    /// Number of times that a worker looks for more before it sleeps: some 50 ns each.
    pub spins: u32,
    /// Time that a block may run before it is ended; `None`: as long as it likes.
    pub watchdog_nanoseconds: Option<u64>,
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            drive: None,
            queue_blocks: 256,
            queue_bound: 1 << 16,
            spins: 400,
            watchdog_nanoseconds: None,
        }
    }
}

/// Keeps a queue for each stream and starts their blocks on the device's engines.
///
/// A block starts when the one before it in its stream has ended. It is no thread of its own: it
/// runs on whichever thread submits or completes, one at a time.
#[derive(Debug)]
pub struct Scheduler {
    me: Weak<Self>,
    hardware: Arc<dyn Hardware>,
    allocator: Arc<FlexAllocator>,
    env: Arc<dyn Env>,
    settings: SchedulerSettings,
    process: Process,
    drive: Drive,
    engines: u16,
    /// True if blocks take time: those of a prompt device that are done at once do not.
    is_timed: bool,
    table: Arc<StreamTable>,
    arrivals: Arc<Arrivals>,
    /// Core on lines of its own: submitters read what is around it.
    core: Line<Mutex<Core>>,
    combiner: Combiner,
    workers: Bell,
    awake_workers: AtomicU32,
    /// They start with the first stream: a card without streams has no threads.
    has_workers: AtomicBool,
    callbacks: Bell,
    has_callback_thread: OnceLock<bool>,
    starting_callbacks: Mutex<()>,
    is_tracing: AtomicBool,
    is_closing: AtomicBool,
    resetting: Mutex<()>,
    watchdog: Bell,
    /// The block that was waited for when the user last interrupted a wait.
    interrupted: Mutex<Option<StreamPoint>>,
    /// Calls that carry on work outside the card which has not ended.
    helps: Mutex<Vec<(StreamPoint, external::Help)>>,
    /// Itself, while work is under way that no caller waits for any more.
    lingering: Mutex<Option<Arc<Self>>>,
}

impl Scheduler {
    /// Starts it; the threads that its device needs come with the first stream.
    pub(crate) fn start(
        hardware: Arc<dyn Hardware>,
        allocator: Arc<FlexAllocator>,
        table: Arc<StreamTable>,
        env: Arc<dyn Env>,
        settings: SchedulerSettings,
    ) -> Arc<Self> {
        fences::prepare();
        let description = hardware.description();
        let engines = description.engines.clamp(1, Bell::SLEEPERS as u16);
        let fitting = if description.is_prompt { Drive::Inline } else { Drive::Workers };
        let arrivals = Arc::new(Arrivals::new());
        let core = Core::new(
            Arc::clone(&env),
            Arc::clone(&arrivals),
            settings.policy,
            engines,
            description.is_prompt,
        );
        let scheduler = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            hardware,
            allocator,
            env,
            process: Process::current(),
            drive: settings.drive.unwrap_or(fitting),
            settings,
            engines,
            is_timed: !description.is_prompt,
            table,
            arrivals,
            core: Line(Mutex::new(core)),
            combiner: Combiner::default(),
            workers: Bell::default(),
            awake_workers: AtomicU32::new(0),
            has_workers: AtomicBool::new(false),
            callbacks: Bell::default(),
            has_callback_thread: OnceLock::new(),
            starting_callbacks: Mutex::default(),
            is_tracing: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            resetting: Mutex::default(),
            watchdog: Bell::default(),
            interrupted: Mutex::default(),
            helps: Mutex::default(),
            lingering: Mutex::default(),
        });
        scheduler.hardware.connect(Arc::new(Sink(Weak::clone(&scheduler.me))));
        scheduler.start_watchdog();
        scheduler
    }

    /// Queues a control block on a stream and returns at once.
    ///
    /// Everything that a caller can get wrong is found here: an `Err` means that nothing was
    /// queued. At the bound of the queue, which is far past normal use, it waits for room.
    pub fn queue_operation(
        &self,
        stream_index: StreamIndex,
        block: ControlBlock,
    ) -> Result<StreamPoint, Error> {
        self.queue_block(self.lane(stream_index)?, block)
    }

    /// Sets the policy that chooses the next stream from now on.
    pub fn set_policy(&self, policy: Policy) {
        if self.process.is_current() {
            self.core.lock().set_policy(policy);
        }
    }

    /// Sets whether the time is taken whenever a block is queued, started and done. Without it, a
    /// prompt device's blocks that are done at once have no times.
    pub fn set_tracing(&self, is_tracing: bool) {
        self.is_tracing.store(is_tracing, Ordering::Relaxed);
        if self.process.is_current() {
            self.core.lock().set_tracing(is_tracing);
        }
    }

    /// The flight recorder: the last 4,096 blocks that ended, and those that are running. A forked
    /// child has none.
    pub fn flight_record(&self) -> Vec<Record> {
        if self.process.is_current() { self.noted().records() } else { Vec::new() }
    }

    /// Starts to keep every block that ends, up to so many, and to take times, until
    /// [`stop_recording`](Self::stop_recording). A recording that was under way ends with this, and
    /// is given; no block is lost between the two.
    pub fn start_recording(&self, most: usize) -> Tape {
        self.set_tracing(true);
        if self.process.is_current() { self.noted().set_tape(Some(most)) } else { Tape::default() }
    }

    /// Ends a recording. Blocks that are still queued or running are not part of it.
    pub fn stop_recording(&self) -> Tape {
        self.set_tracing(false);
        if self.process.is_current() { self.noted().set_tape(None) } else { Tape::default() }
    }

    /// The state, once every block that is known to be done by now is noted in it: a prompt
    /// device's are known before that to the threads that wait for them. The device itself, which
    /// may ask in the middle of a run, has what was noted before.
    fn noted(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        let now = core.next_token();
        while core.is_behind(now) && !self.is_driven_here() {
            core.call_back();
            drop(core);
            spin_loop();
            core = self.core.lock();
        }
        core
    }

    /// Number of times that a sleeping worker had to be woken.
    pub fn worker_wakes(&self) -> u64 {
        self.workers.wakes()
    }

    /// Number of workers that are awake: looking for blocks, or carrying one out.
    pub fn awake_workers(&self) -> u32 {
        self.awake_workers.load(Ordering::Acquire)
    }

    /// The runtime's clock, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.env.now()
    }

    pub(crate) fn open_lane(&self, priority: Priority) -> Result<Arc<Lane>, Error> {
        self.check_process()?;
        if !self.has_workers.swap(true, Ordering::AcqRel) {
            self.start_workers();
        }
        let SchedulerSettings { queue_blocks, queue_bound, .. } = self.settings;
        let bound = queue_bound.next_power_of_two();
        let first = queue_blocks.max(1).next_power_of_two().min(bound);
        // The scheduler must know a lane before anybody can queue on it.
        let mut core = self.core.lock();
        let opened = self.table.open(priority, RingSizes { first, bound });
        let (lane, is_new) =
            opened.ok_or(Error::TooManyStreams { streams: StreamTable::STREAMS })?;
        if is_new {
            core.add(Arc::clone(&lane));
        } else {
            drop(core);
            // The last owner's faults, if any came after it was gone.
            self.forget_faults(&lane);
        }
        Ok(lane)
    }

    /// Gives a lane back; what is queued on it goes on.
    pub(crate) fn close_lane(&self, lane: &Lane) {
        if self.process.is_current() {
            // A fault that was never reported goes with the stream; what it poisoned stays so.
            self.forget_faults(lane);
            self.table.close(lane);
        }
    }

    /// Lets a stream go on; a lost device stays lost.
    fn forget_faults(&self, lane: &Lane) {
        drop(self.allocator.settle(lane, || self.core.lock().reset_stream(lane.index)));
    }

    /// The last block that was queued on a stream, if it stands for what comes now: there is none
    /// on a stream that is new, and on one that has failed it may be a block whose fault was
    /// reported.
    #[inline]
    pub(crate) fn last_queued(&self, lane: &Lane) -> Result<Option<StreamPoint>, Error> {
        self.check_lane(lane, 1)?;
        let sequence = lane.ring.reserved();
        let is_good = sequence > 0 && !lane.has_failed.load(Ordering::Acquire);
        Ok(is_good.then_some(StreamPoint { stream: lane.index, sequence }))
    }

    /// Sees to it that a thread looks for blocks.
    #[inline]
    fn go_on(&self) {
        fence(Ordering::SeqCst);
        self.go_on_after_fence();
    }

    #[inline]
    fn go_on_after_fence(&self) {
        match self.drive {
            Drive::Inline => self.combine(),
            Drive::Workers => self.workers.ring_after_fence(),
        }
    }

    pub(crate) fn lane(&self, stream: StreamIndex) -> Result<&Arc<Lane>, Error> {
        self.table.get(stream).ok_or(Error::UnknownStream { stream })
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.table.lanes().cloned().collect()
    }

    pub(crate) fn hardware(&self) -> &Arc<dyn Hardware> {
        &self.hardware
    }

    pub(crate) fn allocator(&self) -> &Arc<FlexAllocator> {
        &self.allocator
    }

    /// Finishes what is queued and ends: there are no more submissions.
    pub(crate) fn close(&self) {
        if !self.process.is_current() {
            // The device's threads and locks are the parent's: nothing of it may be dropped here.
            std::mem::forget(self.me.upgrade());
            return;
        }
        self.is_closing.store(true, Ordering::SeqCst);
        if self.drive == Drive::Inline && !self.core.lock().is_idle() {
            *self.lingering.lock() = self.me.upgrade();
            self.go_on();
            self.end_lingering();
        }
        self.workers.ring_all();
        self.callbacks.ring_all();
        self.watchdog.ring_all();
    }

    fn end_lingering(&self) {
        if self.is_closing.load(Ordering::Acquire) && self.core.lock().is_idle() {
            self.callbacks.ring_all();
            let me = self.lingering.lock().take();
            self.callbacks.ring_all();
            drop(me);
        }
    }
}

/// Receiver of the device's reports; it does not keep the scheduler alive.
#[derive(Debug)]
struct Sink(Weak<Scheduler>);

impl Completions for Sink {
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let Some(scheduler) = self.0.upgrade() else { return };
        let modelled_nanoseconds = scheduler.hardware.modelled_nanoseconds(engine);
        let mut core = scheduler.core.lock();
        core.complete(engine, token, outcome, modelled_nanoseconds);
        let wakes = core.take_wakes();
        drop(core);
        wake(wakes);
        scheduler.go_on();
        scheduler.end_lingering();
    }
}
