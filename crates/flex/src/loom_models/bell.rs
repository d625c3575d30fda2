//! No wake-up is lost: a thread that sleeps for ever is a deadlock, which loom reports.

use std::sync::Arc;

use super::{explore, machine};
use crate::scheduler::bell::Bell;
use crate::sync::{AtomicU64, Ordering};

/// Work that is counted, and a bell for it. The count is relaxed: it is seen because of the bell.
#[derive(Default)]
struct Shared {
    bell: Bell,
    work: AtomicU64,
}

impl Shared {
    fn bring(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
        self.bell.ring();
    }

    fn sleep_until(&self, sleeper: usize, wanted: u64) {
        while self.work.load(Ordering::Relaxed) < wanted {
            let has_work = || self.work.load(Ordering::Relaxed) >= wanted;
            self.bell.sleep(sleeper, &*machine(), has_work);
        }
    }
}

fn with_ringers(ringers: usize, then: impl FnOnce(&Shared)) -> Arc<Shared> {
    let shared = Arc::new(Shared::default());
    let threads: Vec<_> = (0..ringers)
        .map(|_| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.bring())
        })
        .collect();
    then(&shared);
    threads.into_iter().for_each(|thread| thread.join().expect("a ringer ends"));
    shared
}

#[test]
fn loom_a_sleeper_hears_the_only_ring() {
    explore("bell, one ringer", None, || {
        let shared = with_ringers(1, |shared| shared.sleep_until(0, 1));
        assert!(shared.bell.wakes() <= 1);
        assert!(!shared.bell.is_anyone_asleep());
    });
}

#[test]
fn loom_a_sleeper_hears_both_of_two_rings_and_no_thread_is_woken_twice_for_one() {
    explore("bell, two ringers", Some(3), || {
        let shared = with_ringers(2, |shared| shared.sleep_until(0, 2));
        assert!(shared.bell.wakes() <= 2);
        assert!(!shared.bell.is_anyone_asleep());
    });
}

#[test]
fn loom_one_ring_wakes_one_of_two_sleepers_and_all_wake_both() {
    explore("bell, two sleepers", Some(2), || {
        let shared = Arc::new(Shared::default());
        let sleepers = [0, 1].map(|sleeper| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.sleep_until(sleeper, 1))
        });
        shared.work.store(1, Ordering::Relaxed);
        shared.bell.ring_all();
        for sleeper in sleepers {
            sleeper.join().expect("a sleeper ends");
        }
        assert!(shared.bell.wakes() <= 2);
    });
}
