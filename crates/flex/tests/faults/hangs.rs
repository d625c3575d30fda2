//! Blocks that do not end, and the watchdog.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use parking_lot::{Condvar, Mutex};
use spyre_flex::{Context, Error, Priority, SchedulerSettings, Settings};
use spyre_hal::{
    Behaviour, BlockKind, Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault,
    Hardware, Label, MemoryMode, Outcome, PeerMemory, Regions, ScriptedCard, Started, Token,
    Trigger,
};

use crate::support::{Card, Clock, Way, fault, on_cards_with, program};

const MILLISECOND: u64 = 1_000_000;

fn watched(milliseconds: u64) -> SchedulerSettings {
    let watchdog_nanoseconds = Some(milliseconds * MILLISECOND);
    SchedulerSettings { watchdog_nanoseconds, ..SchedulerSettings::default() }
}

/// Milliseconds that the watchdog of a test waits: a card's thread may come as late on a busy
/// machine.
const PATIENCE: u64 = 100;

/// Runs a test on cards with a watchdog.
fn on_watched_cards(test: impl Fn(&Card) -> Result<(), Error>) {
    on_cards_with(&watched(PATIENCE), |_| true, &test);
}

#[test]
fn a_hung_block_is_found_and_ended() {
    on_watched_cards(|card| {
        let stream = card.stream();
        let other = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        for _ in 0..3 {
            card.scripted().script(Trigger::NextLaunch(program), Behaviour::Hang);
            let hung = stream.launch_labelled(program, Label::named("endless"))?;
            let behind = stream.launch(program)?;
            let reported = fault(stream.ticket(hung).wait());
            let Fault::Hung { milliseconds } = reported.fault else { panic!("{reported}") };
            assert!(milliseconds >= PATIENCE, "{milliseconds}");
            assert_eq!(
                reported.to_string(),
                format!(
                    "stream 0, block {} (launch \"endless\"): ended by the watchdog after \
                     {milliseconds} ms",
                    hung.sequence
                )
            );
            assert_eq!(fault(stream.ticket(behind).wait()), reported);
            other.launch(program)?;
            assert_eq!(other.synchronize(), Ok(()));
            stream.reset()?;
            stream.launch(program)?;
            assert_eq!(stream.synchronize(), Ok(()));
        }
        Ok(())
    });
}

#[test]
fn a_block_that_heeds_no_abort_costs_the_device() {
    on_watched_cards(|card| {
        let stream = card.stream();
        let other = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::NextLaunch(program), Behaviour::HangForever);
        let hung = stream.launch(program)?;

        let reported = fault(stream.ticket(hung).wait());
        assert_eq!(reported.point, hung);
        let text = reported.to_string();
        let start = format!(
            "stream 0, block {} (launch): the device is lost: a block hung for ",
            hung.sequence
        );
        let end = " ms and did not heed an abort. Reset it; its memory is gone";
        assert!(text.starts_with(&start) && text.ends_with(end), "{text}");
        assert_eq!(fault(other.launch(program)), reported);
        assert_eq!(fault(stream.reset()), reported);

        card.context.reset()?;
        let program = crate::support::program(&other)?;
        other.launch(program)?;
        other.synchronize()?;
        stream.launch(program)?;
        card.context.synchronize()
    });
}

#[test]
fn no_block_is_ended_that_is_not_hung() {
    on_cards_with(
        &watched(1),
        |kind| kind.way != Way::Late,
        |card| {
            let stream = card.stream();
            let program = program(&stream)?;
            for _ in 0..200 {
                (0..100).try_for_each(|_| stream.launch(program).map(drop))?;
                stream.synchronize()?;
            }
            Ok(())
        },
    );
}

/// A card whose launches stay in `start` until the test, or a reset, lets them go.
#[derive(Debug)]
struct Gated {
    card: ScriptedCard,
    is_prompt: bool,
    state: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    inside: usize,
    aborts: usize,
}

impl Gated {
    fn new(is_prompt: bool) -> Arc<Self> {
        let card = ScriptedCard::new(MemoryMode::Vf);
        let state = Mutex::new(Gate { is_closed: true, ..Gate::default() });
        Arc::new(Self { card, is_prompt, state, changed: Condvar::new() })
    }

    fn open_gate(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    fn wait_until_inside(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.inside == 0);
    }
}

impl Regions for Gated {
    spyre_hal::forward_regions!(|self| self.card);
}

impl Hardware for Gated {
    fn description(&self) -> Description {
        Description { is_prompt: self.is_prompt, ..self.card.description() }
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.card.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        if block.kind() == BlockKind::Launch {
            let mut state = self.state.lock();
            state.inside += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| state.is_closed);
            state.inside -= 1;
            self.changed.notify_all();
        }
        self.card.start(engine, token, block)
    }

    fn abort(&self, _: EngineIndex, _: Token) {
        self.state.lock().aborts += 1;
    }

    fn reset(&self) {
        self.open_gate();
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.inside > 0);
        drop(state);
        self.card.reset();
    }
}

impl PeerMemory for Gated {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}

fn open_gated(gated: &Arc<Gated>, clock: &Arc<Clock>) -> Result<Context, Error> {
    // The clock stands still but for the test, so the watchdog's own thread finds nothing.
    let settings = watched(1_000);
    Context::open_with(gated.clone(), Settings::default(), settings, clock.clone())
}

#[test]
fn a_thread_that_was_held_up_is_no_hung_block() -> Result<(), Error> {
    let gated = Gated::new(true);
    let clock = Arc::new(Clock::default());
    clock.now.store(3_600_000 * MILLISECOND, Ordering::SeqCst);
    let context = open_gated(&gated, &clock)?;
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;

    thread::scope(|scope| {
        let submitter = scope.spawn(|| stream.launch(program));
        gated.wait_until_inside();
        // The hour before it started is not the block's.
        let looks: Vec<_> = (0..5).map(|_| context.scheduler().look_for_hung_blocks()).collect();
        assert_eq!(looks, [0; 5]);
        clock.now.fetch_add(900 * MILLISECOND, Ordering::SeqCst);
        assert_eq!(context.scheduler().look_for_hung_blocks(), 0);
        gated.open_gate();
        submitter.join().expect("it ends").map(drop)
    })?;

    assert_eq!(gated.state.lock().aborts, 0);
    stream.synchronize()
}

#[test]
fn a_block_that_ends_after_it_was_given_up_is_forgotten() -> Result<(), Error> {
    let gated = Gated::new(false);
    let clock = Arc::new(Clock::default());
    let context = open_gated(&gated, &clock)?;
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;
    stream.synchronize()?;
    let hung = stream.launch(program)?;
    gated.wait_until_inside();

    clock.now.fetch_add(1_001 * MILLISECOND, Ordering::SeqCst);
    crate::support::until("it is aborted", || {
        context.scheduler().look_for_hung_blocks();
        gated.state.lock().aborts > 0
    });
    clock.now.fetch_add(1_001 * MILLISECOND, Ordering::SeqCst);
    crate::support::until("it is given up", || {
        context.scheduler().look_for_hung_blocks();
        stream.query().is_err()
    });
    assert!(matches!(fault(stream.ticket(hung).wait()).fault, Fault::DeviceLost { .. }));
    context.reset()?;

    // Its late end must not stand for any of these.
    let handle = stream.allocate(200)?;
    for nth in 0..200 {
        let cell = DeviceRange { handle, offset: nth, bytes: 1 };
        let point = stream.fill(cell, nth as u8)?;
        stream.ticket(point).wait()?;
        assert_eq!(gated.card.memory().bytes(cell), Ok(vec![nth as u8]));
    }
    stream.synchronize()
}
