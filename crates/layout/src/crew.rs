/// Threads that share the work of one copy.
///
/// # Contract
/// - `run` calls `job` once for each part in `0..parts`, on any thread, in any order.
/// - `run` returns after every call has returned, and so does a panic in one of them.
pub trait Crew: Sync {
    /// Number of parts that can make progress at once.
    fn threads(&self) -> usize;

    /// Runs `job` for each part.
    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Crew for Solo {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        (0..parts).for_each(job);
    }
}

impl Crew for rayon::ThreadPool {
    fn threads(&self) -> usize {
        self.current_num_threads()
    }

    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        self.in_place_scope(|scope| {
            for part in 1..parts {
                scope.spawn(move |_| job(part));
            }
            if parts > 0 {
                job(0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn every_part_runs_once(crew: &dyn Crew) {
        let runs: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
        crew.run(runs.len(), &|part| _ = runs[part].fetch_add(1, Ordering::Relaxed));
        assert!(runs.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        crew.run(0, &|_| panic!("there is no part"));
    }

    #[test]
    fn every_part_runs_once_on_every_crew() {
        every_part_runs_once(&Solo);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
        every_part_runs_once(&pool);
    }
}
