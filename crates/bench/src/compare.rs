use std::time::{Duration, Instant};

/// Bound that a ratio must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// The peer's time over ours: at least this share of its speed.
    AtLeast(f64),
    /// Our time over the peer's: at most this many times as long.
    AtMost(f64),
}

/// Time that a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A look: few pairs.
    Short,
    /// A verdict: at least 31 pairs.
    Full,
}

/// Something of ours beside its peer.
pub struct Benchmark<'a> {
    name: String,
    peer_name: String,
    bar: Bar,
    ours: Box<dyn FnMut() -> Duration + 'a>,
    peer: Box<dyn FnMut() -> Duration + 'a>,
}

/// Result of a benchmark: medians over all pairs.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the benchmark.
    pub name: String,
    /// Name of the peer that it was measured against.
    pub peer_name: String,
    /// The bar.
    pub bar: Bar,
    /// The median ratio, in the bar's sense.
    pub ratio: f64,
    /// Our median time.
    pub ours: Duration,
    /// The peer's median time.
    pub peer: Duration,
    /// Number of pairs that were run.
    pub pairs: usize,
}

impl std::fmt::Debug for Benchmark<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Benchmark({} against {}, {:?})", self.name, self.peer_name, self.bar)
    }
}

impl<'a> Benchmark<'a> {
    /// Compares `ours` with `peer`.
    pub fn new(
        name: impl Into<String>,
        bar: Bar,
        mut ours: impl FnMut() + 'a,
        peer_name: impl Into<String>,
        mut peer: impl FnMut() + 'a,
    ) -> Self {
        let ours = move || time(&mut ours);
        Self::timed(name, bar, ours, peer_name, move || time(&mut peer))
    }

    /// Compares two that take their own time, to leave out what does not count.
    pub fn timed(
        name: impl Into<String>,
        bar: Bar,
        ours: impl FnMut() -> Duration + 'a,
        peer_name: impl Into<String>,
        peer: impl FnMut() -> Duration + 'a,
    ) -> Self {
        Self {
            name: name.into(),
            peer_name: peer_name.into(),
            bar,
            ours: Box::new(ours),
            peer: Box::new(peer),
        }
    }

    /// Name of the benchmark.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs pairs, alternating which of the two goes first.
    pub fn run(&mut self, effort: Effort) -> Outcome {
        let pairs = match effort {
            Effort::Short => 5,
            Effort::Full => 41,
        };
        (self.ours)();
        (self.peer)();
        let samples: Vec<(Duration, Duration)> = (0..pairs).map(|at| self.pair(at)).collect();
        let ratio = |(ours, peer): &(Duration, Duration)| match self.bar {
            Bar::AtLeast(_) => peer.as_secs_f64() / ours.as_secs_f64(),
            Bar::AtMost(_) => ours.as_secs_f64() / peer.as_secs_f64(),
        };
        Outcome {
            name: self.name.clone(),
            peer_name: self.peer_name.clone(),
            bar: self.bar,
            ratio: median(samples.iter().map(ratio).collect()),
            ours: Duration::from_secs_f64(median(
                samples.iter().map(|s| s.0.as_secs_f64()).collect(),
            )),
            peer: Duration::from_secs_f64(median(
                samples.iter().map(|s| s.1.as_secs_f64()).collect(),
            )),
            pairs,
        }
    }

    /// Runs, and if the bar was missed runs twice more: the verdict is the middle one of three.
    pub fn run_to_verdict(&mut self, effort: Effort) -> Outcome {
        let first = self.run(effort);
        if first.passed() {
            return first;
        }
        let mut tries = [first, self.run(effort), self.run(effort)];
        tries.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let [_, middle, _] = tries;
        middle
    }

    fn pair(&mut self, at: usize) -> (Duration, Duration) {
        if at.is_multiple_of(2) {
            let ours = (self.ours)();
            (ours, (self.peer)())
        } else {
            let peer = (self.peer)();
            ((self.ours)(), peer)
        }
    }
}

impl Outcome {
    /// Returns true if the bar was reached.
    pub fn passed(&self) -> bool {
        match self.bar {
            Bar::AtLeast(bar) => self.ratio >= bar,
            Bar::AtMost(bar) => self.ratio <= bar,
        }
    }
}

/// The time of one call.
pub(crate) fn time(call: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    call();
    start.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
