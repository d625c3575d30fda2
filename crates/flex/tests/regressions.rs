//! Bugs that the simulation has found, each as small as it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spyre_flex::{
    Context, Drive, Env, Error, FlexStream, Priority, SchedulerSettings, Settings, StreamFault,
};
use spyre_hal::{
    Behaviour, BlockKind, Completions, ControlBlock, DeferredCard, Description, DeviceRange,
    EngineIndex, Fault, Hardware, MemoryMode, NullCard, Outcome, Pattern, PeerMemory, Regions,
    ScriptedCard, Started, Token, Trigger,
};

/// A clock that stands still, and no threads. No thread may wait.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Env for Still {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn spawn(&self, _: String, _: Box<dyn FnOnce() + Send>) -> bool {
        false
    }

    fn park(&self) {
        panic!("no thread will wake this one");
    }
}

const LIMIT: u64 = 1000;

fn open(card: Arc<dyn Hardware>, clock: &Arc<Still>) -> Context {
    let settings = SchedulerSettings {
        drive: Some(Drive::Inline),
        watchdog_nanoseconds: Some(LIMIT),
        ..SchedulerSettings::default()
    };
    let clock = Arc::clone(clock) as Arc<dyn Env>;
    Context::open_with(card, Settings::default(), settings, clock).expect("it opens")
}

fn fill(stream: &FlexStream) -> ControlBlock {
    let handle = stream.allocate(128).expect("there is room");
    ControlBlock::Fill { pattern: Pattern::from(1), target: DeviceRange::start_of(handle, 8) }
}

fn failed(why: &str) -> Behaviour {
    Behaviour::Fault(Fault::CopyFailed { why: why.into() })
}

fn reported_fault(result: Result<(), Error>) -> Option<Arc<StreamFault>> {
    match result {
        Ok(()) => None,
        Err(Error::Stream(fault)) => Some(fault),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_wait_in_the_middle_of_a_batch_loses_nothing() {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = open(card.clone(), &Arc::default());
    let stream = context.stream(Priority::Low).expect("a stream");
    let first = stream.submit([fill(&stream)]).expect("queued");

    let batch = [fill(&stream), ControlBlock::WaitEvent(first), fill(&stream)];
    stream.submit(batch).expect("queued");

    assert_eq!(stream.query(), Ok(true));
    assert_eq!(card.log().len(), 3);
}

#[test]
fn a_block_that_was_running_at_a_reset_is_not_done() {
    let card = Arc::new(DeferredCard::new(ScriptedCard::new(MemoryMode::Vf)));
    let context = open(card, &Arc::default());
    let stream = context.stream(Priority::Low).expect("a stream");
    let running = stream.ticket(stream.submit([fill(&stream)]).expect("queued"));

    context.reset().expect("it is reset");

    let fault = reported_fault(running.wait()).expect("it never ran to its end");
    assert_eq!(fault.fault, Fault::DeviceReset);
}

#[test]
fn a_data_fault_keeps_its_cause_when_the_device_is_lost_later() {
    let card = Arc::new(DeferredCard::new(ScriptedCard::new(MemoryMode::Vf)));
    card.inner().script(Trigger::Nth(1), failed("a bad cable"));
    card.inner().script(Trigger::Nth(2), Behaviour::Lose);
    let context = open(card.clone(), &Arc::default());
    let [first, second] = [0; 2].map(|_| context.stream(Priority::Low).expect("a stream"));
    let failed = first.ticket(first.submit([fill(&first)]).expect("queued"));
    let behind = first.ticket(first.submit([fill(&first)]).expect("queued"));
    second.submit([fill(&second)]).expect("queued");

    while card.finish(0) {}

    for ticket in [failed, behind] {
        let fault = reported_fault(ticket.wait()).expect("it failed");
        assert!(matches!(fault.fault, Fault::CopyFailed { .. }), "{fault}");
    }
    let fault = reported_fault(first.synchronize()).expect("lost");
    assert!(matches!(fault.fault, Fault::DeviceLost { .. }));
}

#[test]
fn a_new_stream_is_not_harmed_by_one_that_was_dropped() {
    let card = Arc::new(DeferredCard::new(ScriptedCard::new(MemoryMode::Vf)));
    card.inner().script(Trigger::Nth(1), failed("a bad cable"));
    let context = open(card.clone(), &Arc::default());
    let dropped = context.stream(Priority::Low).expect("a stream");
    dropped.submit([fill(&dropped)]).expect("queued");
    drop(dropped);

    let new = context.stream(Priority::Low).expect("a stream");
    new.submit([fill(&new)]).expect("queued");
    while card.finish(0) {}

    assert_eq!(new.synchronize(), Ok(()));
}

#[test]
fn what_failed_after_its_stream_was_dropped_is_not_reported_to_the_next() {
    let card = Arc::new(DeferredCard::new(ScriptedCard::new(MemoryMode::Vf)));
    card.inner().script(Trigger::Nth(1), failed("a bad cable"));
    let context = open(card.clone(), &Arc::default());
    let dropped = context.stream(Priority::Low).expect("a stream");
    dropped.submit([fill(&dropped)]).expect("queued");
    drop(dropped);
    while card.finish(0) {}

    let new = context.stream(Priority::Low).expect("a stream");
    assert_eq!(new.query(), Ok(true));
}

#[test]
fn faults_of_several_streams_are_reported_one_by_one() {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    card.script(Trigger::Every(BlockKind::Fill), failed("a bad cable"));
    let context = open(card, &Arc::default());
    let streams = [0; 3].map(|_| context.stream(Priority::Low).expect("a stream"));
    for stream in &streams {
        stream.submit([fill(stream)]).expect("queued");
    }

    let faults = [0; 4].map(|_| reported_fault(context.synchronize()));

    let reported = faults.map(|fault| fault.map(|fault| fault.point.stream));
    let [a, b, c] = streams.each_ref().map(|stream| Some(stream.index()));
    assert_eq!(reported, [a, b, c, None]);
}

type Hook<R> = Box<dyn Fn(&Hooked, EngineIndex, Token) -> R + Send + Sync>;

/// A card that does in `start` and `abort` what a test says.
struct Hooked {
    regions: NullCard,
    description: Description,
    completions: Mutex<Option<Arc<dyn Completions>>>,
    running: Mutex<Vec<(EngineIndex, Token)>>,
    aborts: AtomicU64,
    start: Hook<Started>,
    abort: Hook<()>,
}

impl Hooked {
    fn new(engines: u16, is_prompt: bool, start: Hook<Started>, abort: Hook<()>) -> Arc<Self> {
        let description = Description { name: "hooked".to_owned(), engines, is_prompt };
        let completions = Mutex::default();
        let running = Mutex::default();
        let regions = NullCard::new();
        let aborts = AtomicU64::new(0);
        Arc::new(Self { regions, description, completions, running, aborts, start, abort })
    }

    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        self.running.lock().retain(|running| *running != (engine, token));
        let completions = self.completions.lock().clone().expect("it is connected");
        completions.complete(engine, token, outcome);
    }
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl Regions for Hooked {
    spyre_hal::forward_regions!(|self| self.regions);
}

impl Hardware for Hooked {
    fn description(&self) -> Description {
        self.description.clone()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        *self.completions.lock() = Some(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, _: ControlBlock) -> Started {
        self.running.lock().push((engine, token));
        (self.start)(self, engine, token)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.aborts.fetch_add(1, Ordering::Relaxed);
        if self.running.lock().contains(&(engine, token)) {
            (self.abort)(self, engine, token);
        }
    }

    fn reset(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for (engine, token) in running {
            self.complete(engine, token, Err(Fault::DeviceLost { why: "a reset".into() }));
        }
        self.regions.reset();
    }
}

impl PeerMemory for Hooked {
    fn accept(&self, _: DeviceRange, _: &[u8]) -> Outcome {
        Ok(())
    }
}

/// Context for a watchdog that looks in the middle of a start.
type Late = Arc<Mutex<Option<Context>>>;

fn look(late: &Late) {
    let context = late.lock().clone().expect("it is open");
    context.scheduler().look_for_hung_blocks();
}

#[test]
fn a_block_of_a_prompt_card_is_not_hung_before_it_is_known_to_run() {
    let late = Late::default();
    let clock = Arc::new(Still(AtomicU64::new(5 * LIMIT)));
    let watchdog = Arc::clone(&late);
    let start: Hook<Started> = Box::new(move |_, _, _| {
        look(&watchdog);
        Started::Later
    });
    let card = Hooked::new(1, true, start, Box::new(|_, _, _| {}));
    let context = open(card.clone(), &clock);
    *late.lock() = Some(context.clone());
    let stream = context.stream(Priority::Low).expect("a stream");
    stream.submit([fill(&stream)]).expect("queued");

    assert_eq!(card.aborts.load(Ordering::Relaxed), 0);
    context.reset().expect("it is reset");
    *late.lock() = None;
}

#[test]
fn a_start_that_was_given_up_leaves_nothing_behind() {
    let late = Late::default();
    let clock = Arc::new(Still(AtomicU64::new(LIMIT)));
    let watchdog = Arc::clone(&late);
    let time = Arc::clone(&clock);
    let hangs = Arc::new(AtomicU64::new(1));
    let start: Hook<Started> = Box::new(move |_, _, _| {
        if hangs.swap(0, Ordering::Relaxed) == 0 {
            return Started::Later;
        }
        for _ in 0..3 {
            time.0.fetch_add(LIMIT + 1, Ordering::Relaxed);
            look(&watchdog);
        }
        Started::Done(Ok(()))
    });
    let card = Hooked::new(1, false, start, Box::new(|_, _, _| {}));
    let context = open(card, &clock);
    *late.lock() = Some(context.clone());
    let stream = context.stream(Priority::Low).expect("a stream");
    stream.submit([fill(&stream), fill(&stream)]).expect("queued");
    context.reset().expect("it is reset");

    stream.submit([fill(&stream)]).expect("queued");
    assert_eq!(stream.query(), Ok(false)); // it is under way
    context.reset().expect("it is reset");
    *late.lock() = None;
}

#[test]
fn the_watchdog_ends_no_block_that_was_started_after_it_had_looked() {
    let clock = Arc::new(Still(AtomicU64::new(LIMIT)));
    let abort: Hook<()> = Box::new(|card, engine, token| {
        // The other engine's block ends by itself meanwhile, and the next one is started there.
        let other = card.running.lock().iter().find(|running| running.0 != engine).copied();
        if let Some((engine, token)) = other {
            card.complete(engine, token, Ok(()));
        }
        card.complete(engine, token, Err(Fault::Hung { milliseconds: 0 }));
    });
    let card = Hooked::new(2, true, Box::new(|_, _, _| Started::Later), abort);
    let context = open(card.clone(), &clock);
    let [hung, fine] = [0; 2].map(|_| context.stream(Priority::Low).expect("a stream"));
    hung.submit([fill(&hung)]).expect("queued");
    fine.submit([fill(&fine), fill(&fine)]).expect("queued");

    clock.0.fetch_add(2 * LIMIT, Ordering::Relaxed);
    context.scheduler().look_for_hung_blocks();

    assert_eq!(card.aborts.load(Ordering::Relaxed), 1);
    assert_eq!(fine.query(), Ok(false)); // its second block runs
    context.reset().expect("it is reset");
}
