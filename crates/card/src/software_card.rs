use std::any::Any;
use std::sync::{Arc, Weak};

use spyre_hal::{
    Allocations, Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault, Hardware,
    MemoryMode, Outcome, PeerMemory, Region, RegionId, Regions, Started, Token,
};

use crate::Threads;
use crate::engines::{EngineTurn, Engines};
use crate::memory::Memory;
use crate::mxcsr::UsualRounding;
use crate::programs::Programs;
use crate::work::Work;

/// A card that is the host's memory and cores.
///
/// It has no thread of its own: `start` carries the block out. To open one takes no memory, and
/// regions take only what is written to them; all of it goes back when the card is dropped.
///
/// ```
/// use spyre_card::{SoftwareCard, Threads};
/// use spyre_hal::{Hardware, MemoryMode};
///
/// let card = SoftwareCard::new(MemoryMode::Pf)
///     .with_engines(2)
///     .with_regions(4, 1 << 30)
///     .with_threads(Threads::new(2));
/// assert_eq!(card.description().engines, 2);
/// ```
#[derive(Debug)]
pub struct SoftwareCard {
    memory: Memory,
    programs: Programs,
    engines: Engines,
    threads: Arc<Threads>,
}

impl SoftwareCard {
    /// One engine, 8 regions of up to 12 GB, and the threads of the process.
    pub fn new(mode: MemoryMode) -> Self {
        Self {
            memory: Memory::new(mode, 8, 12 << 30),
            programs: Programs::default(),
            engines: Engines::new(1),
            threads: Threads::of_process(None),
        }
    }

    /// Sets the number of engines.
    #[must_use]
    pub fn with_engines(self, engines: u16) -> Self {
        Self { engines: Engines::new(engines), ..self }
    }

    /// Sets the most regions at a time, and the most bytes of each.
    #[must_use]
    pub fn with_regions(self, regions: u16, region_bytes: u64) -> Self {
        Self { memory: self.memory.with_regions(regions, region_bytes), ..self }
    }

    /// Sets the threads that help with large copies and launches.
    #[must_use]
    pub fn with_threads(self, threads: Arc<Threads>) -> Self {
        Self { threads, ..self }
    }

    /// Refuses launches whose elements times instructions come to more than this: for tests, whose programs
    /// may be anything.
    #[must_use]
    pub fn with_most_work(self, most_work: u64) -> Self {
        Self { programs: self.programs.with_most_work(most_work), ..self }
    }

    /// Sets the first address, which is random otherwise: for tests. It is rounded down to a multiple of
    /// 4096.
    #[must_use]
    pub fn with_base_address(self, base_address: u64) -> Self {
        Self { memory: self.memory.with_base_address(base_address), ..self }
    }

    /// Puts memory out of reach except while a block runs: for tests. An access by a side door ends the
    /// process.
    #[must_use]
    pub fn guarded(self) -> Self {
        Self { memory: self.memory.guarded(), ..self }
    }

    /// Loses the card, until it is reset: for tests.
    pub fn lose(&self, why: &str) {
        self.engines.lose(Fault::DeviceLost { why: why.into() });
    }

    fn work<'a>(&'a self, turn: &'a EngineTurn<'a>) -> Work<'a> {
        Work { memory: &self.memory, programs: &self.programs, threads: &self.threads, turn }
    }
}

impl Default for SoftwareCard {
    fn default() -> Self {
        Self::new(MemoryMode::default())
    }
}

impl Regions for SoftwareCard {
    fn mode(&self) -> MemoryMode {
        self.memory.mode()
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        self.memory.try_allocate(bytes)
    }

    fn release(&self, region: RegionId) {
        self.programs.forget_region(region);
        self.memory.release(region);
    }

    fn discard(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        self.memory.discard(region, offset_bytes, bytes);
    }

    fn protect(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        self.programs.protect(region, offset_bytes, bytes);
    }

    fn unprotect(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        self.programs.unprotect(region, offset_bytes, bytes);
    }

    fn attach(&self, allocations: Weak<dyn Allocations>) {
        self.programs.attach(allocations);
    }
}

impl Hardware for SoftwareCard {
    fn description(&self) -> Description {
        let engines = self.engines.count();
        Description { name: "software".to_owned(), engines, is_prompt: false }
    }

    /// Does nothing: every block is done when `start` returns.
    fn connect(&self, _: Arc<dyn Completions>) {}

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        let turn = match self.engines.enter(Some((engine, token))) {
            Ok(turn) => turn,
            Err(fault) => {
                drop(block);
                return Started::Done(Err(fault));
            }
        };
        let usual = UsualRounding::begin();
        let outcome = self.work(&turn).carry_out(block);
        drop(usual);
        turn.note_modelled(*outcome.as_ref().unwrap_or(&0));
        Started::Done(turn.leave(outcome.map(drop)))
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.engines.abort(engine, token);
    }

    fn reset(&self) {
        self.engines.reset(|| {
            self.programs.forget_all();
            self.memory.release_all();
        });
    }

    fn modelled_nanoseconds(&self, engine: EngineIndex) -> u64 {
        self.engines.modelled_nanoseconds(engine)
    }

    fn host_address(&self, range: DeviceRange) -> Option<usize> {
        self.memory.host_address(range)
    }
}

impl PeerMemory for SoftwareCard {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        let turn = self.engines.enter(None)?;
        let outcome = self.work(&turn).accept(target, bytes);
        turn.leave(outcome)
    }

    fn window(&self, target: DeviceRange) -> Result<Option<Box<dyn Any + Send>>, Fault> {
        let turn = self.engines.enter(None)?;
        let window = self.work(&turn).window_for_peer(target);
        turn.leave(window.as_ref().map(drop).map_err(Clone::clone))?;
        Ok(Some(Box::new(window?)))
    }
}
