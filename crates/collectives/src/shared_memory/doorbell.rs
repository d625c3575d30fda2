//! Round number of a rank, and the word on which it sleeps.

use std::time::Duration;

use super::sync::Ordering::SeqCst;
use super::sync::{AtomicU32, AtomicU64, sleep_on, wake_all};

/// Words by which a rank waits for others.
///
/// A waker changes a word and then reads `is_asleep`; a sleeper writes `is_asleep` and then reads the word. All of
/// it is sequentially consistent, so one of the two sees the other.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Doorbell {
    /// Number of rings; who wants to wake the owner adds one.
    rings: AtomicU32,
    is_asleep: AtomicU32,
    /// Round of all ranks for which the owner sleeps; 0 if rounds do not matter to it.
    awaited_round: AtomicU64,
    /// Hand-overs that the owner has reached.
    round: AtomicU64,
}

impl Doorbell {
    /// Number of rings so far; a sleep that begins later ends at once if there were more.
    pub(crate) fn rings(&self) -> u32 {
        self.rings.load(SeqCst)
    }

    pub(crate) fn round(&self) -> u64 {
        self.round.load(SeqCst)
    }

    /// Wakes the owner, whatever it waits for.
    pub(crate) fn ring(&self) {
        self.note();
        if self.is_asleep.load(SeqCst) != 0 {
            wake_all(&self.rings);
        }
    }

    /// Keeps the owner's thread from sleeping, if it does not sleep yet.
    pub(crate) fn note(&self) {
        self.rings.fetch_add(1, SeqCst);
    }

    /// Has the last rank to reach a round wake the owner's thread, which sleeps for something else, or was kept
    /// from sleeping by a [`note`](Self::note). Returns false if all ranks are there already.
    pub(crate) fn await_round(&self, round: u64, slowest: impl Fn() -> u64) -> bool {
        self.awaited_round.store(round, SeqCst);
        slowest() < round
    }

    /// Reaches a round, and wakes those of the others whose last round it was.
    ///
    /// The last rank to reach a round finds all ranks there, so that each sleeper wakes once and not for every rank.
    pub(crate) fn reach<'a>(
        &self,
        round: u64,
        others: impl Iterator<Item = &'a Self>,
        slowest: impl Fn() -> u64,
    ) {
        self.round.store(round, SeqCst);
        for other in others {
            if other.is_asleep.load(SeqCst) != 0 {
                let awaited = other.awaited_round.load(SeqCst);
                if awaited != 0 && slowest() >= awaited {
                    other.ring();
                }
            }
        }
    }

    /// Sleeps until there were more than `rings` rings, or until all ranks have reached a round, and at most for
    /// `timeout`. It may wake for no reason.
    pub(crate) fn sleep_for_round(
        &self,
        rings: u32,
        round: u64,
        slowest: impl Fn() -> u64,
        timeout: Duration,
    ) {
        self.awaited_round.store(round, SeqCst);
        self.is_asleep.store(1, SeqCst);
        if slowest() < round {
            sleep_on(&self.rings, rings, timeout);
        }
        self.is_asleep.store(0, SeqCst);
    }

    /// Sleeps until there were more than `rings` rings, at most for `timeout`.
    pub(crate) fn sleep(&self, rings: u32, timeout: Duration) {
        self.awaited_round.store(0, SeqCst);
        self.is_asleep.store(1, SeqCst);
        sleep_on(&self.rings, rings, timeout);
        self.is_asleep.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests;
