use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::mxcsr::UsualRounding;

/// Threads that help with large copies. They start with the first one that needs them.
///
/// Cards may share them: a copy takes those that are idle just now, and none if all are busy.
pub struct Threads {
    count: Option<usize>,
    crew: OnceLock<Crew>,
}

struct Crew {
    helpers: Option<ThreadPool>,
    idle: AtomicUsize,
}

/// Those of this process.
static OF_PROCESS: OnceLock<Arc<Threads>> = OnceLock::new();

impl Threads {
    /// Makes so many threads, with the one that asks for help.
    pub fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { count: Some(threads.max(1)), crew: OnceLock::new() })
    }

    /// Threads of this process for all of its cards: so many, or as many as its share of the cores. The first
    /// call decides.
    pub fn of_process(count: Option<NonZero<usize>>) -> Arc<Self> {
        let make = || Arc::new(Self { count: count.map(NonZero::get), crew: OnceLock::new() });
        OF_PROCESS.get_or_init(make).clone()
    }

    /// Number of threads that can work at once, with the one that asks.
    pub(crate) fn count(&self) -> usize {
        let helpers = self.crew().helpers.as_ref();
        1 + helpers.map_or(0, ThreadPool::current_num_threads)
    }

    /// Has `work` done by this thread and up to `most - 1` others, and returns when all have ended.
    pub(crate) fn share(&self, most: usize, work: &(dyn Fn() + Sync)) {
        let crew = self.crew();
        let Some(helpers) = &crew.helpers else { return work() };
        // A helper that had to wait for a busy thread would hold the whole copy up.
        let taken: Vec<Idle<'_>> = (1..most).map_while(|_| crew.take()).collect();
        helpers.in_place_scope(|scope| {
            for idle in taken {
                scope.spawn(move |_| {
                    work();
                    drop(idle);
                });
            }
            work();
        });
    }

    fn crew(&self) -> &Crew {
        self.crew.get_or_init(|| Crew::start(self.count.unwrap_or_else(share_of_cores) - 1))
    }
}

/// Cores of the machine, or this process's share of them if a launcher started several.
fn share_of_cores() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let processes =
        std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|count| count.trim().parse().ok());
    (cores / processes.unwrap_or(1).max(1)).max(1)
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.crew.get() {
            Some(_) => write!(f, "Threads({})", self.count()),
            None => f.write_str("Threads(not started)"),
        }
    }
}

impl Crew {
    /// Starts the helpers. If the system has no threads to give, callers do without.
    fn start(helpers: usize) -> Self {
        // A thread takes the control word over from the one that starts it.
        let _usual = UsualRounding::begin();
        let name = |at| format!("spyre copy {at}");
        let pool = || ThreadPoolBuilder::new().num_threads(helpers).thread_name(name).build().ok();
        Self { helpers: if helpers > 0 { pool() } else { None }, idle: AtomicUsize::new(helpers) }
    }

    fn take(&self) -> Option<Idle<'_>> {
        let fewer = |idle: usize| idle.checked_sub(1);
        self.idle.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer).ok()?;
        Some(Idle(self))
    }
}

/// A helper that is spoken for.
struct Idle<'a>(&'a Crew);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.idle.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn no_thread_starts_before_the_first_large_copy() {
        let threads = Threads::new(3);
        assert_eq!(format!("{threads:?}"), "Threads(not started)");
        threads.share(3, &|| {});
        assert_eq!(format!("{threads:?}"), "Threads(3)");
    }

    #[test]
    fn as_many_work_at_once_as_were_asked_for() {
        let threads = Threads::new(3);
        let barrier = Barrier::new(3);
        let calls = AtomicUsize::new(0);
        threads.share(9, &|| {
            calls.fetch_add(1, Ordering::Relaxed);
            barrier.wait();
        });
        assert_eq!(calls.into_inner(), 3);
    }

    #[test]
    fn who_finds_all_helpers_busy_works_alone() {
        let threads = Threads::new(2);
        let alone = AtomicUsize::new(0);
        let both = Barrier::new(2);
        threads.share(2, &|| {
            both.wait();
            threads.share(2, &|| _ = alone.fetch_add(1, Ordering::Relaxed));
            both.wait();
        });
        assert_eq!(alone.into_inner(), 2, "each did its own, once");
    }

    #[test]
    fn a_panic_comes_through_and_the_helpers_are_idle_again() {
        let threads = Threads::new(2);
        let share = std::panic::AssertUnwindSafe(|| threads.share(2, &|| panic!("in a copy")));
        assert!(std::panic::catch_unwind(share).is_err());
        let barrier = Barrier::new(2);
        threads.share(2, &|| _ = barrier.wait());
    }
}
