use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::Mutex;
use shuttle::thread;

use super::super::sync::AtomicU32;
use super::super::sync::Ordering::SeqCst;
use super::Doorbell;

/// Sleeps have no end in the model: a lost wake is a deadlock, which the checker reports.
const FOREVER: Duration = Duration::MAX;

fn slowest(bells: &[Doorbell]) -> u64 {
    bells.iter().map(Doorbell::round).min().unwrap_or(0)
}

fn hand_over(bells: &[Doorbell], own: usize, round: u64) {
    let others = bells.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, bell)| bell);
    bells[own].reach(round, others, || slowest(bells));
    loop {
        let rings = bells[own].rings();
        if slowest(bells) >= round {
            return;
        }
        bells[own].sleep_for_round(rings, round, || slowest(bells), FOREVER);
    }
}

/// Ranks write a word before a round and read those of the others after it.
fn rounds(ranks: usize, rounds: u64) {
    let bells: Arc<Vec<Doorbell>> = Arc::new((0..ranks).map(|_| Doorbell::default()).collect());
    let slots: Arc<Vec<[AtomicU32; 2]>> =
        Arc::new((0..ranks).map(|_| <[AtomicU32; 2]>::default()).collect());
    let threads = (0..ranks).map(|own| {
        let bells = Arc::clone(&bells);
        let slots = Arc::clone(&slots);
        thread::spawn(move || {
            for round in 1..=rounds {
                slots[own][(round % 2) as usize].store(round as u32, SeqCst);
                hand_over(&bells, own, round);
                for slot in slots.iter() {
                    // Not yet written for the round after the next one.
                    assert_eq!(slot[(round % 2) as usize].load(SeqCst), round as u32);
                }
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a rank"));
}

#[test]
fn no_wake_is_lost_between_rounds_in_random_schedules() {
    shuttle::check_random(|| rounds(2, 4), 3000);
    shuttle::check_random(|| rounds(3, 3), 3000);
    shuttle::check_pct(|| rounds(3, 3), 2000, 4);
}

#[test]
fn a_ring_ends_a_sleep_whatever_it_is_for() {
    let model = || {
        let bells: Arc<Vec<Doorbell>> = Arc::new((0..2).map(|_| Doorbell::default()).collect());
        let message = Arc::new(AtomicU32::default());
        let thread = {
            let bells = Arc::clone(&bells);
            let message = Arc::clone(&message);
            thread::spawn(move || {
                message.store(1, SeqCst);
                bells[0].ring();
            })
        };
        // Rank 1 never comes; the ring has to wake rank 0.
        while message.load(SeqCst) == 0 {
            let rings = bells[0].rings();
            if message.load(SeqCst) == 0 {
                bells[0].sleep_for_round(rings, 1, || slowest(&bells), FOREVER);
            }
        }
        thread.join().expect("a thread");
    };
    shuttle::check_random(model, 3000);
}

/// Call of a rank, as its thread and its callers see it.
#[derive(Default)]
struct Call {
    is_ready: AtomicU32,
    /// Held by who carries calls out.
    is_posted: Mutex<bool>,
    is_over: AtomicU32,
}

impl Call {
    /// Posts the call, if it is ready and was not posted. Returns true if it waits for the other ranks.
    fn advance(&self, bells: &[Doorbell], is_posted: &mut bool) -> bool {
        if self.is_ready.load(SeqCst) == 1 && !*is_posted {
            *is_posted = true;
            bells[0].reach(1, [&bells[1]].into_iter(), || slowest(bells));
        }
        if *is_posted && slowest(bells) >= 1 {
            self.is_over.store(1, SeqCst);
        }
        *is_posted && self.is_over.load(SeqCst) == 0
    }
}

#[test]
fn a_call_that_a_caller_leaves_to_the_sleeping_thread_is_carried_out() {
    let model = || {
        let bells: Arc<Vec<Doorbell>> = Arc::new((0..2).map(|_| Doorbell::default()).collect());
        let call = Arc::new(Call::default());
        let caller = {
            let bells = Arc::clone(&bells);
            let call = Arc::clone(&call);
            thread::spawn(move || {
                call.is_ready.store(1, SeqCst);
                bells[0].note();
                let Ok(mut is_posted) = call.is_posted.try_lock() else { return };
                while call.advance(&bells, &mut is_posted) {
                    if bells[0].await_round(1, || slowest(&bells)) {
                        return;
                    }
                }
                drop(is_posted);
                // In the model the thread has to see the end.
                bells[0].ring();
            })
        };
        let other = {
            let bells = Arc::clone(&bells);
            thread::spawn(move || bells[1].reach(1, [&bells[0]].into_iter(), || slowest(&bells)))
        };
        loop {
            let rings = bells[0].rings();
            let mut is_posted = call.is_posted.lock().expect("not poisoned");
            let is_left = call.advance(&bells, &mut is_posted);
            drop(is_posted);
            if call.is_over.load(SeqCst) == 1 {
                break;
            }
            if is_left {
                bells[0].sleep_for_round(rings, 1, || slowest(&bells), FOREVER);
            } else {
                bells[0].sleep(rings, FOREVER);
            }
        }
        caller.join().expect("a thread");
        other.join().expect("a thread");
    };
    shuttle::check_random(model, 5000);
    shuttle::check_pct(model, 3000, 4);
}
