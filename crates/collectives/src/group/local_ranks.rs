//! Ranks of one machine: hand-overs between them, and what becomes of those that do not come.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::SLICE;
use super::descriptor::Descriptor;
use super::group_state::{GroupState, NumberedCall};
use super::handshake::LocalRank;
use crate::shared_memory::{ControlPage, RankState};
use crate::{Collective, Error};

/// Time for which a rank looks for the others before it sleeps, if every rank has a core.
const SPIN: Duration = Duration::from_micros(20);
/// Time for which it looks where the others are known to be about to come, or the thread has nothing else to do.
pub(super) const LONG_SPIN: Duration = Duration::from_micros(200);

/// Ranks of this machine as one of them sees them.
pub(super) struct LocalRanks {
    pub(super) state: Arc<GroupState>,
    pub(super) ranks: Arc<[LocalRank]>,
    /// This rank's place among them.
    pub(super) own: usize,
    pub(super) reads_peers: bool,
    round: Cell<u64>,
    spin: Duration,
    last_look: Cell<Instant>,
}

impl LocalRanks {
    pub(super) fn new(state: Arc<GroupState>, ranks: Arc<[LocalRank]>, reads_peers: bool) -> Self {
        let own = ranks.iter().position(|peer| peer.rank == state.rank).unwrap_or(0);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = if ranks.len() <= cores { SPIN } else { Duration::ZERO };
        let last_look = Cell::new(Instant::now());
        Self { state, ranks, own, reads_peers, round: Cell::new(0), spin, last_look }
    }

    pub(super) fn page(&self) -> &ControlPage {
        self.ranks[self.own].segment.control()
    }

    pub(super) fn page_of(&self, at: usize) -> &ControlPage {
        self.ranks[at].segment.control()
    }

    /// Place of a rank on this machine, if it is here.
    pub(super) fn place_of(&self, rank: usize) -> Option<usize> {
        self.ranks.iter().position(|peer| peer.rank == rank)
    }

    /// Number of the next hand-over.
    pub(super) fn next_round(&self) -> u64 {
        self.round.get() + 1
    }

    /// Notes the call that is about to begin, for messages of others.
    pub(super) fn note(&self, call: &NumberedCall) {
        let words = [call.sequence, call.call.collective as u64, now_nanoseconds()];
        for (target, word) in self.page().last_call.iter().zip(words) {
            target.store(word, SeqCst);
        }
    }

    /// Posts the next round and waits until all ranks have.
    ///
    /// All that this rank wrote before is seen by the others after it, and the other way round.
    pub(super) fn hand_over(&self, waiter: &CallWaiter<'_>) -> Result<(), Error> {
        let round = self.reach_next();
        if self.spin_for(round, LONG_SPIN) { Ok(()) } else { self.wait(round, waiter) }
    }

    /// Posts the next round, the first half of a hand-over.
    pub(super) fn reach_next(&self) -> u64 {
        let round = self.next_round();
        self.round.set(round);
        let others = self.ranks.iter().enumerate().filter(|(at, _)| *at != self.own);
        let bells = others.flat_map(|(_, peer)| {
            let page = peer.segment.control();
            [&page.caller, &page.doorbell]
        });
        self.page().doorbell.reach(round, bells, || self.slowest_round());
        round
    }

    /// Looks for so long if all ranks have posted a round; only once, if there are more ranks than cores.
    pub(super) fn spin_for(&self, round: u64, patience: Duration) -> bool {
        let end = Instant::now() + if self.spin.is_zero() { Duration::ZERO } else { patience };
        loop {
            if self.slowest_round() >= round {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Sleeps in a caller's stead until all ranks have posted a round, at most for `timeout`. The group's thread
    /// sleeps on.
    pub(super) fn sleep_as_caller(&self, round: u64, timeout: Duration) {
        let page = self.page();
        page.doorbell.await_round(0, || 0);
        let rings = page.caller.rings();
        page.caller.sleep_for_round(rings, round, || self.slowest_round(), timeout);
    }

    /// Returns true if the contributions of all ranks that have posted a call for a round lie in slots.
    pub(super) fn all_are_small(&self, round: u64) -> bool {
        let parity = (round % 2) as usize;
        let mut pages = (0..self.ranks.len()).map(|at| self.page_of(at));
        pages.all(|page| Descriptor::load(&page.descriptors[parity]).is_in_slot())
    }

    /// Has the group's thread wake once all ranks have posted a round. Returns false if they have.
    pub(super) fn wake_at(&self, round: u64) -> bool {
        self.page().doorbell.await_round(round, || self.slowest_round())
    }

    fn slowest_round(&self) -> u64 {
        let rounds = self.ranks.iter().map(|peer| peer.segment.control().doorbell.round());
        rounds.min().unwrap_or(0)
    }

    /// Waits until all ranks have posted a round, the second half of a hand-over.
    pub(super) fn wait(&self, round: u64, waiter: &CallWaiter<'_>) -> Result<(), Error> {
        let is_late = |at: usize| self.page_of(at).doorbell.round() < round;
        let spin_end = Instant::now() + self.spin;
        loop {
            let rings = self.page().doorbell.rings();
            if self.slowest_round() >= round {
                return Ok(());
            }
            if Instant::now() < spin_end {
                std::hint::spin_loop();
                continue;
            }
            self.check(waiter.text, is_late)?;
            let now = Instant::now();
            if now >= waiter.deadline {
                return Err(self.timeout(waiter, is_late));
            }
            let timeout = SLICE.min(waiter.deadline - now);
            self.page().doorbell.sleep_for_round(rings, round, || self.slowest_round(), timeout);
        }
    }

    /// Looks for a reason why waiting for some ranks has no end: an abort, a rank that failed, left or died.
    pub(super) fn check(
        &self,
        text: &dyn Fn() -> String,
        is_awaited: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let group = || self.state.name.clone();
        self.state.check_end()?;
        let looks = self.last_look.get().elapsed() >= SLICE / 2;
        if looks {
            self.last_look.set(Instant::now());
        }
        for (at, peer) in self.ranks.iter().enumerate().filter(|(at, _)| *at != self.own) {
            match peer.segment.control().state() {
                RankState::Failed => return Err(self.cause_of(at)),
                RankState::Closed if is_awaited(at) => {
                    let name = self.state.rank_name(peer.rank);
                    let reason = format!("{name} has shut the group down; {} waits for it", text());
                    return Err(Error::Closed { group: group(), reason });
                }
                _ => {}
            }
            if looks && is_awaited(at) && peer.process.has_ended() && is_awaited(at) {
                let end = peer.process.end();
                let name = self.state.rank_name(peer.rank);
                let reason = format!(
                    "{name} (pid {}, host {}) {end} during {}; {}",
                    peer.process.pid(),
                    self.host(peer.rank),
                    text(),
                    self.last_call(at)
                );
                return Err(Error::Died { group: group(), rank: peer.rank, reason });
            }
        }
        Ok(())
    }

    /// The error of a call whose time is over, with the ranks that did not come.
    pub(super) fn timeout(
        &self,
        waiter: &CallWaiter<'_>,
        is_late: impl Fn(usize) -> bool,
    ) -> Error {
        let late = (0..self.ranks.len()).filter(|&at| at != self.own && is_late(at));
        let late: Vec<String> = late
            .map(|at| {
                let peer = &self.ranks[at];
                let name = self.state.rank_name(peer.rank);
                let host = self.host(peer.rank);
                let state = peer.process.state();
                let pid = peer.process.pid();
                format!(
                    "{name} (pid {pid}, host {host}, {state}) has not arrived: {}",
                    self.last_call(at)
                )
            })
            .collect();
        let after = waiter.timeout;
        let reason = format!(
            "{} was not over after {:.1} s; {}",
            (waiter.text)(),
            after.as_secs_f64(),
            late.join("; ")
        );
        Error::Timeout { group: self.state.name.clone(), after, reason }
    }

    pub(super) fn host(&self, rank: usize) -> &str {
        self.state.hosts.get(rank).map_or("unknown", String::as_str)
    }

    fn last_call(&self, at: usize) -> String {
        let [sequence, collective, started] =
            self.page_of(at).last_call.each_ref().map(|word| word.load(SeqCst));
        let Some(collective) = Collective::from_word(collective) else {
            return "it has called nothing yet".into();
        };
        let ago = Duration::from_nanos(now_nanoseconds().saturating_sub(started));
        format!("its last call is {collective} #{sequence}, begun {:.1} s ago", ago.as_secs_f64())
    }

    /// Writes an error into the own page, and wakes all ranks.
    fn report(&self, error: &Error) {
        let own = self.state.rank;
        match error {
            Error::Closed { .. } => self.page().close(),
            Error::Mismatch { reason, .. } => self.page().fail(own, MISMATCH, reason),
            Error::Died { rank, reason, .. } => self.page().fail(*rank, DIED, reason),
            Error::Timeout { reason, .. } => self.page().fail(own, TIMEOUT, reason),
            Error::PeerFailed { rank, reason, .. } => self.page().fail(*rank, OTHER, reason),
            error => self.page().fail(own, OTHER, &error.to_string()),
        }
        self.ring_all();
    }

    /// Ends the group with an error, unless it has failed already. Returns the first cause.
    pub(super) fn fail(&self, error: &Error) -> Error {
        let (cause, is_first) = self.state.fail(error);
        if is_first {
            self.report(&cause);
        }
        cause
    }

    /// The error of a panic, which was printed where it happened: no caller waits for ever.
    pub(super) fn panicked(&self) -> Error {
        let what = format!("group {}", self.state.name);
        let reason = "a thread that carried its calls out panicked; this is a defect of the engine";
        Error::System { what, reason: reason.into() }
    }

    fn ring_all(&self) {
        for peer in self.ranks.iter() {
            peer.segment.control().ring();
        }
    }

    fn cause_of(&self, at: usize) -> Error {
        let (rank, kind, reason) = self.page_of(at).cause();
        let group = self.state.name.clone();
        let after = *self.state.timeout.lock();
        match kind {
            MISMATCH => Error::Mismatch { group, reason },
            DIED => Error::Died { group, rank, reason },
            TIMEOUT => {
                let name = self.state.rank_name(self.ranks[at].rank);
                Error::Timeout { group, after, reason: format!("{reason} (found by {name})") }
            }
            _ => Error::PeerFailed { group, rank, reason },
        }
    }
}

const MISMATCH: u32 = 1;
const DIED: u32 = 2;
const TIMEOUT: u32 = 3;
const OTHER: u32 = 4;

/// Call that waits: its text and its time.
pub(super) struct CallWaiter<'a> {
    pub(super) text: &'a dyn Fn() -> String,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
}

fn now_nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
