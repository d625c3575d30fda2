//! Blocks run in order, and a thread that waits for one is woken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spyre_flex::{Error, Event, Policy, Priority, SchedulerSettings};
use spyre_hal::{ControlBlock, DeviceRange, Fault, HostCallback, Trigger};

use super::{copy, fill, launch};
use crate::support::{Stepped, fault, on_cards_with, on_each_card, program, read, until, whole};

#[test]
fn blocks_of_a_stream_run_one_after_another() {
    on_each_card(|card| {
        let stream = card.stream();
        let [scratch, slots] = [stream.allocate(16)?, stream.allocate(200)?];

        for nth in 0..200 {
            stream.fill(whole(scratch, 1), nth as u8)?;
            let slot = DeviceRange { handle: slots, offset: nth, bytes: 1 };
            stream.copy_on_device(whole(scratch, 1), slot, None)?;
        }

        assert_eq!(read(&stream, whole(slots, 200))?, (0..200).collect::<Vec<u8>>());
        Ok(())
    });
}

#[test]
fn a_hung_stream_keeps_no_other_from_going_on() {
    let has_engines = |kind: crate::support::Kind| kind.engines > 1;
    on_cards_with(&SchedulerSettings::default(), has_engines, |card| {
        let stuck = card.stream();
        let free = card.stream();
        let program = program(&stuck)?;
        stuck.synchronize()?;
        card.scripted().script(Trigger::NextLaunch(program), spyre_hal::Behaviour::Hang);

        stuck.launch(program)?;
        until("it hangs", || !card.scripted().hanging().is_empty());
        let target = whole(free.allocate(64)?, 64);
        for round in 0..100 {
            free.fill(target, round)?;
        }
        assert_eq!(read(&free, target)?, [99; 64]);
        assert_eq!(stuck.query(), Ok(false));

        let engine = card.scripted().hanging()[0];
        let log = card.scripted().log();
        let hung = log.iter().rfind(|started| started.engine == engine).expect("it was started");
        card.context.hardware().abort(engine, hung.token);
        assert!(matches!(fault(stuck.synchronize()).fault, Fault::Hung { .. }));
        Ok(())
    });
}

#[test]
fn a_batch_stays_together_though_other_threads_submit() {
    on_each_card(|card| {
        const EACH: u64 = 150;
        let stream = card.stream();
        let scratch = stream.allocate(1)?;
        let slots = stream.allocate(2 * EACH)?;
        let submit = |byte: u8, nth: u64| {
            let slot = DeviceRange { handle: slots, offset: nth, bytes: 1 };
            let scratch = whole(scratch, 1);
            stream.submit([fill(scratch, byte), fill(scratch, byte), copy(scratch, slot)])
        };

        let lasts: Vec<u64> = thread::scope(|scope| {
            let threads = [1, 2].map(|byte| {
                let first = u64::from(byte - 1) * EACH;
                scope.spawn(move || {
                    let points = (first..first + EACH).map(|nth| submit(byte, nth));
                    points.map(|point| point.expect("it is queued").sequence).collect::<Vec<_>>()
                })
            });
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
        });

        let expected: BTreeSet<u64> = (1..=2 * EACH).map(|batch| batch * 3).collect();
        assert_eq!(lasts.into_iter().collect::<BTreeSet<_>>(), expected);
        let found = read(&stream, whole(slots, 2 * EACH))?;
        assert!(found[..EACH as usize] == [1; EACH as usize]);
        assert!(found[EACH as usize..] == [2; EACH as usize]);
        Ok(())
    });
}

#[test]
fn a_batch_of_every_kind_keeps_its_order() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let program = program(&stream)?;
        let a = whole(stream.allocate(4)?, 4);
        let b = whole(stream.allocate(4)?, 4);
        let event = Event::new();
        for round in 1..=50 {
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&calls);
            let callback = HostCallback::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            let point = other.record(&event)?;

            stream.submit([
                launch(program),
                stream.stage(&[round; 4], a),
                ControlBlock::HostCallback(callback),
                copy(a, b),
                ControlBlock::WaitEvent(point),
                fill(a, 0),
            ])?;

            assert_eq!(read(&stream, b)?, [round; 4]);
            assert_eq!(read(&stream, a)?, [0; 4]);
            assert_eq!(calls.load(Ordering::SeqCst), 1);
        }
        Ok(())
    });
}

#[test]
fn a_ticket_is_for_its_own_block() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let program = stepped.program(&stream)?;
    let [first, second] = [stream.launch(program)?, stream.launch(program)?];
    let first = stream.ticket(first);
    let second = stream.ticket(second);
    assert_eq!(second.point().sequence, first.point().sequence + 1);
    assert_eq!((first.query(), second.query()), (Ok(false), Ok(false)));

    stepped.steps(1);
    assert_eq!((first.query(), second.query()), (Ok(true), Ok(false)));
    assert_eq!(first.wait(), Ok(()));

    stepped.steps(1);
    assert_eq!((second.wait(), stream.query()), (Ok(()), Ok(true)));
    Ok(())
}

#[test]
fn a_stream_is_done_when_its_last_block_is() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let other = stepped.stream(Priority::Low);
    assert_eq!((stream.query(), stream.synchronize()), (Ok(true), Ok(())));

    let program = stepped.program(&stream)?;
    stream.launch(program)?;
    stream.launch(program)?;
    assert_eq!((stream.query(), other.query()), (Ok(false), Ok(true)));
    stepped.steps(1);
    assert_eq!(stream.query(), Ok(false));

    stepped.steps(1);
    assert_eq!((stream.query(), stream.synchronize()), (Ok(true), Ok(())));
    assert_eq!(stepped.context.synchronize(), Ok(()));
    Ok(())
}

#[test]
fn threads_that_wait_for_one_stream_are_all_woken() -> Result<(), Error> {
    let settings = SchedulerSettings { spins: 0, ..SchedulerSettings::default() };
    let stepped = Stepped::open_with(1, settings);
    let stream = stepped.stream(Priority::Low);
    let program = stepped.program(&stream)?;
    let points: Result<Vec<_>, _> = (0..8).map(|_| stream.launch(program)).collect();
    let points = points?;

    thread::scope(|scope| {
        let waits = points.iter().map(|&point| {
            let ticket = stream.ticket(point);
            scope.spawn(move || ticket.wait())
        });
        let all = scope.spawn(|| stream.synchronize());
        let waits: Vec<_> = waits.chain([all]).collect();
        stepped.steps(8);
        for wait in waits {
            assert_eq!(wait.join().expect("it ends"), Ok(()));
        }
    });
    Ok(())
}
