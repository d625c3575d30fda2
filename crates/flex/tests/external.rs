//! Work outside the card: a stream waits for it, others do not, and it always ends.

mod support;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use spyre_flex::{Error, Event, FlexStream, MemoryAccess, MemoryUse, Priority};
use spyre_hal::{BlockKind, Completion, ExternalWork, Fault, Label, Trigger};
use support::{Card, Kind, fault, on_each_card, open, program, read, until, whole};

/// Work whose end the test decides, and what it hears of it.
fn work() -> (ExternalWork, Receiver<Completion>, Receiver<()>) {
    let (begun, begins) = channel();
    let (cancelled, cancels) = channel();
    let work = ExternalWork::new(
        Label::named("all_reduce"),
        move |completion| begun.send(completion).expect("the test listens"),
        move || {
            let _: Result<(), _> = cancelled.send(());
        },
    );
    (work, begins, cancels)
}

fn next<T>(calls: &Receiver<T>) -> T {
    calls.recv_timeout(Duration::from_secs(10)).expect("it is called")
}

#[test]
fn a_stream_waits_for_work_outside_the_card_and_others_go_on() {
    on_each_card(|card| {
        let [stream, other] = [card.stream(), card.stream()];
        let memory = whole(stream.allocate(64)?, 64);
        let apart = whole(other.allocate(64)?, 64);
        let (work, begins, _cancels) = work();

        stream.fill(memory, 1)?;
        let point = stream.external(work, &[])?;
        stream.fill(memory, 2)?;
        other.fill(apart, 7)?;
        let completion = next(&begins);
        assert_eq!(read(&other, apart)?, [7; 64]);
        assert_eq!(read(&other, memory)?, [1; 64], "what is queued behind it has not started");
        assert!(!stream.ticket(point).query()?);

        thread::scope(|scope| {
            scope.spawn(|| completion.complete(Ok(())));
            stream.synchronize()
        })?;
        assert_eq!(read(&stream, memory)?, [2; 64]);
        Ok(())
    });
}

#[test]
fn work_may_end_while_it_is_begun() {
    on_each_card(|card| {
        let stream = card.stream();
        let memory = whole(stream.allocate(64)?, 64);
        for round in 0..20 {
            let work = ExternalWork::new(
                Label::default(),
                |completion| completion.complete(Ok(())),
                || (),
            );
            stream.external(work, &[])?;
            stream.fill(memory, round)?;
        }
        assert_eq!(read(&stream, memory)?, [19; 64]);
        Ok(())
    });
}

#[test]
fn several_works_are_under_way_at_once() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..3).map(|_| card.stream()).collect();
        let (begun, begins): (Vec<Completion>, Vec<()>) = streams
            .iter()
            .map(|stream| {
                let (work, begins, _) = work();
                stream.external(work, &[]).expect("it is queued");
                (next(&begins), ())
            })
            .unzip();
        assert_eq!(begins.len(), 3);
        begun.into_iter().rev().for_each(|completion| completion.complete(Ok(())));
        card.context.synchronize()
    });
}

#[test]
fn a_failure_is_the_streams_and_poisons_what_was_to_be_written() {
    on_each_card(|card| {
        let stream = card.stream();
        let memory = whole(stream.allocate(64)?, 64);
        let (work, begins, _cancels) = work();

        let uses = [MemoryUse { range: memory, access: MemoryAccess::WriteAll }];
        let point = stream.external(work, &uses)?;
        next(&begins).complete(Err("rank 1 was killed".to_owned()));
        let cause = fault(stream.synchronize());
        assert_eq!((cause.point, cause.kind), (point, BlockKind::External));
        let message = "rank 1 was killed".into();
        assert_eq!(cause.fault, Fault::ExternalWorkFailed { message });
        assert!(read(&stream, memory).is_err(), "it was never written");

        stream.fill(memory, 3)?;
        assert_eq!(read(&stream, memory)?, [3; 64]);
        Ok(())
    });
}

#[test]
fn work_that_panics_or_is_given_up_fails_its_stream() {
    on_each_card(|card| {
        let stream = card.stream();
        let begin: [fn(Completion); 2] = [drop, |_| panic!("on purpose")];
        for begin in begin {
            stream.external(ExternalWork::new(Label::default(), begin, || ()), &[])?;
            let Fault::ExternalWorkFailed { message } = &fault(stream.synchronize()).fault else {
                panic!("another fault")
            };
            assert_eq!(&**message, "it was given up without a report");
        }
        stream.synchronize()
    });
}

#[test]
fn work_behind_a_fault_is_never_begun() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        let failed = Fault::CopyFailed { why: "on purpose".into() };
        card.scripted()
            .script(Trigger::Next(BlockKind::Launch), spyre_hal::Behaviour::Fault(failed));
        let (first, begins, _cancels) = work();

        stream.launch(program)?;
        stream.external(first, &[])?;
        fault(stream.synchronize());
        assert!(begins.recv().is_err(), "it was dropped");
        Ok(())
    });
}

#[test]
fn a_reset_asks_work_to_end_and_waits_until_it_has() {
    on_each_card(|card| {
        let stream = card.stream();
        let (work, begins, cancels) = work();
        stream.external(work, &[])?;
        let completion = next(&begins);

        thread::scope(|scope| {
            let reset = scope.spawn(|| card.context.reset());
            next(&cancels);
            assert!(!reset.is_finished(), "the work may still use the card's memory");
            completion.complete(Err("cancelled".to_owned()));
            reset.join().expect("no panic")
        })?;
        let memory = whole(stream.allocate(64)?, 64);
        stream.fill(memory, 5)?;
        assert_eq!(read(&stream, memory)?, [5; 64]);
        Ok(())
    });
}

#[test]
fn a_record_shows_work_under_way() {
    on_each_card(|card| {
        let stream = card.stream();
        let (work, begins, _cancels) = work();
        let point = stream.external(work.modelled(1234), &[])?;
        let completion = next(&begins);
        let recorded = || {
            let records = card.context.scheduler().flight_record();
            records.into_iter().find(|record| record.sequence == point.sequence)
        };
        let running = recorded().expect("it is under way");
        assert_eq!(
            (running.kind, running.label),
            (BlockKind::External, Label::named("all_reduce"))
        );

        completion.complete(Ok(()));
        stream.synchronize()?;
        assert_eq!(recorded().expect("it has ended").modelled_nanoseconds, 1234);
        Ok(())
    });
}

/// Two cards of different kinds.
fn two_cards() -> [Card; 2] {
    [Kind::ALL[3].open(), Kind::ALL[6].open()]
}

#[test]
fn a_stream_waits_for_an_event_of_another_card_and_the_host_does_not() -> Result<(), Error> {
    let [first, second] = two_cards();
    for [here, there] in [[&first, &second], [&second, &first]] {
        let [waiting, working] = [here.stream(), there.stream()];
        let memory = whole(waiting.allocate(64)?, 64);
        let (work, begins, _cancels) = work();
        let event = Event::new();

        working.external(work, &[])?;
        working.record(&event)?;
        waiting.wait(&event)?;
        waiting.fill(memory, 9)?;
        let completion = next(&begins);
        assert!(!waiting.query()?, "it waits");

        completion.complete(Ok(()));
        waiting.synchronize()?;
        assert!(working.query()?);
        assert_eq!(read(&waiting, memory)?, [9; 64]);
    }
    Ok(())
}

#[test]
fn a_failure_on_another_card_fails_the_stream_that_waits_for_it() -> Result<(), Error> {
    let [here, there] = two_cards();
    let [waiting, working] = [here.stream(), there.stream()];
    let (work, begins, _cancels) = work();
    let event = Event::new();

    working.external(work, &[])?;
    working.record(&event)?;
    waiting.wait(&event)?;
    next(&begins).complete(Err("the link is down".to_owned()));
    let cause = fault(waiting.synchronize());
    assert!(cause.to_string().contains("the link is down"), "{cause}");
    fault(working.synchronize());

    // A fault that was reported is not waited for.
    waiting.wait(&event)?;
    waiting.synchronize()
}

#[test]
fn a_reset_ends_a_wait_for_another_card() -> Result<(), Error> {
    let [here, there] = two_cards();
    let [waiting, working] = [here.stream(), there.stream()];
    let (work, begins, _cancels) = work();
    let event = Event::new();
    working.external(work, &[])?;
    working.record(&event)?;
    waiting.wait(&event)?;
    let completion = next(&begins);

    here.context.reset()?;
    waiting.synchronize()?;
    completion.complete(Ok(()));
    working.synchronize()
}

#[test]
fn cards_that_wait_for_each_other_in_turn_keep_the_order() -> Result<(), Error> {
    const ROUNDS: usize = 100;
    let [here, there] = two_cards();
    let streams = [here.stream(), there.stream()];
    let (sender, order): (Sender<usize>, _) = channel();
    for round in 0..ROUNDS {
        let stream = &streams[round % 2];
        let sender = sender.clone();
        stream.host_callback(move || sender.send(round).map_err(|error| error.to_string()))?;
        let event = Event::new();
        stream.record(&event)?;
        streams[(round + 1) % 2].wait(&event)?;
    }
    streams.iter().try_for_each(FlexStream::synchronize)?;
    drop(sender);
    assert_eq!(order.iter().collect::<Vec<_>>(), (0..ROUNDS).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_card_that_is_gone_is_not_waited_for() -> Result<(), Error> {
    let here = Kind::ALL[3].open();
    let stream = here.stream();
    let event = Event::new();
    let gone = Kind::ALL[0].open();
    gone.stream().record(&event)?;
    drop(gone);
    stream.wait(&event)?;
    stream.synchronize()
}

#[test]
fn the_card_stays_open_until_its_work_has_ended() -> Result<(), Error> {
    let hardware = Arc::new(spyre_hal::NullCard::new());
    let context = open(hardware.clone(), Default::default());
    let stream = context.stream(Priority::Low)?;
    let (work, begins, _cancels) = work();
    stream.external(work, &[])?;
    let completion = next(&begins);
    drop((stream, context));
    assert!(Arc::strong_count(&hardware) > 1);
    completion.complete(Ok(()));
    until("it is closed", || Arc::strong_count(&hardware) == 1);
    Ok(())
}
