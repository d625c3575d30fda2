use crate::Env;
use crate::stream::fences;
use crate::stream::ring::Line;
use crate::sync::{AtomicU64, Mutex, Ordering, Thread, current, fence};

/// Wakes threads that sleep until there is work.
///
/// A thread that brings work makes it visible, then rings. A thread that goes to sleep says so,
/// then looks for work once more. One of the two sees the other.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// A bit for each sleeper that is asleep.
    asleep: Line<AtomicU64>,
    threads: Mutex<Vec<Option<Thread>>>,
    wakes: AtomicU64,
}

impl Bell {
    /// Number of sleepers: one for each bit.
    pub(crate) const SLEEPERS: usize = 64;

    /// Wakes one sleeper, if one is asleep.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        self.ring_after_fence();
    }

    /// Like [`ring`](Self::ring), for a thread that made the work visible and had a fence already,
    /// light or full.
    #[inline]
    pub(crate) fn ring_after_fence(&self) {
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.wake_one(u64::MAX);
        }
    }

    /// Wakes one of these sleepers, a bit for each, if one is asleep.
    pub(crate) fn ring_one_of(&self, sleepers: u64) {
        fence(Ordering::SeqCst);
        self.wake_one(sleepers);
    }

    /// Wakes all that are asleep.
    pub(crate) fn ring_all(&self) {
        fence(Ordering::SeqCst);
        while self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.wake_one(u64::MAX);
        }
    }

    /// Number of times that a sleeping thread was woken.
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_anyone_asleep(&self) -> bool {
        self.asleep.0.load(Ordering::Relaxed) != 0
    }

    /// Sleeps until the bell rings, unless there is work after all.
    pub(crate) fn sleep(&self, sleeper: usize, env: &dyn Env, has_work: impl FnOnce() -> bool) {
        let bit = 1 << sleeper;
        self.register(sleeper);
        self.asleep.0.fetch_or(bit, Ordering::SeqCst);
        fences::heavy();
        if has_work() {
            self.asleep.0.fetch_and(!bit, Ordering::SeqCst);
            return;
        }
        while self.asleep.0.load(Ordering::Acquire) & bit != 0 {
            env.park();
        }
    }

    #[cold]
    fn wake_one(&self, sleepers: u64) {
        let asleep = self.asleep.0.load(Ordering::Acquire) & sleepers;
        if asleep == 0 {
            return;
        }
        let sleeper = asleep.trailing_zeros() as usize;
        let bit = 1 << sleeper;
        if self.asleep.0.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            let thread = self.threads.lock()[sleeper].clone();
            self.wakes.fetch_add(1, Ordering::Relaxed);
            thread.expect("a sleeper registers first").unpark();
        }
    }

    /// Notes which thread a sleeper is, once. Best done before there is work: it takes memory.
    pub(crate) fn register(&self, sleeper: usize) {
        let mut threads = self.threads.lock();
        if threads.len() <= sleeper {
            threads.resize_with(sleeper + 1, || None);
        }
        if threads[sleeper].is_none() {
            threads[sleeper] = Some(current());
        }
    }
}
