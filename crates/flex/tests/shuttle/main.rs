//! The whole stack under random schedules: what is queued is carried out once and in order, every
//! thread that waits is woken, and every thread ends.

mod bench;
mod gated_card;
mod order_card;
mod storm;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread::spawn;
use spyre_flex::{Error, Event, Policy};
use spyre_hal::{
    Behaviour, ControlBlock, Fault, HostCallback, MemoryMode, ScriptedCard, Severity, Trigger,
};

use bench::{Bench, Finisher, INLINE, PATIENT, WAYS, WORKERS, Way, check, deferred, fill, prompt};
use gated_card::GatedCard;
use order_card::OrderCard;

#[test]
fn two_producers_on_one_stream_keep_their_order() {
    check("two producers", &WAYS, 2_500, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        let other = spawn({
            let stream = Arc::clone(&stream);
            move || {
                stream.submit([fill(11, memory), fill(12, memory)]).expect("it is queued");
                stream.submit([fill(13, memory)]).expect("it is queued");
            }
        });
        stream.submit([fill(1, memory)]).expect("it is queued");
        stream.submit([fill(2, memory), fill(3, memory)]).expect("it is queued");
        stream.synchronize().expect("no block fails");
        assert_eq!(only(&bench.card.fills(), 0), [1, 2, 3]);
        other.join().expect("the producer ends");
        stream.synchronize().expect("no block fails");
        assert_eq!(stream.query(), Ok(true));
        drop(stream);
        assert_eq!(only(&bench.close().fills(), 10), [11, 12, 13]);
    });
}

#[test]
fn hosts_that_run_their_blocks_find_them_done() {
    check("hosts that run", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let other = spawn(move || {
            second.run_soon(fill(11, memory)).expect("it is queued");
            second.run(fill(12, memory)).expect("it is done");
            assert!(second.is_idle());
        });
        first.submit([fill(1, memory)]).expect("it is queued");
        first.run(fill(2, memory)).expect("it is done");
        assert_eq!(only(&bench.card.fills(), 0), [1, 2]);
        other.join().expect("the host ends");
        drop(first);
        assert_eq!(only(&bench.close().fills(), 10), [11, 12]);
    });
}

#[test]
fn a_stream_waits_for_the_event_of_another() {
    check("event between streams", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let event = Arc::new(Event::new());
        first.submit([fill(1, memory), fill(2, memory)]).expect("it is queued");
        first.record(&event).expect("it is queued");
        let other = spawn({
            let event = Arc::clone(&event);
            move || {
                second.submit([fill(11, memory)]).expect("it is queued");
                second.wait(&event).expect("it is queued");
                second.submit([fill(12, memory)]).expect("it is queued");
                second.synchronize().expect("no block fails");
            }
        });
        first.submit([fill(3, memory)]).expect("it is queued");
        event.synchronize().expect("it is reached");
        other.join().expect("the thread ends");
        drop((first, event));
        let fills = bench.close().fills();
        assert_eq!(only(&fills, 0), [1, 2, 3]);
        assert_eq!(only(&fills, 10), [11, 12]);
        assert!(place(&fills, 2) < place(&fills, 12), "{fills:?}");
    });
}

#[test]
fn a_stream_waits_for_the_event_of_another_on_a_card_that_takes_its_time() {
    check("event, two engines, later", &WAYS, 1_000, |way| {
        let bench = Bench::open(way, deferred(2));
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let device = Finisher::start(&bench.card);
        let event = Event::new();
        first.submit([fill(1, memory)]).expect("it is queued");
        first.record(&event).expect("it is queued");
        let other = spawn(move || {
            second.submit([fill(11, memory)]).expect("it is queued");
            second.wait(&event).expect("it is queued");
            second.submit([fill(12, memory)]).expect("it is queued");
            second.synchronize().expect("no block fails");
        });
        first.submit([fill(2, memory)]).expect("it is queued");
        first.synchronize().expect("no block fails");
        other.join().expect("the thread ends");
        device.end();
        drop(first);
        let fills = bench.close().inner().fills();
        assert_eq!(only(&fills, 0), [1, 2]);
        assert!(place(&fills, 1) < place(&fills, 12), "{fills:?}");
    });
}

#[test]
fn what_is_queued_goes_on_after_streams_and_context_are_dropped() {
    check("drop while queued", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        let other = spawn({
            let stream = Arc::clone(&stream);
            move || {
                stream.submit([fill(1, memory), fill(2, memory)]).expect("it is queued");
            }
        });
        let next = bench.stream();
        drop(stream);
        next.submit([fill(11, memory), fill(12, memory)]).expect("it is queued");
        drop(next);
        let card = Arc::clone(&bench.card);
        let threads = Arc::clone(&bench.threads);
        drop(bench);
        other.join().expect("the producer ends");
        threads.join();
        assert_eq!(only(&card.fills(), 0), [1, 2]);
        assert_eq!(only(&card.fills(), 10), [11, 12]);
    });
}

#[test]
fn threads_end_when_the_last_block_ends_after_the_context() {
    check("drop, later, after a callback", &WAYS, 1_500, |way| {
        let bench = Bench::open(way, deferred(1));
        let stream = bench.stream();
        let memory = bench.memory();
        let device = Finisher::start(&bench.card);
        stream.submit([fill(1, memory)]).expect("it is queued");
        stream.host_callback(|| Ok(())).expect("it is queued");
        stream.submit([fill(2, memory)]).expect("it is queued");
        drop(stream);
        let card = Arc::clone(&bench.card);
        let threads = Arc::clone(&bench.threads);
        drop(bench);
        device.end_after(2);
        threads.join();
        assert_eq!(card.inner().fills(), [1, 2]);
    });
}

#[test]
fn a_data_fault_is_raised_once_while_others_submit() {
    check("data fault", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, OrderCard::new(ScriptedCard::new(MemoryMode::Vf)));
        let fault = Fault::CopyFailed { why: "as the script says".into() };
        bench.card.inner().script(Trigger::Nth(2), Behaviour::Fault(fault));
        let stream = bench.stream();
        let memory = bench.memory();
        let submit = move |stream: &spyre_flex::FlexStream| {
            stream
                .submit([fill(1, memory), fill(2, memory)])
                .expect("a data fault refuses nothing");
            usize::from(stream.synchronize().is_err())
        };
        let other = spawn({
            let stream = Arc::clone(&stream);
            move || submit(&stream)
        });
        let raised = submit(&stream) + other.join().expect("the thread ends");
        let last = usize::from(stream.synchronize().is_err());
        assert_eq!(raised + last, 1, "a data fault is reported once");
        stream.submit([fill(3, memory)]).expect("the stream goes on");
        stream.synchronize().expect("what comes after the report is carried out");
        drop(stream);
        assert_eq!(bench.close().fills().last(), Some(&3));
    });
}

#[test]
fn after_a_reset_nothing_from_before_is_started() {
    check("reset", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        stream.submit([fill(0, memory)]).expect("it is queued");
        let others = [0, 1].map(|_| {
            let stream = Arc::clone(&stream);
            spawn(move || {
                for byte in 1..3 {
                    match stream.submit([fill(byte, memory)]) {
                        Ok(_) | Err(Error::BadHandle { .. } | Error::Stream(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        });
        bench.context.reset().expect("a reset");
        bench.card.end();
        for other in others {
            other.join().expect("the producer ends");
        }
        drop(stream.synchronize());
        drop(stream);
        bench.close();
    });
}

#[test]
fn callbacks_run_in_their_turn() {
    check("callbacks", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        let card = Arc::clone(&bench.card);
        let called = Arc::new(AtomicUsize::new(0));
        let callback = {
            let called = Arc::clone(&called);
            HostCallback::new(move || {
                called.store(card.fills().len(), Ordering::Relaxed);
                Ok(())
            })
        };
        stream.submit([fill(1, memory)]).expect("it is queued");
        let blocks = [fill(2, memory), ControlBlock::HostCallback(callback), fill(3, memory)];
        stream.submit(blocks).expect("it is queued");
        stream.synchronize().expect("no block fails");
        assert_eq!(called.load(Ordering::Relaxed), 2, "it came after two fills");
        drop(stream);
        assert_eq!(bench.close().fills(), [1, 2, 3]);
    });
}

#[test]
fn a_host_that_parks_is_woken_by_the_thread_that_has_the_lease() {
    check("waiter and lease", &WAYS, 2_000, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        stream.submit([fill(0, memory)]).expect("it is queued");
        stream.synchronize().expect("no block fails");
        let other = spawn({
            let stream = Arc::clone(&stream);
            move || {
                for byte in 1..4 {
                    stream.submit([fill(byte, memory)]).expect("it is queued");
                }
            }
        });
        let point = stream.submit([fill(11, memory)]).expect("it is queued");
        stream.ticket(point).wait().expect("it is done");
        assert_eq!(only(&bench.card.fills(), 10), [11]);
        other.join().expect("the producer ends");
        drop(stream);
        assert_eq!(only(&bench.close().fills(), 0), [0, 1, 2, 3]);
    });
}

#[test]
fn a_full_queue_takes_more_when_there_is_room() {
    check("full queue", &WAYS, 1_000, |way| {
        let bench = Bench::open(way, deferred(1));
        let stream = bench.stream();
        let memory = bench.memory();
        let device = Finisher::start(&bench.card);
        let other = spawn({
            let stream = Arc::clone(&stream);
            move || {
                for byte in [11, 13] {
                    let blocks = [fill(byte, memory), fill(byte + 1, memory)];
                    stream.submit(blocks).expect("it is queued");
                }
            }
        });
        (0..10).for_each(|byte| {
            stream.submit([fill(byte, memory)]).expect("it is queued");
        });
        stream.synchronize().expect("no block fails");
        other.join().expect("the producer ends");
        drop(stream);
        let card = Arc::clone(&bench.card);
        drop(bench);
        device.end_after(14);
        assert_eq!(only(&card.inner().fills(), 0), (0..10).collect::<Vec<_>>());
        assert_eq!(only(&card.inner().fills(), 10), [11, 12, 13, 14]);
    });
}

#[test]
fn no_stream_is_forgotten_when_streams_come_and_go() {
    let drain = [INLINE, WORKERS].map(|way| Way { policy: Policy::DrainOne, ..way });
    let ways = [drain[0], drain[1], PATIENT];
    check("streams that come and go, two engines", &ways, 1_000, |way| {
        let bench = Bench::open(way, OrderCard::new(spyre_hal::NullCard::with_engines(2)));
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let other = spawn(move || {
            for byte in 11..14 {
                second.submit([fill(byte, memory)]).expect("it is queued");
                second.synchronize().expect("no block fails");
            }
        });
        for byte in 1..4 {
            first.submit([fill(byte, memory)]).expect("it is queued");
            first.synchronize().expect("no block fails");
        }
        other.join().expect("the thread ends");
        drop(first);
        let fills = bench.close().fills();
        assert_eq!((only(&fills, 0), only(&fills, 10)), (vec![1, 2, 3], vec![11, 12, 13]));
    });
}

#[test]
fn a_lost_device_lets_no_thread_wait_for_ever() {
    check("lost device", &WAYS, 1_000, |way| {
        let bench = Bench::open(way, OrderCard::new(ScriptedCard::new(MemoryMode::Vf)));
        bench.card.inner().script(Trigger::Nth(2), Behaviour::Lose);
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let other = spawn(move || {
            for byte in 11..13 {
                drop(second.submit([fill(byte, memory)]));
            }
            assert_ok_or_lost(&second.synchronize());
        });
        for byte in 1..3 {
            drop(first.submit([fill(byte, memory)]));
        }
        assert_ok_or_lost(&first.synchronize());
        other.join().expect("the thread ends");
        bench.context.reset().expect("a reset");
        drop(first);
        bench.close();
    });
}

#[test]
fn a_reset_ends_what_hosts_callbacks_and_engines_wait_for() {
    check("reset, later, with a callback", &WAYS, 1_000, |way| {
        let bench = Bench::open(way, deferred(2));
        let first = bench.stream();
        let second = bench.stream();
        let memory = bench.memory();
        let device = Finisher::start(&bench.card);
        let other = spawn(move || {
            let event = Event::new();
            drop(second.submit([fill(1, memory)]));
            drop(second.record(&event));
            drop(second.host_callback(|| Ok(())));
            drop(first.wait(&event));
            drop(first.submit([fill(2, memory), fill(3, memory)]));
            assert_ok_or_lost(&first.synchronize());
            assert_ok_or_lost(&second.synchronize());
        });
        bench.context.reset().expect("a reset");
        other.join().expect("the thread ends");
        let stream = bench.stream();
        let memory = bench.memory();
        stream.submit([fill(9, memory)]).expect("the device is usable");
        stream.synchronize().expect("no block fails");
        drop(stream);
        let card = bench.close();
        device.end();
        assert_eq!(card.inner().fills().last(), Some(&9));
    });
}

#[test]
fn the_last_owner_of_a_card_may_be_a_callback() {
    check("the last owner is a callback", &WAYS, 1_000, |way| {
        let bench = Bench::open(way, prompt());
        let stream = bench.stream();
        let memory = bench.memory();
        let last = Arc::clone(&stream);
        stream.submit([fill(1, memory)]).expect("it is queued");
        let callback = move || {
            drop(last.submit([fill(2, memory)]));
            Ok(())
        };
        stream.host_callback(callback).expect("it is queued");
        drop(stream);
        assert_eq!(bench.close().fills(), [1, 2]);
    });
}

#[test]
fn a_block_that_was_given_up_does_not_turn_its_stream_back() {
    check("given up by the watchdog", &[WORKERS, PATIENT], 1_000, |way| {
        let bench = Bench::open_watched(way, GatedCard::new(), Some(1));
        let stream = bench.stream();
        let memory = bench.memory();
        stream.submit([fill(1, memory), fill(2, memory), fill(3, memory)]).expect("it is queued");
        bench.card.wait_for_start();
        let looks = (0..3).map(|_| bench.context.scheduler().look_for_hung_blocks());
        assert!(looks.sum::<usize>() >= 2, "it was aborted, and then given up");
        assert!(stream.synchronize().is_err(), "the device is lost");
        bench.card.open();
        drop(stream);
        bench.close();
    });
}

/// Checks that nothing failed, or that the device is lost.
fn assert_ok_or_lost(result: &Result<(), Error>) {
    match result {
        Ok(()) => {}
        Err(Error::Stream(cause)) => assert_eq!(cause.fault.severity(), Severity::Lost),
        Err(other) => panic!("{other}"),
    }
}

/// One producer's fills: ten numbers from `from` on.
fn only(fills: &[u8], from: u8) -> Vec<u8> {
    fills.iter().copied().filter(|byte| (from..from + 10).contains(byte)).collect()
}

fn place(fills: &[u8], byte: u8) -> Option<usize> {
    fills.iter().position(|fill| *fill == byte)
}
