//! Streams that are dropped, and their indices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spyre_flex::{Error, Event, Policy, Priority, SchedulerSettings};
use spyre_hal::{BlockKind, Fault, NullCard, StreamIndex, Trigger};

use crate::support::{Stepped, on_each_card, program, read, until, whole};

#[test]
fn a_dropped_stream_goes_on() {
    on_each_card(|card| {
        let dropped = card.stream();
        let reader = card.stream();
        let target = whole(dropped.allocate(8)?, 8);
        let event = Event::new();
        for round in 0..100 {
            dropped.fill(target, round)?;
        }
        dropped.record(&event)?;
        drop(dropped);

        reader.wait(&event)?;
        assert_eq!(read(&reader, target)?, [99; 8]);
        Ok(())
    });
}

#[test]
fn a_dropped_context_finishes_what_is_queued() {
    for kind in crate::support::Kind::ALL {
        let card = kind.open();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = 100;
        let stream = card.stream();
        for _ in 0..count {
            let ran = Arc::clone(&ran);
            let callback = move || {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            stream.host_callback(callback).expect("it is queued");
        }
        drop((stream, card.context));
        until("all callbacks ran", || ran.load(Ordering::SeqCst) == count);
    }
}

#[test]
fn an_index_is_used_again() {
    on_each_card(|card| {
        let [first, second] = [card.stream(), card.stream()];
        assert_eq!((first.index(), second.index()), (StreamIndex(0), StreamIndex(1)));
        let program = program(&first)?;
        let last = first.launch(program)?;
        first.synchronize()?;
        drop(first);

        let again = card.stream();
        assert_eq!(again.index(), StreamIndex(0));
        assert_eq!(again.launch(program)?.sequence, last.sequence + 1);
        let high = card.context.stream(Priority::High)?;
        assert_eq!((high.index(), high.priority()), (StreamIndex(2), Priority::High));
        again.synchronize()
    });
}

#[test]
fn a_fault_of_a_dropped_stream_reaches_no_later_one() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let dropped = stepped.stream(Priority::Low);
    let program = stepped.program(&dropped)?;
    let why = Fault::CopyFailed { why: "a bad cable".into() };
    stepped.card.inner().script(Trigger::Next(BlockKind::Fill), spyre_hal::Behaviour::Fault(why));
    let target = whole(dropped.allocate(8)?, 8);
    dropped.fill(target, 1)?;
    drop(dropped);

    let next = stepped.stream(Priority::Low);
    let launched = next.launch(program)?;
    stepped.finish_all();
    assert_eq!(next.ticket(launched).wait(), Ok(()));
    assert_eq!(next.synchronize(), Ok(()));
    let later = stepped.stream(Priority::Low);
    let launched = later.launch(program)?;
    stepped.finish_all();
    assert_eq!(later.ticket(launched).wait(), Ok(()));
    assert_eq!(later.synchronize(), Ok(()));
    Ok(())
}

#[test]
fn there_are_4096_streams_and_no_more() -> Result<(), Error> {
    let settings = SchedulerSettings { queue_blocks: 1, ..SchedulerSettings::default() };
    let context = crate::support::open(Arc::new(NullCard::new()), settings);
    let streams: Result<Vec<_>, _> = (0..4096).map(|_| context.stream(Priority::Low)).collect();
    let mut streams = streams?;
    let indices: BTreeSet<_> = streams.iter().map(spyre_flex::FlexStream::index).collect();
    assert_eq!(indices.len(), 4096);

    let error = context.stream(Priority::High).expect_err("one too many");
    assert_eq!(error, Error::TooManyStreams { streams: 4096 });
    assert_eq!(error.to_string(), "a card has at most 4096 streams: drop some, or share them");

    let program = streams[0].allocate(128)?;
    streams.iter().try_for_each(|stream| stream.launch(program).map(drop))?;
    context.synchronize()?;
    streams.truncate(4000);
    assert!(context.stream(Priority::Low).is_ok());
    Ok(())
}
