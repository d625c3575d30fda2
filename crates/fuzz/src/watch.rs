//! Ends the process, with the seed, if an input does not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Kind;

const LONGEST: Duration = Duration::from_secs(10);

/// Input that a thread is at.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    kind: AtomicU64,
    seed: AtomicU64,
    /// Milliseconds since the start, plus one; zero between inputs.
    since: AtomicU64,
}

impl Progress {
    pub(crate) fn new() -> Arc<Self> {
        let [kind, seed, since] = [(); 3].map(|()| AtomicU64::new(0));
        Arc::new(Self { start: Instant::now(), kind, seed, since })
    }

    pub(crate) fn begin(&self, kind: Kind, seed: u64) {
        self.kind.store(kind as u64, Ordering::Relaxed);
        self.seed.store(seed, Ordering::Relaxed);
        self.since.store(self.start.elapsed().as_millis() as u64 + 1, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Release);
    }

    /// The kind and the seed of an input that takes too long.
    fn overdue(&self) -> Option<(Kind, u64)> {
        let since = self.since.load(Ordering::Acquire);
        let is_late = since > 0
            && self.start.elapsed() > LONGEST + Duration::from_millis(since.saturating_sub(1));
        let kind = Kind::ALL[self.kind.load(Ordering::Relaxed) as usize];
        is_late.then(|| (kind, self.seed.load(Ordering::Relaxed)))
    }
}

/// Looks after these threads until they have let go of their places.
#[expect(clippy::print_stderr, reason = "the last words of the process")]
pub(crate) fn watch(places: Vec<Arc<Progress>>) {
    let body = move || {
        while places.iter().any(|place| Arc::strong_count(place) > 1) {
            std::thread::sleep(Duration::from_millis(100));
            if let Some((kind, seed)) = places.iter().find_map(|place| place.overdue()) {
                eprintln!("it does not end: spyre-fuzz --kind {kind} --seed {seed} --only");
                std::process::abort();
            }
        }
    };
    std::thread::spawn(body);
}
