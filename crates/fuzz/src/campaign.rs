use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::attack::{Attack, Outcome};
use crate::images::Images;
use crate::manifests::Manifests;
use crate::plans::Plans;
use crate::watch::{Progress, watch};
use crate::words::Words;
use crate::{Kind, Report, Tally, memory};

/// Many inputs of some kinds, on a few threads.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Kinds of inputs.
    pub kinds: Vec<Kind>,
    /// The first seed of each kind.
    pub first_seed: u64,
    /// Number of inputs, of all kinds together.
    pub inputs: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Findings of a campaign.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Outcomes of the inputs.
    pub report: Report,
    /// The largest single allocation, where [`Counting`](crate::Counting) is the allocator.
    pub largest_allocation_bytes: u64,
    /// The most that the process had in memory, over what it began with.
    pub resident_growth_bytes: u64,
    /// Time that it took.
    pub took: Duration,
}

/// A promise that an input broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Kind of the input.
    pub kind: Kind,
    /// Seed of the input.
    pub seed: u64,
    /// First seed of the inputs that the card was given, up to this one.
    pub first_seed: u64,
    /// Description of what happened.
    pub what: String,
}

/// Inputs that follow each other on one card.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    kind: Kind,
    first_seed: u64,
    inputs: u64,
}

/// Inputs of a chunk: a card is opened anew for each.
const CHUNK: u64 = 4096;

/// Tries inputs of one kind, one after the other.
pub fn fuzz(kind: Kind, first_seed: u64, inputs: u64) -> Result<Report, Box<Violation>> {
    let chunk = Chunk { kind, first_seed, inputs };
    chunk.run(&Progress::new()).map(|tally| Report::of(kind, tally))
}

impl Campaign {
    /// Tries all inputs, or stops at the first that breaks a promise.
    pub fn run(&self) -> Result<Findings, Box<Violation>> {
        let start = Instant::now();
        let (before, _) = memory::resident_bytes();
        let chunks = self.chunks();
        let places: Vec<Arc<Progress>> =
            (0..self.threads.max(1)).map(|_| Progress::new()).collect();
        watch(places.clone());
        let next = AtomicU64::new(0);
        let work = |place: Arc<Progress>| {
            let mut report = Report::default();
            while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                let tally = chunk.run(&place).inspect_err(|_| {
                    next.store(u64::from(u32::MAX), Ordering::Relaxed); // the others stop, too
                })?;
                report += Report::of(chunk.kind, tally);
            }
            Ok(report)
        };
        let reports: Vec<Result<Report, Box<Violation>>> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                places.into_iter().map(|place| scope.spawn(move || work(place))).collect();
            threads.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
        });
        let mut report = Report::default();
        for each in reports {
            report += each?;
        }
        let (_, peak) = memory::resident_bytes();
        Ok(Findings {
            report,
            largest_allocation_bytes: memory::largest() as u64,
            resident_growth_bytes: peak.saturating_sub(before),
            took: start.elapsed(),
        })
    }

    /// All kinds by turns, so that a short campaign has some of each.
    fn chunks(&self) -> Vec<Chunk> {
        let shares: u64 = self.kinds.iter().map(|kind| kind.share()).sum();
        let mut left: Vec<(Kind, u64, u64)> = self
            .kinds
            .iter()
            .map(|&kind| (kind, self.first_seed, self.inputs * kind.share() / shares.max(1)))
            .collect();
        if let Some((_, _, inputs)) = left.first_mut() {
            let rest = self.kinds.iter().map(|kind| self.inputs * kind.share() / shares.max(1));
            *inputs += self.inputs - rest.sum::<u64>();
        }
        let mut chunks = Vec::new();
        while left.iter().any(|&(_, _, inputs)| inputs > 0) {
            for (kind, first_seed, inputs) in left.iter_mut().filter(|(_, _, left)| *left > 0) {
                let taken = CHUNK.min(*inputs);
                chunks.push(Chunk { kind: *kind, first_seed: *first_seed, inputs: taken });
                *first_seed += taken;
                *inputs -= taken;
            }
        }
        chunks
    }
}

impl Chunk {
    fn run(self, place: &Progress) -> Result<Tally, Box<Violation>> {
        let mut attack = self.kind.attack();
        let mut tally = Tally::default();
        for seed in self.first_seed..self.first_seed + self.inputs {
            place.begin(self.kind, seed);
            memory::take_largest();
            let verdict = catch_unwind(AssertUnwindSafe(|| attack.input(seed)));
            let taken = memory::take_largest();
            place.end();
            let verdict = verdict.map_err(|panic| self.violation(seed, text(&*panic)))?;
            if taken > verdict.most_bytes {
                let most = verdict.most_bytes;
                let what =
                    format!("it took {taken} bytes at once, at most {most} are in proportion");
                return Err(self.violation(seed, what));
            }
            tally.add(verdict.outcome);
        }
        Ok(tally)
    }

    fn violation(self, seed: u64, what: String) -> Box<Violation> {
        Box::new(Violation { kind: self.kind, seed, first_seed: self.first_seed, what })
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a word"))
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, seed, first_seed, what } = self;
        let before = seed - first_seed + 1;
        write!(
            f,
            "{what}\nspyre-fuzz --kind {kind} --seed {seed} --only\nor, with all that its card saw \
             before: spyre-fuzz --kind {kind} --seed {first_seed} --inputs {before} --threads 1"
        )
    }
}

impl std::error::Error for Violation {}

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.inputs += 1;
        match outcome {
            Outcome::Refused => self.refused += 1,
            Outcome::Ran => self.ran += 1,
            Outcome::Faulted => self.faulted += 1,
        }
    }
}

impl Kind {
    pub(crate) fn attack(self) -> Box<dyn Attack> {
        match self {
            Self::Manifests => Box::new(Manifests::new()),
            Self::Images => Box::new(Images::new()),
            Self::Plans => Box::new(Plans::new()),
            Self::Words => Box::new(Words::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_every_input_once() {
        let campaign =
            Campaign { kinds: Kind::ALL.to_vec(), first_seed: 5, inputs: 100_003, threads: 1 };
        let chunks = campaign.chunks();
        assert_eq!(chunks.iter().map(|chunk| chunk.inputs).sum::<u64>(), 100_003);
        for kind in Kind::ALL {
            let mut next = 5;
            for chunk in chunks.iter().filter(|chunk| chunk.kind == kind) {
                assert_eq!(chunk.first_seed, next);
                next += chunk.inputs;
            }
        }
    }
}
