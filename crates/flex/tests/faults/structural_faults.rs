//! Faults that stay until the stream is reset.

use spyre_flex::{Error, Event, Policy, Priority};
use spyre_hal::Fault;

use crate::support::{Stepped, fault, on_each_card, program, read, whole};

#[test]
fn a_structural_fault_stays_until_the_stream_is_reset() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let good = program(&other)?;
        let target = whole(stream.allocate(4)?, 4);
        stream.synchronize()?;
        other.synchronize()?;

        let failed = stream.launch(target.handle)?;
        let reported = fault(stream.synchronize());
        assert_eq!(reported.point, failed);
        assert!(matches!(reported.fault, Fault::BadProgram { .. }));
        for _ in 0..3 {
            assert_eq!(fault(stream.synchronize()), reported);
            assert_eq!(fault(stream.query()), reported);
            assert_eq!(fault(stream.launch(good)), reported);
            assert_eq!(fault(stream.fill(target, 1)), reported);
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
        let bad = card.stream();
        let waiter = card.stream();
        let event = Event::new();
        let junk = bad.allocate(128)?;
        bad.launch(junk)?;
        // The record may be refused already; then there is nothing to wait for.
        if bad.record(&event).is_ok() {
            waiter.wait(&event)?;
            let reported = fault(waiter.synchronize());
            assert_eq!((reported.point.stream, reported.point.sequence), (bad.index(), 1));
            assert_eq!(fault(waiter.record(&event)), reported);
            bad.reset()?;
            assert_eq!(fault(waiter.synchronize()), reported);
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
    let junk = bad.allocate(128)?;
    let event = Event::new();
    bad.launch(junk)?;
    bad.record(&event)?;
    waiter.wait(&event)?;
    let behind = waiter.ticket(waiter.fill(whole(junk, 4), 1)?);
    stepped.finish_all();

    let reported = fault(waiter.synchronize());
    assert_eq!((reported.point.stream, reported.point.sequence), (bad.index(), 1));
    assert_eq!((fault(behind.wait()), fault(event.synchronize())), (reported.clone(), reported));
    assert_eq!(stepped.card.inner().log().len(), 1);
    Ok(())
}
