//! Atomics and sleep: the real ones, or in unit tests those of a model checker.

pub(super) use imp::{AtomicU32, AtomicU64, Ordering, sleep_on, wake_all};

#[cfg(not(test))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    pub(crate) use super::super::futex::{wait as sleep_on, wake_all};
}

#[cfg(test)]
mod imp {
    use std::time::Duration;

    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use shuttle::sync::{Condvar, Mutex};

    shuttle::lazy_static! {
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// Sleep of a futex: the word is compared and the sleep begun at once, and it ends by a wake only.
    pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, _timeout: Duration) {
        let guard = SLEEPERS.0.lock().expect("not poisoned");
        if word.load(Ordering::SeqCst) == expected {
            drop(SLEEPERS.1.wait(guard).expect("not poisoned"));
        }
    }

    pub(crate) fn wake_all(_word: &AtomicU32) {
        let _guard = SLEEPERS.0.lock().expect("not poisoned");
        SLEEPERS.1.notify_all();
    }
}
