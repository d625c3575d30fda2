//! What goes wrong after a block was queued: how far it reaches, who is told, and how it ends.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};
use spyre_flex::{
    Context, Error, Event, FlexStream, Policy, Priority, RecordState, SchedulerSettings, Settings,
};
use spyre_hal::{
    Behaviour, BlockKind, Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault,
    Hardware, Label, MemoryMode, Outcome, Regions, ScriptedCard, Started, StreamIndex, Token,
    Trigger,
};
use support::{
    Card, Clock, Stepped, Way, fault, on_cards_with, on_each_card, program, read, whole,
};

const MILLISECOND: u64 = 1_000_000;

fn data_fault() -> Fault {
    Fault::IndexOutOfRange { index: 9, size: 3 }
}

fn watched(milliseconds: u64) -> SchedulerSettings {
    let watchdog_nanoseconds = Some(milliseconds * MILLISECOND);
    SchedulerSettings { watchdog_nanoseconds, ..SchedulerSettings::default() }
}

/// Runs a test on cards with a watchdog, which gives a thread of the card time to come.
fn on_watched_cards(test: impl Fn(&Card) -> Result<(), Error>) {
    on_cards_with(&watched(5), |kind| kind.way != Way::Late, &test);
    on_cards_with(&watched(100), |kind| kind.way == Way::Late, &test);
}

fn states(context: &Context, stream: &FlexStream) -> Vec<RecordState> {
    let records = context.scheduler().flight_record();
    records.iter().filter(|r| r.stream == stream.index()).map(|r| r.state).collect()
}

#[test]
fn a_data_fault_cancels_what_is_queued_and_is_told_once() {
    on_each_card(|card| {
        let (stream, event) = (card.stream(), Event::new());
        let target = whole(stream.allocate(4)?, 4);
        stream.fill(target, 1)?;
        stream.synchronize()?;
        for round in 0..20 {
            card.scripted().script(Trigger::Next(BlockKind::Fill), Behaviour::Fault(data_fault()));
            let fill = |byte: u8| ControlBlock::Fill { pattern: byte.into(), target };
            let last = stream.submit([fill(2), fill(3), fill(4)])?;
            stream.record(&event)?;

            let told = fault(stream.synchronize());
            assert_eq!((told.point.sequence, &told.fault), (last.sequence - 2, &data_fault()));
            assert_eq!((stream.synchronize(), stream.query()), (Ok(()), Ok(true)), "{round}");
            // Whoever asks about the blocks themselves is always told.
            assert_eq!(fault(stream.ticket(last).wait()), told);
            assert_eq!(fault(event.query()), told);
            assert_eq!(read(&stream, target)?, [1; 4], "what was cancelled did nothing");
        }

        stream.fill(target, 5)?;
        assert_eq!(read(&stream, target)?, [5; 4], "and the stream goes on");
        Ok(())
    });
}

#[test]
fn blocks_behind_a_data_fault_are_cancelled_until_it_is_told() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let program = stepped.program(&stream)?;
    stepped.card.inner().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
    for _ in 0..3 {
        stream.launch(program)?;
    }
    stepped.steps(1);
    // It failed, nobody was told, and this one was queued not knowing.
    stream.launch(program)?;
    assert_eq!(stepped.card.pending(), 0);

    assert_eq!(fault(stream.query()).point.sequence, 2);
    assert_eq!(stream.query(), Ok(true));
    stream.launch(program)?;
    stepped.steps(1);
    use RecordState::{Cancelled, Done, Failed};
    let expected = [Done, Failed, Cancelled, Cancelled, Cancelled, Done];
    assert_eq!(states(&stepped.context, &stream), expected);
    stream.synchronize()
}

#[test]
fn a_ticket_may_be_the_one_that_is_told() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        let ticket = stream.ticket(stream.launch(program)?);
        let told = fault(ticket.wait());
        assert_eq!((stream.synchronize(), card.context.synchronize()), (Ok(()), Ok(())));
        assert_eq!(fault(ticket.query()), told);
        Ok(())
    });
}

#[test]
fn a_failure_of_long_ago_never_counts_as_done() -> Result<(), Error> {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = Context::open(Arc::clone(&card) as Arc<dyn Hardware>)?;
    let (stream, other) = (context.stream(Priority::Low)?, context.stream(Priority::Low)?);
    let target = whole(stream.allocate(4)?, 4);
    let well = stream.fill(target, 1)?;
    let failures: Vec<_> = (0..300)
        .map(|_| {
            card.script(Trigger::Next(BlockKind::Fill), Behaviour::Fault(data_fault()));
            let failed = stream.fill(target, 2)?;
            assert_eq!(fault(stream.synchronize()).point, failed);
            Ok(failed)
        })
        .collect::<Result<_, Error>>()?;
    assert_eq!(stream.ticket(well).wait(), Ok(()));

    // The last ones are told with their own cause, the others as what they are: no longer known.
    let answers = failures.iter().map(|&failed| (failed, stream.ticket(failed).wait()));
    let (forgotten, known): (Vec<_>, Vec<_>) =
        answers.partition(|(_, answer)| matches!(answer, Err(Error::Forgotten { .. })));
    assert!((40..=44).contains(&forgotten.len()), "{} are forgotten", forgotten.len());
    for (failed, answer) in known {
        assert_eq!(fault(answer).point, failed);
    }
    let message = forgotten[0].1.as_ref().map_err(ToString::to_string);
    assert!(message.is_err_and(|text| text.contains("block 2 of stream 0 ended is no longer")));

    // Nor does a stream that waits for one go on.
    other.submit([ControlBlock::WaitEvent(failures[0])])?;
    assert_eq!(fault(other.synchronize()).fault, data_fault());
    Ok(())
}

#[test]
fn two_threads_are_told_one_fault_once() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        for _ in 0..50 {
            card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
            stream.launch(program)?;
            let told = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        told.fetch_add(usize::from(stream.synchronize().is_err()), Ordering::SeqCst)
                    });
                }
            });
            assert_eq!(told.into_inner(), 1);
        }
        Ok(())
    });
}

#[test]
fn a_structural_fault_stays_until_the_stream_is_reset() {
    on_each_card(|card| {
        let (stream, other) = (card.stream(), card.stream());
        let good = program(&other)?;
        let target = whole(stream.allocate(4)?, 4);
        stream.synchronize()?;
        other.synchronize()?;

        let failed = stream.launch(target.handle)?;
        let told = fault(stream.synchronize());
        assert_eq!(told.point, failed);
        assert!(matches!(told.fault, Fault::BadProgram { .. }));
        for _ in 0..3 {
            assert_eq!(fault(stream.synchronize()), told);
            assert_eq!(fault(stream.query()), told);
            assert_eq!(fault(stream.launch(good)), told);
            assert_eq!(fault(stream.fill(target, 1)), told);
        }
        other.launch(good)?;
        assert_eq!(other.synchronize(), Ok(()), "other streams go on");

        stream.reset()?;
        assert_eq!((stream.query(), stream.synchronize()), (Ok(true), Ok(())));
        stream.launch(good)?;
        stream.fill(target, 7)?;
        assert_eq!(read(&stream, target)?, [7; 4]);
        Ok(())
    });
}

#[test]
fn a_stream_that_waits_for_a_bad_one_needs_a_reset_of_its_own() {
    on_each_card(|card| {
        let (bad, waiter, event) = (card.stream(), card.stream(), Event::new());
        let junk = bad.allocate(128)?;
        bad.launch(junk)?;
        // The record may be refused already; then there is nothing to wait for.
        if bad.record(&event).is_ok() {
            waiter.wait(&event)?;
            let told = fault(waiter.synchronize());
            assert_eq!((told.point.stream, told.point.sequence), (bad.index(), 1));
            assert_eq!(fault(waiter.record(&event)), told);
            bad.reset()?;
            assert_eq!(fault(waiter.synchronize()), told);
            waiter.reset()?;
        }
        assert_eq!(waiter.synchronize(), Ok(()));
        Ok(())
    });
}

#[test]
fn a_wait_that_is_queued_before_the_fault_fails_too() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let [bad, waiter] = [stepped.stream(Priority::Low), stepped.stream(Priority::Low)];
    let (junk, event) = (bad.allocate(128)?, Event::new());
    bad.launch(junk)?;
    bad.record(&event)?;
    waiter.wait(&event)?;
    let behind = waiter.ticket(waiter.fill(whole(junk, 4), 1)?);
    stepped.finish_all();

    let told = fault(waiter.synchronize());
    assert_eq!((told.point.stream, told.point.sequence), (bad.index(), 1));
    assert_eq!((fault(behind.wait()), fault(event.synchronize())), (told.clone(), told));
    assert_eq!(stepped.card.inner().log().len(), 1);
    Ok(())
}

#[test]
fn a_lost_device_fails_every_stream_with_one_cause() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..6).map(|_| card.stream()).collect();
        let program = program(&streams[0])?;
        card.context.synchronize()?;
        card.scripted().script(Trigger::Nth(20), Behaviour::Lose);
        for stream in streams.iter().cycle().take(60) {
            // Once it is lost, this is refused.
            if let Err(error) = stream.launch_labelled(program, Label::named("step")) {
                assert!(matches!(error, Error::Stream(_)), "{error}");
            }
        }

        let told = fault(card.context.synchronize());
        assert_eq!((told.kind, &*told.label.to_string()), (BlockKind::Launch, "step"));
        assert!(matches!(told.fault, Fault::DeviceLost { .. }));
        for stream in &streams {
            assert_eq!(fault(stream.synchronize()), told);
            assert_eq!(fault(stream.launch(program)), told);
            assert_eq!(fault(stream.reset()), told, "a stream cannot be reset without the device");
        }
        let late = card.stream();
        assert_eq!(fault(late.launch(program)), told);
        assert_eq!(fault(late.query()), told);

        card.context.reset()?;
        assert_eq!((late.query(), card.context.synchronize()), (Ok(true), Ok(())));
        Ok(())
    });
}

#[test]
fn a_reset_starts_a_new_epoch() {
    on_each_card(|card| {
        let stream = card.stream();
        let old = stream.allocate(4096)?;
        let fill = stream.fill(whole(old, 4096), 0xff)?;
        stream.synchronize()?;
        assert_eq!(card.context.allocator().statistics().allocated_bytes, 4096);

        card.context.reset()?;
        assert_eq!(card.context.allocator().statistics().allocated_bytes, 0);
        let why = format!(
            "{old} is not a live allocation of this card: it is from before a reset, or from \
             another card"
        );
        let refused = [
            stream.launch(old).map(drop),
            stream.fill(whole(old, 1), 0).map(drop),
            card.context.free(old),
        ];
        for result in refused {
            assert_eq!(result.expect_err("it is stale").to_string(), why);
        }
        assert_eq!(stream.ticket(fill).wait(), Ok(()), "what ended before stays ended");

        let new = stream.allocate(4096)?;
        assert!(read(&stream, whole(new, 4096))? == [0; 4096], "memory reads zero");
        let good = program(&stream)?;
        stream.launch(good)?;
        stream.synchronize()
    });
}

#[test]
fn a_reset_cancels_all_that_is_queued_or_hangs() {
    on_each_card(|card| {
        for round in 0..5 {
            let streams: Vec<_> = (0..6).map(|_| card.stream()).collect();
            let program = program(&streams[0])?;
            streams[0].synchronize()?;
            card.scripted().script(Trigger::Nth(round + 1), Behaviour::HangForever);
            let mut tickets = Vec::new();
            for stream in streams.iter().cycle().take(60) {
                tickets.push(stream.ticket(stream.launch(program)?));
            }
            support::until("it hangs", || !card.scripted().hanging().is_empty());

            card.context.reset()?;
            assert_eq!(card.context.synchronize(), Ok(()));
            let lost = tickets.iter().filter(|ticket| ticket.wait().is_err()).count();
            assert!((1..=60).contains(&lost), "{lost}");
            assert!(tickets.iter().all(|t| t.query().is_err() || t.query() == Ok(true)));
        }
        Ok(())
    });
}

#[test]
fn resets_amid_submissions_lose_and_wedge_nothing() {
    on_each_card(|card| {
        let is_over = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                let stream = card.stream();
                let is_over = &is_over;
                scope.spawn(move || {
                    while is_over.load(Ordering::SeqCst) == 0 {
                        let run = || {
                            let program = program(&stream)?;
                            (0..10).try_for_each(|_| stream.launch(program).map(drop))?;
                            stream.synchronize()
                        };
                        match run() {
                            Ok(()) | Err(Error::BadHandle { .. }) => {}
                            Err(Error::Stream(told)) => {
                                assert!(
                                    matches!(
                                        told.fault,
                                        Fault::DeviceLost { .. } | Fault::DeviceReset
                                    ),
                                    "{told}"
                                );
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            for _ in 0..30 {
                card.context.reset().expect("it is reset");
                thread::yield_now();
            }
            is_over.store(1, Ordering::SeqCst);
        });
        card.context.reset()?;
        let stream = card.stream();
        let program = program(&stream)?;
        stream.launch(program)?;
        stream.synchronize()
    });
}

#[test]
fn a_hung_block_is_found_and_ended() {
    on_watched_cards(|card| {
        let (stream, other) = (card.stream(), card.stream());
        let program = program(&stream)?;
        stream.synchronize()?;
        for _ in 0..3 {
            card.scripted().script(Trigger::NextLaunch(program), Behaviour::Hang);
            let hung = stream.launch_labelled(program, Label::named("endless"))?;
            let behind = stream.launch(program)?;
            let told = fault(stream.ticket(hung).wait());
            let Fault::Hung { milliseconds } = told.fault else { panic!("{told}") };
            assert!(milliseconds >= 5, "{milliseconds}");
            assert_eq!(
                told.to_string(),
                format!(
                    "stream 0, block {} (launch \"endless\"): ended by the watchdog after \
                     {milliseconds} ms",
                    hung.sequence
                )
            );
            assert_eq!(fault(stream.ticket(behind).wait()), told);
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
        let (stream, other) = (card.stream(), card.stream());
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::NextLaunch(program), Behaviour::HangForever);
        let hung = stream.launch(program)?;

        let told = fault(stream.ticket(hung).wait());
        assert_eq!(told.point, hung);
        let text = told.to_string();
        let (start, end) = (
            format!(
                "stream 0, block {} (launch): the device is lost: a block hung for ",
                hung.sequence
            ),
            " ms and did not heed an abort. Reset it; its memory is gone",
        );
        assert!(text.starts_with(&start) && text.ends_with(end), "{text}");
        assert_eq!(fault(other.launch(program)), told);
        assert_eq!(fault(stream.reset()), told);

        card.context.reset()?;
        let program = support::program(&other)?;
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
    let (gated, clock) = (Gated::new(true), Arc::new(Clock::default()));
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
    let (gated, clock) = (Gated::new(false), Arc::new(Clock::default()));
    let context = open_gated(&gated, &clock)?;
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;
    stream.synchronize()?;
    let hung = stream.launch(program)?;
    gated.wait_until_inside();

    clock.now.fetch_add(1_001 * MILLISECOND, Ordering::SeqCst);
    support::until("it is aborted", || {
        context.scheduler().look_for_hung_blocks();
        gated.state.lock().aborts > 0
    });
    clock.now.fetch_add(1_001 * MILLISECOND, Ordering::SeqCst);
    support::until("it is given up", || {
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

#[test]
fn a_callback_that_fails_or_panics_is_a_data_fault() {
    on_each_card(|card| {
        let stream = card.stream();
        let failing = stream.host_callback(|| Err("no more rows".to_owned()))?;
        let told = fault(stream.synchronize());
        assert_eq!((told.point, told.kind), (failing, BlockKind::HostCallback));
        assert_eq!(
            told.to_string(),
            format!(
                "stream 0, block {} (host callback): the host callback failed: no more rows",
                failing.sequence
            )
        );

        for number in [1, 2] {
            let panicking = stream.host_callback(move || match number {
                1 => panic!("at the disco"),
                number => panic!("number {number}"),
            })?;
            let told = fault(stream.ticket(panicking).wait());
            let what = if number == 1 { "at the disco" } else { "number 2" };
            let expected = format!("the host callback failed: it panicked: {what}");
            assert_eq!(told.fault.to_string(), expected);
        }
        stream.host_callback(|| Ok(()))?;
        assert_eq!(stream.synchronize(), Ok(()));
        Ok(())
    });
}

/// A card whose code is wrong.
#[derive(Debug)]
struct Panicking(ScriptedCard);

impl Regions for Panicking {
    spyre_hal::forward_regions!(|self| self.0);
}

impl Hardware for Panicking {
    fn description(&self) -> Description {
        self.0.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.0.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        assert!(block.kind() != BlockKind::CopyPeer, "copies to peers are not written yet");
        self.0.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.0.abort(engine, token);
    }

    fn reset(&self) {
        self.0.reset();
    }

    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.0.accept(target, bytes)
    }
}

#[test]
fn a_device_whose_code_panics_is_lost() -> Result<(), Error> {
    for drive in [spyre_flex::Drive::Inline, spyre_flex::Drive::Workers] {
        let card = Arc::new(Panicking(ScriptedCard::new(MemoryMode::Vf)));
        let settings = SchedulerSettings { drive: Some(drive), ..SchedulerSettings::default() };
        let context = support::open(card, settings);
        let (stream, other) = (context.stream(Priority::Low)?, context.stream(Priority::Low)?);
        let handles = [stream.allocate(128)?, stream.allocate(128)?];
        let [source, target] = handles.map(|handle| whole(handle, 128));

        stream.copy_to_peer(source, &context, target)?;
        let told = fault(stream.synchronize());
        assert_eq!(
            told.to_string(),
            "stream 0, block 1 (copy to peer): the device is lost: its code panicked: copies to \
             peers are not written yet. Reset it; its memory is gone"
        );
        assert_eq!(fault(other.synchronize()), told);

        context.reset()?;
        let program = program(&other)?;
        other.launch(program)?;
        context.synchronize()?;
    }
    Ok(())
}

#[test]
fn an_error_says_what_happened_where_and_what_to_do() {
    on_each_card(|card| {
        let stream = card.stream();
        let junk = stream.allocate(128)?;
        stream.copy_staged(b"no program at al", whole(junk, 16))?;
        stream.launch_labelled(junk, Label::named("softmax"))?;
        let bytes = format!("{:02x?}", b"no program at al");
        assert_eq!(
            stream.synchronize().expect_err("no program").to_string(),
            format!(
                "stream 0, block 2 (launch \"softmax\"): {junk} holds no program that runs: it \
                 starts with {bytes}"
            )
        );
        stream.reset()?;

        card.scripted().script(Trigger::Nth(1), Behaviour::ShortCopy);
        stream.fill(whole(junk, 100), 1)?;
        assert_eq!(
            stream.synchronize().expect_err("a short copy").to_string(),
            "stream 0, block 3 (fill): the copy failed: it ended after 50 of 100 bytes"
        );
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        stream.copy_staged(&[1], whole(junk, 1))?;
        assert_eq!(
            stream.synchronize().expect_err("a data fault").to_string(),
            "stream 0, block 4 (copy to device): index 9 is out of range for 3 entries"
        );
        card.scripted().script(Trigger::Nth(1), Behaviour::Lose);
        stream.launch(junk)?;
        assert_eq!(
            stream.synchronize().expect_err("a lost device").to_string(),
            "stream 0, block 5 (launch): the device is lost: as the script says. Reset it; its \
             memory is gone"
        );
        Ok(())
    });
}

#[test]
fn a_context_tells_the_faults_of_all_its_streams() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..3).map(|_| card.stream()).collect();
        for (stream, why) in streams.iter().zip(["one", "two", "three"]) {
            stream.host_callback(move || Err(why.to_owned()))?;
        }
        let told: Vec<StreamIndex> =
            (0..3).map(|_| fault(card.context.synchronize()).point.stream).collect();
        assert_eq!(told, streams.iter().map(FlexStream::index).collect::<Vec<_>>());
        card.context.synchronize()
    });
}

#[test]
fn a_block_keeps_its_own_fault_when_the_device_is_lost_behind_it() {
    on_each_card(|card| {
        let (stream, other) = (card.stream(), card.stream());
        let program = program(&stream)?;
        card.context.synchronize()?;
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        card.scripted().script(Trigger::Nth(2), Behaviour::Lose);
        let failed = stream.launch(program)?;
        support::until("it failed", || card.scripted().log().len() == 2);
        let losing = other.launch(program)?;

        let lost = fault(other.ticket(losing).wait());
        assert_eq!(lost.point, losing);
        assert_eq!(fault(stream.ticket(failed).wait()).fault, data_fault());
        assert_eq!(fault(stream.synchronize()), lost, "the stream needs the reset, too");
        Ok(())
    });
}
