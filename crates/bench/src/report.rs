use std::fmt;
use std::time::Duration;

use spyre_numerics::Tier;

use crate::{Bar, Benchmark, Effort, Outcome};

/// All outcomes of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    /// The machine and the versions: what ratios are to be read with.
    pub fn header() -> String {
        let tiers = Tier::ALL.map(|tier| {
            if tier.is_available() { tier.to_string() } else { format!("{tier}: not measured") }
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "spyre {} on {cores} cores ({})\nratios are medians of alternating pairs; \
             >= is the share of the peer's speed, <= how many times its time\n{:<44} {:>9} {:>9} \
             {:>7}   {:<8} {}",
            env!("CARGO_PKG_VERSION"),
            tiers.join(", "),
            "what",
            "ours",
            "peer",
            "ratio",
            "bar",
            "peer is",
        )
    }

    /// Runs a benchmark and returns its line.
    pub fn add(&mut self, benchmark: &mut Benchmark<'_>, effort: Effort) -> String {
        let outcome = benchmark.run_to_verdict(effort);
        let line = outcome.to_string();
        self.outcomes.push(outcome);
        line
    }

    /// All outcomes so far.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The outcomes that missed their bar.
    pub fn missed(&self) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.passed()).collect()
    }

    /// Number of benchmarks that ran.
    pub fn total(&self) -> usize {
        self.outcomes.len()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bar = match self.bar {
            Bar::AtLeast(bar) => format!(">= {bar}"),
            Bar::AtMost(bar) => format!("<= {bar}"),
        };
        let verdict = if self.passed() { "" } else { "  MISSED" };
        write!(
            f,
            "{:<44} {:>9} {:>9} {:>7.2}   {bar:<8} {}{verdict}",
            self.name,
            short(self.ours),
            short(self.peer),
            self.ratio,
            self.peer_name,
        )
    }
}

fn short(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..1_000_000 => format!("{:.1} us", time.as_secs_f64() * 1e6),
        _ => format!("{:.2} ms", time.as_secs_f64() * 1e3),
    }
}
