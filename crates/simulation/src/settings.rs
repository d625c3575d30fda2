use spyre_flex::Policy;
use spyre_hal::MemoryMode;

use crate::FaultPlan;
use crate::random::Random;

/// Settings of a simulated run. Everything follows from the seed, unless a test says otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of operations that the driver makes.
    pub operations: u64,
    /// Faults that occur.
    pub faults: FaultPlan,
    /// Defect that is put in on purpose, so that the oracle has something to find.
    pub sabotage: Option<Sabotage>,
    pub(crate) mode: MemoryMode,
    pub(crate) engines: u16,
    pub(crate) is_prompt: bool,
    /// Blocks in a hundred that are done when `start` returns.
    pub(crate) at_once_percent: u64,
    pub(crate) policy: Policy,
    pub(crate) queue_blocks: u64,
    pub(crate) queue_bound: u64,
    pub(crate) spins: u32,
    pub(crate) watchdog_nanoseconds: u64,
    pub(crate) regions: u16,
    pub(crate) region_bytes: Vec<u64>,
    pub(crate) budget_bytes: u64,
    pub(crate) streams: usize,
    /// World steps in a hundred operations, at most.
    pub(crate) pace_percent: u64,
}

/// A defect of the card or of the driver, for tests of the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sabotage {
    /// The card reports a block that it is still carrying out, and again at its end.
    ReportTwice,
    /// The card forgets a block.
    Forget,
    /// The card says that a failed block is done.
    HideFault,
    /// The card writes a wrong byte.
    WrongByte,
    /// The driver claims that a batch was queued in another order.
    SwapOrder,
    /// The driver claims that memory was given out that a stream still uses.
    ReuseEarly,
    /// The driver claims that poisoned memory was read.
    ReadPoisoned,
}

impl Settings {
    /// The settings of a seed.
    pub fn of_seed(seed: u64, operations: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5e77_1265);
        let bound = random.pick(&[4, 8, 16, 64]);
        let largest = random.pick(&[16 << 10, 64 << 10, 256 << 10, 4 << 20]);
        let regions = random.pick(&[2, 3, 5]);
        let all = u64::from(regions) * largest;
        Self {
            seed,
            operations,
            faults: random_faults(&mut random),
            sabotage: None,
            mode: random.pick(&[MemoryMode::Pf, MemoryMode::Vf]),
            engines: random.pick(&[1, 1, 2, 3, 4]),
            is_prompt: !random.one_in(4),
            at_once_percent: random.pick(&[0, 10, 50, 90, 100]),
            policy: random.pick(&[Policy::RoundRobin, Policy::Priority, Policy::DrainOne]),
            queue_blocks: random.pick(&[1, 2, 4, 8]),
            queue_bound: bound,
            spins: random.pick(&[0, 1, 3]),
            watchdog_nanoseconds: random.pick(&[1_000_000, 20_000_000, 100_000_000]),
            regions,
            region_bytes: vec![largest, largest / 2, largest / 4],
            budget_bytes: random.pick(&[u64::MAX, all, all / 2, largest / 4 * 3]),
            streams: random.pick(&[1, 2, 4, 8]),
            pace_percent: random.pick(&[30, 100, 200, 400]),
        }
    }

    /// Returns these settings with other faults.
    #[must_use]
    pub fn with_faults(self, faults: FaultPlan) -> Self {
        Self { faults, ..self }
    }

    /// Returns these settings with something broken.
    #[must_use]
    pub fn sabotaged(self, sabotage: Sabotage) -> Self {
        Self { sabotage: Some(sabotage), ..self }
    }
}

fn random_faults(random: &mut Random) -> FaultPlan {
    match random.below(8) {
        0 => FaultPlan::default(),
        1 => FaultPlan::stormy(),
        _ => FaultPlan::usual(),
    }
}
