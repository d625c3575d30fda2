//! Group of ranks as its callers see it.

mod descriptor;
mod far_call;
mod far_ranks;
mod far_transfers;
mod group_state;
mod handshake;
mod local_call;
mod local_ranks;
mod messenger;
mod posted_call;
mod running_calls;
mod shared_worker;
mod transfers;
mod worker;

use std::fmt;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::{CallRecord, Collective, CollectiveCall, Error, GroupOptions};
use far_ranks::FarRanks;
use group_state::{CallQueue, GroupState};
use handshake::{LocalRank, Meeting};
use local_ranks::LocalRanks;
use messenger::Messenger;
use running_calls::RunningCalls;
use shared_worker::SharedWorker;
use worker::Worker;

pub use group_state::Done;

/// Time after which a thread that sleeps looks at deadlines, and if the other ranks live.
const SLICE: Duration = Duration::from_millis(100);

/// Sleep of a thread that has nothing to do; a ring ends it.
const IDLE_SLICE: Duration = Duration::from_secs(60);

/// Ranks that carry out collectives together, as one of them.
///
/// # Contract
/// - Every rank calls the same collectives in the same order. Sends and receives have an order of their own: they go on
///   while a collective waits, and the other way round.
/// - A call has its place in that order from [`ProcessGroup::enqueue`] on, and begins when it is ready and the calls
///   before it are over. No method waits for other ranks, but [`ProcessGroup::connect`],
///   [`ProcessGroup::shutdown`], and [`PendingCall::ready_within`] up to its patience.
/// - `done` is called exactly once for each call that was queued, by a thread of the group or by one that makes a call
///   ready or asks something of the group. It must not wait for the group. Memory of the call is not used any more
///   then, except that after a failure other ranks may still read it, whose results are thrown away.
/// - The first failure is the last thing that a group does: all ranks of the machine hear of it at once, and
///   every call after it returns its cause. Other groups go on.
pub struct ProcessGroup {
    driver: Arc<SharedWorker>,
    state: Arc<GroupState>,
    /// Ranks of this machine.
    local: Arc<[LocalRank]>,
    reads_peers: bool,
    far: Option<Arc<FarRanks>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ProcessGroup {
    /// Meets the other ranks: it returns when all of them are there, or at the timeout.
    pub fn connect(options: GroupOptions) -> Result<Arc<Self>, Error> {
        options.check()?;
        let meeting = Meeting::hold(&options)?;
        let own = meeting.local.iter().find(|peer| peer.rank == options.rank);
        let own = own.map(|peer| Arc::clone(&peer.segment));
        let has_way = meeting.machines.len() == 1 || options.remote.is_some();
        let Some(own) = own.filter(|_| has_way) else {
            return Err(no_way(&options, &meeting));
        };
        let remote = options.remote.filter(|_| meeting.machines.len() > 1);
        let state = Arc::new(GroupState {
            name: options.name,
            rank: options.rank,
            size: options.size,
            global_ranks: options.global_ranks,
            hosts: meeting.hosts,
            machines: meeting.machines,
            timeout: Mutex::new(options.timeout),
            history: crate::history::CallHistory::default(),
            queue: Mutex::new(CallQueue::default()),
            running: RunningCalls::default(),
            own,
        });
        let local: Arc<[LocalRank]> = meeting.local.into();
        let reads_peers = meeting.reads_peers;
        let ranks = LocalRanks::new(Arc::clone(&state), Arc::clone(&local), reads_peers);
        let far = remote.map(|remote| Arc::new(FarRanks::new(Arc::clone(&state), remote)));
        let worker = Worker::new(Arc::clone(&state), ranks, far.clone(), options.latency);
        let driver = Arc::new(SharedWorker::new(Arc::clone(&state), worker));
        let driven = Arc::clone(&driver);
        let threads = vec![start_thread(&state.name, move || driven.run())?];
        let threads = Mutex::new(threads);
        Ok(Arc::new(Self { driver, state, local, reads_peers, far, threads }))
    }

    /// Gives a call its place in the group's order.
    ///
    /// An `Err` is a mistake of the caller, or the cause of the group's failure; nothing was queued, and `done` is not
    /// called.
    pub fn enqueue(&self, call: CollectiveCall, done: Done) -> Result<PendingCall, Error> {
        self.enqueue_all(vec![call], done)
    }

    /// Gives several calls one place: they are over together. Sends and receives among them begin at once, whatever
    /// their order; the others follow each other. No calls at all are over once their turn comes.
    pub fn enqueue_all(
        &self,
        calls: Vec<CollectiveCall>,
        done: Done,
    ) -> Result<PendingCall, Error> {
        let state = &self.state;
        for call in &calls {
            call.check(&state.name, state.rank, state.size)?;
            if self.far.is_some() && call.collective == Collective::ReceiveAny {
                let reason =
                    "its ranks are on several machines, where a receive names its source".into();
                return Err(Error::Options { group: state.name.clone(), reason });
            }
        }
        if calls.iter().any(|call| call.collective.is_point_to_point()) {
            self.start_messenger()?;
        }
        let default_timeout = *state.timeout.lock();
        let mut queue = state.queue.lock();
        if let Some(cause) = &queue.cause {
            return Err(cause.clone());
        }
        if queue.is_closing {
            let reason = "this rank is shutting it down".into();
            return Err(Error::Closed { group: state.name.clone(), reason });
        }
        let parts = calls.len();
        let id = queue.push(calls, default_timeout, &state.history);
        state.running.add(id, parts, done);
        Ok(PendingCall { id, driver: Some(Arc::downgrade(&self.driver)) })
    }

    /// Starts the thread for sends and receives, unless it is there or the group ends.
    fn start_messenger(&self) -> Result<(), Error> {
        let mut threads = self.threads.lock();
        let mut queue = self.state.queue.lock();
        if queue.has_messenger || queue.is_closing || queue.cause.is_some() {
            return Ok(());
        }
        let ranks =
            LocalRanks::new(Arc::clone(&self.state), Arc::clone(&self.local), self.reads_peers);
        let messenger = Messenger::new(Arc::clone(&self.state), ranks, self.far.clone());
        let name = format!("{} messages", self.state.name);
        threads.push(start_thread(&name, move || messenger.run())?);
        queue.has_messenger = true;
        Ok(())
    }

    /// Carries calls out for a caller that waits for one of them, at most so long, so that no other thread has to be
    /// woken for that. It may return at any time before.
    pub fn help(&self, time: Duration) {
        self.driver.help(time);
    }

    /// Ends the group now: calls that are not over fail with this reason, here and on the other ranks.
    pub fn abort(&self, reason: &str) {
        let mut queue = self.state.queue.lock();
        if queue.cause.is_none() && queue.abort.is_none() {
            queue.abort = Some(reason.to_owned());
        }
        drop(queue);
        self.state.own.control().ring();
        if let Some(far) = &self.far {
            far.abort();
        }
    }

    /// Ends the group when the calls that are ready are over; those that are not fail. It waits for that, unless a
    /// callback of this group calls it.
    pub fn shutdown(&self) {
        self.state.queue.lock().is_closing = true;
        self.state.own.control().ring();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.thread().id() != thread::current().id() {
                // A panic of the thread was printed where it happened.
                let _ = thread.join();
            }
        }
    }

    /// Name for messages.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// This rank's number in the group.
    pub fn rank(&self) -> usize {
        self.state.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.state.size
    }

    /// Number of collectives that were queued; sends and receives do not count.
    pub fn sequence(&self) -> u64 {
        self.state.queue.lock().collectives.count
    }

    /// Cause of the group's failure, or that it was closed.
    pub fn last_error(&self) -> Option<Error> {
        self.state.queue.lock().cause.clone()
    }

    /// Time of calls that are queued from now on and have none of their own.
    pub fn timeout(&self) -> Duration {
        *self.state.timeout.lock()
    }

    /// Sets the time of calls that are queued from now on and have none of their own.
    pub fn set_timeout(&self, timeout: Duration) {
        *self.state.timeout.lock() = timeout;
    }

    /// The last calls, oldest first.
    pub fn history(&self) -> Vec<CallRecord> {
        self.state.history.records()
    }

    /// The last calls with the keys of PyTorch's flight recorder.
    pub fn history_json(&self) -> String {
        let name = &self.state.name;
        let records = self.history();
        let entries: Vec<_> = records.iter().map(|record| record.to_json(name)).collect();
        serde_json::json!({
            "version": "2.10",
            "pg_config": { name: {
                "name": name,
                "desc": "spyreccl",
                "ranks": self.state.global_ranks,
            }},
            "pg_status": { name: {
                "last_enqueued_collective": self.sequence(),
                "last_error": self.last_error().map(|error| error.to_string()),
            }},
            "rank": self.state.rank,
            "entries": entries,
        })
        .to_string()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.abort("the group was dropped");
        self.shutdown();
    }
}

impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupState { name, rank, size, .. } = &*self.state;
        write!(f, "ProcessGroup({name}, rank {rank} of {size})")
    }
}

/// Place of a call in the order of its group, until its stream has reached it.
///
/// Dropping it instead fails the group: other ranks would wait for this call.
#[must_use = "a call begins when it is ready; dropping it fails the group"]
pub struct PendingCall {
    id: u64,
    driver: Option<Weak<SharedWorker>>,
}

impl PendingCall {
    /// Lets the call begin. It may be called from any thread, and after the group's failure. It does not wait, but
    /// begins the call here if it is next, and ends it if its bytes are few and all other ranks have come.
    pub fn ready(self) {
        self.ready_within(Duration::ZERO);
    }

    /// Like [`ready`](Self::ready), but waits at most so long for the other ranks, if the call is over soon then and
    /// each rank has a core.
    pub fn ready_within(mut self, patience: Duration) {
        let Some(driver) = self.driver.take().and_then(|driver| driver.upgrade()) else { return };
        let mut queue = driver.state.queue.lock();
        let has_messages = queue.messages.make_ready(self.id);
        let has_collectives = queue.collectives.make_ready(self.id);
        drop(queue);
        if has_messages {
            driver.state.own.control().messages.ring();
        }
        if has_collectives {
            driver.drive(patience);
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({})", self.id)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take().and_then(|driver| driver.upgrade()) else { return };
        let mut queue = driver.state.queue.lock();
        let is_waiting = queue.collectives.has(self.id) || queue.messages.has(self.id);
        if is_waiting && queue.abort.is_none() {
            queue.abort = Some("a call was given up before its stream had reached it".into());
        }
        drop(queue);
        driver.state.own.control().ring();
    }
}

fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let thread = thread::Builder::new().name(format!("spyreccl {name}")).spawn(body);
    thread.map_err(|error| Error::System {
        what: "start of a group's thread".into(),
        reason: error.to_string(),
    })
}

fn no_way(options: &GroupOptions, meeting: &Meeting) -> Error {
    let far = meeting.machines.iter().filter(|ranks| !ranks.contains(&options.rank)).flatten();
    let far: Vec<String> =
        far.map(|&rank| format!("rank {rank} (host {})", meeting.hosts[rank])).collect();
    let reason = format!(
        "{} cannot be met in memory; give GroupOptions::remote a way to them",
        far.join(", ")
    );
    Error::Options { group: options.name.clone(), reason }
}
