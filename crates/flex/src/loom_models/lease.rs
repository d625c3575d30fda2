//! A thread that pops a stream's blocks without the lock misses neither another stream nor a host.
//! The scheduler is the whole one, on a card whose blocks are done at once.

use std::sync::Arc;

use spyre_hal::{DeviceHandle, NullCard};

use super::{explore, machine};
use crate::{Context, Drive, Error, FlexStream, Priority, SchedulerSettings, Settings};

/// Two streams of an opened card, on which blocks have been done at once: from now on there are
/// leases. Hosts sleep without a look first.
fn open() -> Result<([FlexStream; 2], DeviceHandle), Error> {
    let settings = SchedulerSettings {
        drive: Some(Drive::Inline),
        queue_blocks: 4,
        queue_bound: 4,
        spins: 0,
        ..SchedulerSettings::default()
    };
    let card = Arc::new(NullCard::new());
    let context = Context::open_with(card, Settings::default(), settings, machine())?;
    let streams = [context.stream(Priority::Low)?, context.stream(Priority::Low)?];
    let program = streams[0].allocate(128)?;
    streams[0].launch(program)?;
    Ok((streams, program))
}

#[test]
fn loom_a_leaseholder_sees_the_arrival_of_another_stream() {
    explore("lease, another stream", Some(4), || {
        let ([first, second], program) = open().expect("a card");
        let other = loom::thread::spawn(move || {
            second.launch(program).expect("it is queued");
            second.synchronize().expect("it is done");
            second
        });
        first.launch(program).expect("it is queued");
        first.synchronize().expect("it is done");
        let second = other.join().expect("the thread ends");
        assert_eq!((first.query(), second.query()), (Ok(true), Ok(true)));
    });
}

#[test]
fn loom_a_leaseholder_wakes_a_host_that_sleeps() {
    explore("lease, a host that sleeps", Some(4), || {
        let ([first, _second], program) = open().expect("a card");
        let first = Arc::new(first);
        let other = loom::thread::spawn({
            let first = Arc::clone(&first);
            move || first.launch(program).expect("it is queued")
        });
        let point = first.launch(program).expect("it is queued");
        first.ticket(point).wait().expect("it is done");
        other.join().expect("the thread ends");
        assert_eq!(first.query(), Ok(true));
    });
}
