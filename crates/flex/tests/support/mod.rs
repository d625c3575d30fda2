//! Cards for the tests of streams, opened in every way that a runtime can meet them.
#![allow(dead_code, reason = "each file of tests uses its own part")]
#![allow(unused_imports, reason = "the same")]

mod random;

use std::any::Any;
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use random::Random;
use spyre_flex::{
    Context, Drive, Env, Error, Event, FlexStream, Machine, Policy, Priority, Record,
    SchedulerSettings, Settings, StreamFault,
};
use spyre_hal::{
    DeferredCard, DeviceHandle, DeviceRange, Hardware, HostBuffer, LateCard, MemoryMode,
    ScriptedCard,
};

/// Threads that complete a card's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The thread that submits.
    Inline,
    /// The scheduler's workers.
    Workers,
    /// A thread of the card, later.
    Late,
}

/// A way to open a card.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) way: Way,
    pub(crate) mode: MemoryMode,
    pub(crate) engines: u16,
}

/// A scripted card and the context that has it.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) kind: Kind,
    pub(crate) context: Context,
    device: Device,
}

#[derive(Debug)]
enum Device {
    Prompt(Arc<ScriptedCard>),
    Late(Arc<LateCard<ScriptedCard>>),
}

impl Kind {
    /// All ways, with both modes and one and four engines among them.
    pub(crate) const ALL: [Self; 7] = [
        Self { way: Way::Inline, mode: MemoryMode::Pf, engines: 1 },
        Self { way: Way::Inline, mode: MemoryMode::Vf, engines: 1 },
        Self { way: Way::Inline, mode: MemoryMode::Vf, engines: 4 },
        Self { way: Way::Workers, mode: MemoryMode::Vf, engines: 1 },
        Self { way: Way::Workers, mode: MemoryMode::Pf, engines: 4 },
        Self { way: Way::Late, mode: MemoryMode::Vf, engines: 1 },
        Self { way: Way::Late, mode: MemoryMode::Pf, engines: 4 },
    ];

    pub(crate) fn open(self) -> Card {
        self.open_with(SchedulerSettings::default())
    }

    pub(crate) fn open_with(self, mut settings: SchedulerSettings) -> Card {
        let scripted = ScriptedCard::new(self.mode).with_engines(self.engines);
        settings.drive =
            Some(if self.way == Way::Workers { Drive::Workers } else { Drive::Inline });
        let (device, hardware): (Device, Arc<dyn Hardware>) = match self.way {
            Way::Late => {
                let late = Arc::new(LateCard::new(scripted, 7));
                (Device::Late(late.clone()), late)
            }
            _ => {
                let prompt = Arc::new(scripted);
                (Device::Prompt(prompt.clone()), prompt)
            }
        };
        Card { kind: self, context: open(hardware, settings), device }
    }
}

impl Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {:?} card in {:?} mode, engines: {}", self.way, self.mode, self.engines)
    }
}

/// Opens hardware with settings of the scheduler.
pub(crate) fn open(hardware: Arc<dyn Hardware>, settings: SchedulerSettings) -> Context {
    Context::open_with(hardware, Settings::default(), settings, Arc::new(Machine::default()))
        .expect("it opens")
}

/// Runs a test on a card of every kind.
pub(crate) fn on_each_card(test: impl Fn(&Card) -> Result<(), Error>) {
    on_cards_with(&SchedulerSettings::default(), |_| true, test);
}

/// Runs a test on cards of some kinds.
pub(crate) fn on_cards_with(
    settings: &SchedulerSettings,
    is_wanted: impl Fn(Kind) -> bool,
    test: impl Fn(&Card) -> Result<(), Error>,
) {
    for kind in Kind::ALL.into_iter().filter(|&kind| is_wanted(kind)) {
        let card = kind.open_with(settings.clone());
        match catch_unwind(AssertUnwindSafe(|| test(&card))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("{kind:?}: {error}"),
            Err(panic) => panic!("{kind:?}: {}", message(&*panic)),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

impl Card {
    /// The card itself.
    pub(crate) fn scripted(&self) -> &ScriptedCard {
        match &self.device {
            Device::Prompt(card) => card,
            Device::Late(card) => card.inner(),
        }
    }

    pub(crate) fn stream(&self) -> FlexStream {
        self.context.stream(Priority::Low).expect("there are few")
    }
}

/// A card whose blocks end when the test says so, one at a time.
pub(crate) struct Stepped {
    pub(crate) context: Context,
    pub(crate) card: Arc<DeferredCard<ScriptedCard>>,
}

impl Stepped {
    pub(crate) fn open(policy: Policy) -> Self {
        Self::open_with(1, SchedulerSettings { policy, ..SchedulerSettings::default() })
    }

    pub(crate) fn open_with(engines: u16, settings: SchedulerSettings) -> Self {
        let scripted = ScriptedCard::new(MemoryMode::Vf).with_engines(engines);
        let card = Arc::new(DeferredCard::new(scripted));
        Self { context: open(card.clone(), settings), card }
    }

    pub(crate) fn stream(&self, priority: Priority) -> FlexStream {
        self.context.stream(priority).expect("there are few")
    }

    /// Ends the block that runs; false if none does.
    pub(crate) fn step(&self) -> bool {
        self.card.finish(0)
    }

    /// Ends so many blocks, which there must be.
    pub(crate) fn steps(&self, blocks: usize) {
        (0..blocks).for_each(|nth| assert!(self.step(), "there is no block {nth}"));
    }

    /// Ends blocks until none runs, and says how many.
    pub(crate) fn finish_all(&self) -> usize {
        std::iter::from_fn(|| self.step().then_some(())).count()
    }

    /// Allocates, and waits for what that takes.
    pub(crate) fn program(&self, stream: &FlexStream) -> Result<DeviceHandle, Error> {
        let program = stream.allocate(128)?;
        stream.copy_staged(&ScriptedCard::PROGRAM, DeviceRange::start_of(program, 16))?;
        self.finish_all();
        Ok(program)
    }
}

/// A clock that the test sets.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: AtomicU64,
    machine: Machine,
}

impl Env for Clock {
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> bool {
        self.machine.spawn(name, body)
    }

    fn park(&self) {
        self.machine.park();
    }
}

/// A program that runs, in memory of its own.
pub(crate) fn program(stream: &FlexStream) -> Result<DeviceHandle, Error> {
    let program = stream.allocate(128)?;
    stream.copy_staged(&ScriptedCard::PROGRAM, DeviceRange::start_of(program, 16))?;
    Ok(program)
}

/// Reads device memory on a stream when all before has ended.
pub(crate) fn read(stream: &FlexStream, range: DeviceRange) -> Result<Vec<u8>, Error> {
    let host = HostBuffer::zeroed(range.bytes as usize);
    stream.copy_from_device(range, &host)?;
    stream.synchronize()?;
    let bytes = host.read().expect("the copy is done").to_vec();
    Ok(bytes)
}

pub(crate) fn whole(handle: DeviceHandle, bytes: u64) -> DeviceRange {
    DeviceRange::start_of(handle, bytes)
}

/// The fault that an error carries.
pub(crate) fn fault(result: Result<impl Debug, Error>) -> Arc<StreamFault> {
    match result {
        Err(Error::Stream(fault)) => fault,
        other => panic!("no fault of a stream: {other:?}"),
    }
}

/// Blocks that a card has been given, and the last number of a stream. The stream must be sound.
#[derive(Debug, PartialEq, Eq)]
struct StateSnapshot {
    sequence: u64,
    log: usize,
    records: Vec<Record>,
}

impl StateSnapshot {
    fn of(context: &Context, card: &ScriptedCard, stream: &FlexStream) -> Self {
        let point = stream.record(&Event::timed()).expect("the stream goes on");
        context.synchronize().expect("all is well");
        let records = context.scheduler().flight_record();
        Self { sequence: point.sequence, log: card.log().len(), records }
    }
}

/// Asserts that a call is refused, and that it left nothing behind on the card.
pub(crate) fn refusal<T: Debug>(
    context: &Context,
    card: &ScriptedCard,
    stream: &FlexStream,
    call: impl FnOnce() -> Result<T, Error>,
) -> Error {
    let before = StateSnapshot::of(context, card, stream);
    let error = call().expect_err("it is refused");
    let after = StateSnapshot::of(context, card, stream);
    assert_eq!(after.sequence, before.sequence + 1, "{error}: the stream's number has moved");
    assert_eq!(after.log, before.log, "{error}: the card was given a block");
    let known = before.records.len();
    assert_eq!(after.records[..known], before.records, "{error}: the flight record has changed");
    assert_eq!(after.records.len(), known + 1, "{error}: a block was recorded");
    error
}

/// Waits, without sleeping, until something is true.
pub(crate) fn until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}
