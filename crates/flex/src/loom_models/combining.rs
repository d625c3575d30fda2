//! A thread that leaves its work to the one that is at work can rely on that.

use loom::sync::Arc;

use super::explore;
use crate::scheduler::combiner::Combiner;
use crate::sync::{AtomicU64, Cell, Ordering, fence};

/// Work that threads bring, and how much of it was done. Loom fails if two threads are in the cell
/// at once, or one comes without having seen what the last one did there.
#[derive(Default)]
struct Shared {
    combiner: Combiner,
    brought: AtomicU64,
    done: AtomicU64,
    at_it: Cell<()>,
}

impl Shared {
    fn bring(&self) {
        self.brought.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.combiner.run(|| self.work());
    }

    /// A share is one piece. All is relaxed: what a combiner sees it sees because of the hand-over
    /// and the fences alone.
    fn work(&self) -> bool {
        self.at_it.with_mut(|_| {
            let brought = self.brought.load(Ordering::Relaxed);
            let done = self.done() + 1;
            if done <= brought {
                self.done.store(done, Ordering::Relaxed);
            }
            done < brought
        })
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

#[test]
fn loom_work_is_done_by_one_combiner_at_a_time_and_none_is_left() {
    explore("combining, two threads", Some(4), || {
        let shared = Arc::new(Shared::default());
        let other = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || (0..2).for_each(|_| shared.bring())
        });
        (0..2).for_each(|_| shared.bring());
        other.join().expect("the thread ends");
        assert_eq!(shared.done(), 4);
    });
}

#[test]
fn loom_a_thread_that_takes_over_in_the_middle_leaves_nothing() {
    explore("combining, taking over", Some(3), || {
        let shared = Arc::new(Shared::default());
        let other = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || (0..2).for_each(|_| shared.bring())
        });
        shared.brought.fetch_add(2, Ordering::Relaxed);
        shared.bring();
        other.join().expect("the thread ends");
        assert_eq!(shared.done(), 5);
    });
}

#[test]
fn loom_the_work_of_three_threads_is_done() {
    explore("combining, three threads", Some(3), || {
        let shared = Arc::new(Shared::default());
        let others = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.bring())
        });
        shared.bring();
        for other in others {
            other.join().expect("a thread ends");
        }
        assert_eq!(shared.done(), 3);
    });
}
