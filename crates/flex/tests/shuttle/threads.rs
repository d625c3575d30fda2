use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread::{JoinHandle, park, spawn};
use spyre_flex::Env;

/// Shuttle's threads, remembered so that a scenario can wait for their end: one that never ends is
/// a deadlock, which shuttle reports. The clock counts how often it was read.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    started: Mutex<Vec<JoinHandle<()>>>,
    reads: AtomicU64,
}

impl Threads {
    /// Waits until every thread that the runtime started has ended.
    pub(crate) fn join(&self) {
        while let Some(thread) = self.next() {
            thread.join().expect("a thread of the runtime ends well");
        }
    }

    /// Not in the loop's head: there, the lock would be held while the thread is waited for.
    fn next(&self) -> Option<JoinHandle<()>> {
        self.started.lock().expect("no thread panics with it").pop()
    }
}

impl Env for Threads {
    fn now(&self) -> u64 {
        self.reads.fetch_add(1, Ordering::Relaxed)
    }

    /// All but the watchdog, which waits for the time of day.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> bool {
        if name == "spyre watchdog" {
            return false;
        }
        let thread = spawn(body);
        self.started.lock().expect("no thread panics with it").push(thread);
        true
    }

    fn park(&self) {
        park();
    }
}
