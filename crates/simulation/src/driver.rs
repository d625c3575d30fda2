//! Random calls of the runtime, each compared with what the oracle says.

mod bad_input;
mod memory;
mod requests;
mod streams;
mod waits;

use std::sync::Arc;

use spyre_flex::{Context, ControlBlockStream, DeviceHandle, Error, Event, FlexStream, Ticket};
use spyre_hal::{Label, StreamPoint};

use crate::fault_plan::is_due;
use crate::log::Step;
use crate::oracle::Block;
use crate::random::Random;
use crate::violation::{Promise, Violation};
use crate::world::World;
use bad_input::Foreign;

type Checked<T = ()> = Result<T, Violation>;

/// Blocks between two looks at the flight recorder: it remembers 4,096.
const UNVERIFIED: u64 = 2000;

/// Tickets that are kept.
const TICKETS: usize = 24;

/// Caller of the runtime: makes random calls, and compares their results with the oracle's.
pub(crate) struct Driver {
    world: Arc<World>,
    context: Context,
    random: Random,
    streams: Vec<FlexStream>,
    /// Live allocations, by the oracle's number.
    live: Vec<usize>,
    stale: Vec<DeviceHandle>,
    tickets: Vec<(Ticket, u64)>,
    events: Vec<Recorded>,
    composed: Vec<Composed>,
    labels: Vec<Label>,
    foreign: Foreign,
    next_number: u64,
}

/// An event, and where it was recorded last.
#[derive(Debug, Default)]
struct Recorded {
    event: Event,
    is_timed: bool,
    point: Option<(StreamPoint, u64)>,
}

impl Recorded {
    /// Every other one is timed.
    fn new(nth: u32) -> Self {
        let is_timed = nth % 2 == 1;
        let event = if is_timed { Event::timed() } else { Event::new() };
        Self { event, is_timed, point: None }
    }
}

/// A composed list, and what the oracle is to expect of it.
struct Composed {
    blocks: ControlBlockStream,
    models: Vec<Block>,
}

impl Driver {
    pub(crate) fn new(world: &Arc<World>, context: Context) -> Result<Self, Error> {
        let label = |at| Label::named(&format!("simulated {at}"));
        Ok(Self {
            world: Arc::clone(world),
            context,
            random: Random::new(world.settings.seed ^ 0x00d2_17e2),
            streams: Vec::new(),
            live: Vec::new(),
            stale: Vec::new(),
            tickets: Vec::new(),
            events: (0..6).map(Recorded::new).collect(),
            composed: Vec::new(),
            labels: (0..64).map(label).collect(),
            foreign: Foreign::new()?,
            next_number: 1,
        })
    }

    /// All operations of a run.
    pub(crate) fn run(&mut self) -> Checked {
        for operation in 0..self.world.settings.operations {
            self.world.state().report.operations = operation + 1;
            self.world.pass(1 + self.random.below(1000));
            self.operate()?;
            self.let_world_go_on();
            self.check()?;
        }
        self.finish()
    }

    fn operate(&mut self) -> Checked {
        if self.streams.is_empty() {
            return self.open_stream();
        }
        let is_lost = self.world.state().oracle.is_lost();
        if is_lost && self.random.one_in(12) {
            return self.reset_device();
        }
        match self.random.below(1000) {
            0..130 => self.allocate(),
            130..240 => self.free(),
            240..560 => self.submit_one(),
            560..620 => self.submit_batch(),
            620..640 => self.compose(),
            640..670 => self.replay(),
            670..720 => self.record(),
            720..780 => self.wait_for_event(),
            780..800 => self.query_event(),
            800..812 => self.synchronize_event(),
            812..830 => self.call_back(),
            830..850 => self.synchronize(),
            850..900 => self.query(),
            900..925 => self.query_ticket(),
            925..935 => self.wait_for_ticket(),
            935..937 => self.synchronize_all(),
            937..947 => self.open_stream(),
            947..957 => self.drop_stream(),
            957..965 => self.reset_stream(),
            965..966 if self.random.one_in(8) => self.reset_device(),
            966..970 => self.empty_cache(),
            970..974 => self.set_policy(),
            974..977 => self.leave_the_card(),
            _ => self.bad_input(),
        }
    }

    fn let_world_go_on(&mut self) {
        if is_due(self.world.settings.faults.clock_jump, &mut self.random) {
            let seconds = 1 + self.random.below(3600);
            self.log(Step::Call("clock jumps", seconds));
            self.world.pass(seconds * 1_000_000_000);
        }
        let steps = self.random.below(self.world.settings.pace_percent + 100) / 100;
        for _ in 0..steps {
            self.world.step();
        }
        self.world.look_now_and_then();
    }

    fn check(&mut self) -> Checked {
        self.check_memory()?;
        if self.world.state().unverified > UNVERIFIED {
            self.world.compare();
        }
        match self.world.state().violation.clone() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    fn log(&self, step: Step) {
        self.world.state().log.add(self.world.now(), step);
    }

    fn stream_at(&mut self) -> usize {
        self.random.index(self.streams.len())
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        // High bits, so that no two numbers share their first bytes for long.
        self.next_number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

fn broken<T>(promise: Promise, message: impl Into<String>) -> Checked<T> {
    Err(Violation::new(promise, message))
}

fn unexpected<T>(what: &str, error: &Error) -> Checked<T> {
    broken(Promise::RightRefusal, format!("{what}: {error}"))
}
