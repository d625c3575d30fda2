//! Guarantees of events: CUDA's meaning, on one card, for hosts and streams that wait.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use spyre_flex::{
    Context, Error, Event, FlexStream, Policy, Priority, SchedulerSettings, Settings,
};
use spyre_hal::{Behaviour, BlockKind, ControlBlock, DeviceRange, Fault, NullCard, Trigger};
use support::{Clock, Stepped, fault, on_each_card, program, read, until, whole};

fn data_fault() -> Behaviour {
    Behaviour::Fault(Fault::IndexOutOfRange { operand: 1, dimension: 0, index: 9, size: 3 })
}

#[test]
fn a_wait_orders_two_streams() {
    on_each_card(|card| {
        let writer = card.stream();
        let reader = card.stream();
        let cell = whole(writer.allocate(1)?, 1);
        let slots = writer.allocate(100)?;
        let written = Event::new();
        let copied = Event::new();

        for round in 0..100 {
            writer.wait(&copied)?;
            writer.fill(cell, round as u8)?;
            writer.record(&written)?;
            reader.wait(&written)?;
            reader.copy_on_device(
                cell,
                DeviceRange { handle: slots, offset: round, bytes: 1 },
                None,
            )?;
            reader.record(&copied)?;
        }

        assert_eq!(read(&reader, whole(slots, 100))?, (0..100).collect::<Vec<u8>>());
        Ok(())
    });
}

#[test]
fn only_an_event_with_a_time_has_a_block_of_its_own() {
    on_each_card(|card| {
        let stream = card.stream();
        let launched = stream.launch(program(&stream)?)?;
        let plain = Event::new();
        let timed = Event::timed();

        assert_eq!(stream.record(&plain)?, launched);
        assert_eq!(stream.record(&timed)?.sequence, launched.sequence + 1);

        plain.synchronize()?;
        timed.synchronize()
    });
}

#[test]
fn an_event_after_a_fault_that_was_reported_does_not_report_it_again() {
    on_each_card(|card| {
        let stream = card.stream();
        stream.host_callback(|| Err("no".into()))?;
        stream.synchronize().expect_err("the fault is reported");

        let event = Event::new();
        stream.record(&event)?;
        event.synchronize()
    });
}

#[test]
fn a_wait_is_for_the_record_before_it() -> Result<(), Error> {
    let stepped = Stepped::open_with(2, SchedulerSettings::default());
    let recorder = stepped.stream(Priority::Low);
    let waiter = stepped.stream(Priority::Low);
    let program = stepped.program(&recorder)?;
    let event = Event::new();

    recorder.launch(program)?;
    recorder.record(&event)?;
    waiter.wait(&event)?;
    let after = waiter.ticket(waiter.launch(program)?);
    recorder.launch(program)?;
    recorder.record(&event)?;
    assert_eq!(stepped.card.pending(), 1, "the waiter waits");

    stepped.steps(1);
    assert_eq!(stepped.card.pending(), 2, "the waiter's block and the recorder's second");
    assert_eq!(event.query(), Ok(false), "the event stands for the second record");
    stepped.steps(2);
    assert_eq!((after.query(), event.query()), (Ok(true), Ok(true)));
    Ok(())
}

#[test]
fn a_record_after_a_wait_does_not_change_it() -> Result<(), Error> {
    let stepped = Stepped::open_with(2, SchedulerSettings::default());
    let recorder = stepped.stream(Priority::Low);
    let waiter = stepped.stream(Priority::Low);
    let program = stepped.program(&recorder)?;
    let event = Event::new();
    recorder.record(&event)?;
    waiter.wait(&event)?;

    recorder.launch(program)?;
    recorder.record(&event)?;
    let ticket = waiter.ticket(waiter.launch(program)?);
    assert_eq!(stepped.card.pending(), 2, "no stream waits");
    stepped.steps(2);
    assert_eq!(ticket.wait(), Ok(()));
    Ok(())
}

#[test]
fn an_event_that_was_never_recorded_is_not_waited_for() {
    on_each_card(|card| {
        let stream = card.stream();
        let event = Event::timed();
        assert_eq!((event.query(), event.synchronize()), (Ok(true), Ok(())));
        stream.wait(&event)?;
        assert_eq!(stream.synchronize(), Ok(()));
        assert_eq!(card.context.scheduler().flight_record(), [], "nothing was queued");

        assert_eq!(event.elapsed(&event), Err(Error::NotRecorded));
        assert_eq!(
            Error::NotRecorded.to_string(),
            "the event was never recorded: record it on a stream first"
        );
        Ok(())
    });
}

#[test]
fn an_event_is_reached_when_all_before_it_has_ended() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let event = Event::timed();
    let program = stepped.program(&stream)?;
    stream.launch(program)?;
    stream.launch(program)?;
    stream.record(&event)?;
    assert_eq!((event.query(), event.elapsed(&event)), (Ok(false), Err(Error::NotReached)));

    thread::scope(|scope| {
        let waiting = scope.spawn(|| event.synchronize());
        stepped.steps(2);
        assert_eq!(waiting.join().expect("it ends"), Ok(()));
    });
    assert_eq!((event.query(), event.elapsed(&event)), (Ok(true), Ok(Duration::ZERO)));
    let plain = Event::new();
    stream.record(&plain)?;
    assert_eq!(plain.elapsed(&plain), Err(Error::NotTimed));
    Ok(())
}

#[test]
fn elapsed_is_the_time_between_two_events() -> Result<(), Error> {
    let clock = Arc::new(Clock::default());
    let context = Context::open_with(
        Arc::new(NullCard::new()),
        Settings::default(),
        SchedulerSettings::default(),
        clock.clone(),
    )?;
    let first = context.stream(Priority::Low)?;
    let second = context.stream(Priority::High)?;
    let start = Event::timed();
    let end = Event::timed();

    clock.now.store(1_000, Ordering::SeqCst);
    first.record(&start)?;
    clock.now.store(6_001_000, Ordering::SeqCst);
    second.record(&end)?;
    assert_eq!(start.elapsed(&end), Ok(Duration::from_millis(6)));
    assert_eq!(end.elapsed(&start), Ok(Duration::ZERO), "no time is negative");

    clock.now.store(7_001_000, Ordering::SeqCst);
    first.record(&start)?;
    assert_eq!(end.elapsed(&start), Ok(Duration::from_millis(1)), "the last record counts");
    Ok(())
}

#[test]
fn a_chain_over_many_streams_runs_from_end_to_end() {
    on_each_card(|card| {
        const LINKS: u64 = 64;
        let streams: Vec<_> = (0..LINKS).map(|_| card.stream()).collect();
        let handle = streams[0].allocate(LINKS + 1)?;
        let cell = |at| DeviceRange { handle, offset: at, bytes: 1 };
        let events: Vec<_> = (0..LINKS).map(|_| Event::new()).collect();

        for round in 1..=5 {
            streams[0].wait(&events[LINKS as usize - 1])?;
            streams[0].fill(cell(0), round)?;
            for (link, stream) in streams.iter().enumerate() {
                if link > 0 {
                    stream.wait(&events[link - 1])?;
                }
                stream.copy_on_device(cell(link as u64), cell(link as u64 + 1), None)?;
                stream.record(&events[link])?;
            }
            assert_eq!(read(&streams[LINKS as usize - 1], cell(LINKS))?, [round]);
        }
        Ok(())
    });
}

#[test]
fn a_stream_may_wait_for_itself() {
    on_each_card(|card| {
        let stream = card.stream();
        let event = Event::new();
        let program = program(&stream)?;
        for _ in 0..50 {
            stream.launch(program)?;
            let point = stream.record(&event)?;
            stream.wait(&event)?;
            stream.submit([
                ControlBlock::WaitEvent(point),
                ControlBlock::launch(program, spyre_hal::Label::default()),
                ControlBlock::WaitEvent(point),
            ])?;
        }
        stream.synchronize()?;
        assert_eq!(event.query(), Ok(true));
        Ok(())
    });
}

#[test]
fn an_event_outlives_its_stream() {
    on_each_card(|card| {
        let stream = card.stream();
        let event = Event::new();
        let target = whole(stream.allocate(1)?, 1);
        stream.fill(target, 7)?;
        stream.record(&event)?;
        drop(stream);

        let other = card.stream();
        other.wait(&event)?;
        assert_eq!(read(&other, target)?, [7]);
        assert_eq!((event.query(), event.synchronize()), (Ok(true), Ok(())));
        Ok(())
    });
}

#[test]
fn a_wait_for_a_stream_that_failed_fails_with_the_first_cause() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..4).map(|_| card.stream()).collect();
        let events: Vec<_> = (0..4).map(|_| Event::new()).collect();
        let program = program(&streams[0])?;
        streams[0].synchronize()?;
        card.scripted().script(Trigger::Next(BlockKind::Launch), data_fault());

        let failed = streams[0].launch(program)?;
        streams[0].record(&events[0])?;
        for (stream, pair) in streams[1..].iter().zip(events.windows(2)) {
            stream.wait(&pair[0])?;
            stream.launch(program)?;
            stream.record(&pair[1])?;
        }

        let first = fault(streams[3].synchronize());
        assert_eq!((first.point, first.kind), (failed, BlockKind::Launch));
        for (stream, event) in streams.iter().zip(&events) {
            assert_eq!(fault(event.query()), first);
            assert_eq!(fault(event.synchronize()), first);
            // The event has reported it; the last stream was asked before.
            assert_eq!(stream.synchronize(), Ok(()));
        }
        assert_eq!(card.scripted().log().len(), 2, "nothing behind it was started");
        Ok(())
    });
}

#[test]
fn an_event_recorded_before_a_fault_is_reached() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let before = Event::timed();
        let after = Event::timed();
        let program = program(&stream)?;
        stream.record(&before)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::Next(BlockKind::Launch), data_fault());
        stream.launch(program)?;
        stream.record(&after)?;

        other.wait(&before)?;
        assert_eq!((other.synchronize(), before.synchronize()), (Ok(()), Ok(())));
        let cause = fault(after.synchronize());
        assert_eq!(fault(before.elapsed(&after)), cause);

        stream.record(&after)?;
        assert_eq!((after.synchronize(), stream.synchronize()), (Ok(()), Ok(())));
        Ok(())
    });
}

#[test]
fn an_event_is_recorded_on_one_card_only() -> Result<(), Error> {
    let [here, there] = [support::Kind::ALL[0].open(), support::Kind::ALL[1].open()];
    let stream = here.stream();
    let foreign = there.stream();
    let event = Event::new();
    foreign.record(&event)?;

    let refusal = |call: &dyn Fn() -> Result<(), Error>| {
        support::refusal(&here.context, here.scripted(), &stream, call)
    };
    let error = refusal(&|| stream.record(&event).map(drop));
    assert_eq!(
        error.to_string(),
        "the event was recorded on another card: wait for it there, or make one for each card"
    );
    foreign.record(&event)?;
    event.synchronize()
}

#[test]
fn threads_pass_a_baton_by_events() {
    on_each_card(|card| {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 50;
        let baton = whole(card.stream().allocate(1)?, 1);
        let log = card.stream().allocate(THREADS as u64 * ROUNDS)?;
        let turn = AtomicU64::new(0);
        let event = Event::new();
        let streams: Vec<FlexStream> = (0..THREADS).map(|_| card.stream()).collect();

        thread::scope(|scope| {
            for (own, stream) in streams.iter().enumerate() {
                let turn = &turn;
                let event = &event;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let number = round * THREADS as u64 + own as u64;
                        until("its turn", || turn.load(Ordering::SeqCst) == number);
                        stream.wait(event).expect("it is queued");
                        stream.fill(baton, number as u8).expect("it is queued");
                        let slot = DeviceRange { handle: log, offset: number, bytes: 1 };
                        stream.copy_on_device(baton, slot, None).expect("it is queued");
                        stream.record(event).expect("it is queued");
                        turn.store(number + 1, Ordering::SeqCst);
                    }
                });
            }
        });

        card.context.synchronize()?;
        let expected: Vec<u8> = (0..THREADS as u64 * ROUNDS).map(|n| n as u8).collect();
        assert_eq!(read(&streams[0], whole(log, THREADS as u64 * ROUNDS))?, expected);
        Ok(())
    });
}

#[test]
fn many_threads_may_use_one_event() {
    on_each_card(|card| {
        let event = Event::new();
        let program = program(&card.stream())?;
        card.context.synchronize()?;
        thread::scope(|scope| {
            for _ in 0..4 {
                let stream = card.stream();
                let event = &event;
                scope.spawn(move || {
                    for _ in 0..200 {
                        stream.wait(event).expect("it is queued");
                        stream.launch(program).expect("it is queued");
                        stream.record(event).expect("it is queued");
                        event.query().expect("it is sound");
                    }
                    event.synchronize().expect("it is sound");
                    stream.synchronize().expect("it is sound");
                });
            }
        });
        assert_eq!(event.query(), Ok(true));
        assert_eq!(card.context.synchronize(), Ok(()));
        let launches = card.scripted().log().iter().filter(|b| b.kind == BlockKind::Launch).count();
        assert_eq!(launches, 800);
        Ok(())
    });
}
