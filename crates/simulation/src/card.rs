use std::sync::Arc;

use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault, Hardware, MemoryMode,
    Outcome, PeerMemory, Region, RegionId, Regions, Started, StreamIndex, StreamPoint, Token,
};

use crate::fault_plan::{BlockFault, is_due};
use crate::identity::identity;
use crate::log::Step;
use crate::settings::Sabotage;
use crate::violation::{Promise, Violation};
use crate::world::{Pending, State, World, lost};

/// A card whose blocks end when the world says so, and as its plan of faults says.
#[derive(Debug)]
pub(crate) struct SimulatedCard {
    world: Arc<World>,
}

impl SimulatedCard {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world) }
    }

    /// Takes a block in, and says how it is to go.
    fn take(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Pending {
        let now = self.world.now();
        let state = &mut *self.world.state();
        if state.pending.iter().any(|p| p.engine == engine && !p.is_given_up) {
            let message = format!("engine {} has a block already", engine.0);
            state.check(Err(Violation::new(Promise::InOrder, message)));
        }
        let point = state.oracle.start(identity(&block)).unwrap_or_else(|violation| {
            state.check(Err(violation));
            StreamPoint { stream: StreamIndex(0), sequence: 0 }
        });
        let fault = state.plan(&self.world);
        let fate = fault.map_or("fine", BlockFault::name);
        state.log.add(now, Step::Started { engine: engine.0, point, fate });
        let due = now + state.random.below(self.world.settings.watchdog_nanoseconds / 4);
        let is_abort_asked = false;
        let is_given_up = false;
        let started_at = now;
        Pending { engine, token, block, point, started_at, due, fault, is_abort_asked, is_given_up }
    }

    /// Lets other threads act before a start returns. Blocks of other engines end, this one may end
    /// before the runtime knows that it is under way, and the watchdog looks.
    fn interrupt(&self, engine: EngineIndex) {
        let mut state = self.world.state();
        let what = state.random.below(32);
        drop(state);
        match what {
            0 => drop(self.world.step()),
            1 => self.world.look_for_hung_blocks(),
            2 => {
                self.world.pass(self.world.settings.watchdog_nanoseconds / 8);
                self.world.look_for_hung_blocks();
            }
            _ => {}
        }
        let now = self.world.now();
        let mut state = self.world.state();
        if let Some(pending) = state.pending.iter_mut().find(|p| p.engine == engine) {
            // The runtime measures from when `start` returns to it.
            pending.started_at = now;
        }
    }

    /// A start that does not return, on a card that may: the watchdog gives the device up.
    fn stall(&self, pending: Pending) -> Started {
        let engine = pending.engine;
        self.world.state().pending.push(pending);
        for _ in 0..3 {
            self.world.pass(self.world.settings.watchdog_nanoseconds + 1);
            self.world.look_for_hung_blocks();
        }
        let state = &mut *self.world.state();
        if let Some(at) = state.pending.iter().position(|p| p.engine == engine && p.is_given_up) {
            state.pending.remove(at);
        }
        Started::Done(Ok(()))
    }

    fn later(&self, pending: Pending) -> Started {
        let engine = pending.engine;
        if self.world.settings.sabotage != Some(Sabotage::Forget) || !self.forgets() {
            self.world.state().pending.push(pending);
        }
        self.interrupt(engine);
        Started::Later
    }

    fn forgets(&self) -> bool {
        self.world.state().random.one_in(100)
    }
}

impl State {
    fn plan(&mut self, world: &World) -> Option<BlockFault> {
        let fault = world.settings.faults.draw(&mut self.random);
        fault.filter(|_| self.lost.is_none())
    }
}

impl BlockFault {
    fn name(self) -> &'static str {
        match self {
            Self::Data => "data fault",
            Self::ShortCopy => "short copy",
            Self::Structural => "structural fault",
            Self::Hang => "hangs",
            Self::HangForever => "hangs forever",
            Self::Loss => "loses the device",
        }
    }
}

impl Regions for SimulatedCard {
    fn mode(&self) -> MemoryMode {
        self.world.settings.mode
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        let now = self.world.now();
        let state = &mut *self.world.state();
        let is_refused = is_due(self.world.settings.faults.region, &mut state.random);
        let region = if is_refused { None } else { state.memory.try_allocate(bytes) };
        state.log.add(now, Step::Region { bytes, is_given: region.is_some() });
        region
    }

    fn release(&self, region: RegionId) {
        self.world.state().memory.release(region);
    }

    fn discard(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        self.world.state().memory.discard(region, offset_bytes, bytes);
    }
}

impl Hardware for SimulatedCard {
    fn description(&self) -> Description {
        let engines = self.world.settings.engines;
        let is_prompt = self.world.settings.is_prompt;
        Description { name: "simulated".to_owned(), engines, is_prompt }
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.world.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        let mut pending = self.take(engine, token, block);
        let is_at_once = {
            let mut state = self.world.state();
            let percent = state.random.below(100);
            percent < self.world.settings.at_once_percent || state.lost.is_some()
        };
        match pending.fault {
            Some(BlockFault::HangForever) if !self.world.settings.is_prompt && is_at_once => {
                self.stall(pending)
            }
            Some(BlockFault::Hang | BlockFault::HangForever) => self.later(pending),
            _ if !is_at_once => self.later(pending),
            _ => {
                let outcome = self.world.outcome(&mut pending, None);
                drop(pending.block);
                Started::Done(outcome)
            }
        }
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        let now = self.world.now();
        let limit = self.world.settings.watchdog_nanoseconds;
        let mut state = self.world.state();
        state.log.add(now, Step::Aborted { engine: engine.0 });
        let is_its = |p: &Pending| (p.engine, p.token) == (engine, token);
        let Some(at) = state.pending.iter().position(is_its) else { return };
        let elapsed = now.saturating_sub(state.pending[at].started_at);
        if elapsed <= limit {
            let point = state.pending[at].point;
            let message = format!("{point:?} was aborted after {elapsed} of {limit} ns");
            state.check(Err(Violation::new(Promise::NoFalseAlarm, message)));
        }
        if state.pending[at].fault == Some(BlockFault::HangForever) {
            return;
        }
        state.report.hangs += 1;
        let pending = state.pending.remove(at);
        drop(state);
        self.world.end(pending, Some(Fault::Hung { milliseconds: 0 }));
    }

    fn reset(&self) {
        let now = self.world.now();
        let mut state = self.world.state();
        state.log.add(now, Step::CardReset);
        state.lost.get_or_insert_with(|| lost("it is being reset"));
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        for pending in pending {
            self.world.end(pending, None);
        }
        let mut state = self.world.state();
        state.memory.release_all();
        state.lost = None;
    }
}

impl PeerMemory for SimulatedCard {
    fn accept(&self, _: DeviceRange, _: &[u8]) -> Outcome {
        Err(Fault::CopyFailed { why: "the simulated card takes no bytes of other cards".into() })
    }
}
