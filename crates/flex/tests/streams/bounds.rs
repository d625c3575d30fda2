//! Full queues and full memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spyre_flex::{Budget, Context, Error, Machine, Priority, SchedulerSettings, Settings};
use spyre_hal::{DeferredCard, DeviceRange, MemoryMode, NullCard, ScriptedCard};

use super::{copy, fill, launch};
use crate::support::{Stepped, on_cards_with, read, until, whole};

#[test]
fn a_submission_waits_at_the_bound_until_there_is_room() -> Result<(), Error> {
    const BOUND: usize = 8;
    let settings = SchedulerSettings {
        queue_blocks: BOUND as u64,
        queue_bound: BOUND as u64,
        ..SchedulerSettings::default()
    };
    let stepped = Stepped::open_with(1, settings);
    let stream = stepped.stream(Priority::Low);
    let program = stepped.program(&stream)?;
    let submitted = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);

    thread::scope(|scope| {
        let submitter = scope.spawn(|| {
            for nth in 0..60 {
                let batch: Vec<_> = (0..=nth % 3).map(|_| launch(program)).collect();
                let blocks = batch.len();
                stream.submit(batch)?;
                let now = submitted.fetch_add(blocks, Ordering::SeqCst) + blocks;
                // One is running, and another may end just now.
                let most = ended.load(Ordering::SeqCst) + BOUND + 2;
                assert!(now <= most, "{now} were taken, at most {most}");
            }
            Ok::<(), Error>(())
        });
        while ended.load(Ordering::SeqCst) < 120 {
            if stepped.step() {
                ended.fetch_add(1, Ordering::SeqCst);
            } else {
                thread::yield_now();
            }
        }
        submitter.join().expect("it ends")
    })?;

    assert_eq!((submitted.into_inner(), stream.synchronize()), (120, Ok(())));
    Ok(())
}

#[test]
fn a_small_bound_loses_and_reorders_nothing() {
    let settings =
        SchedulerSettings { queue_blocks: 1, queue_bound: 4, ..SchedulerSettings::default() };
    on_cards_with(
        &settings,
        |_| true,
        |card| {
            let stream = card.stream();
            let [scratch, slots] = [stream.allocate(16)?, stream.allocate(250)?];
            for nth in 0..250 {
                let slot = DeviceRange { handle: slots, offset: nth, bytes: 1 };
                stream
                    .submit([fill(whole(scratch, 1), nth as u8), copy(whole(scratch, 1), slot)])?;
            }
            assert_eq!(read(&stream, whole(slots, 250))?, (0..250).collect::<Vec<u8>>());
            Ok(())
        },
    );
}

#[test]
fn a_callback_at_the_bound_is_refused_instead_of_waiting() -> Result<(), Error> {
    let settings =
        SchedulerSettings { queue_blocks: 2, queue_bound: 2, ..SchedulerSettings::default() };
    let context = Arc::new(crate::support::open(Arc::new(NullCard::new()), settings));
    let stream = Arc::new(context.stream(Priority::Low)?);
    let program = stream.allocate(128)?;
    let (sender, receiver) = std::sync::mpsc::channel();

    let own = Arc::clone(&stream);
    stream.host_callback(move || {
        let error = (0..10).find_map(|_| own.launch(program).err());
        sender.send(error).map_err(|error| error.to_string())
    })?;

    let error = receiver.recv().expect("it is called").expect("there is no room");
    assert_eq!(error, Error::QueueFull { stream: stream.index(), bound: 2 });
    assert_eq!(
        error.to_string(),
        "stream 0 holds 2 blocks, its bound, and a host callback, or a caller that holds locks, must \
         not wait for it: wait_for_room() outside of them, and submit again"
    );
    stream.synchronize()
}

#[test]
fn an_allocation_waits_for_streams_that_use_what_was_freed() -> Result<(), Error> {
    let card = Arc::new(DeferredCard::new(ScriptedCard::new(MemoryMode::Vf)));
    let settings = Settings { budget: Arc::new(Budget::new(1 << 20)), ..Settings::default() };
    let machine = Arc::new(Machine::default());
    let scheduler = SchedulerSettings::default();
    let context = Context::open_with(card.clone(), settings, scheduler, machine)?;
    let user = context.stream(Priority::Low)?;
    let taker = context.stream(Priority::Low)?;
    let all = user.allocate(1 << 20)?;
    let last = user.fill(whole(all, 1 << 20), 1)?;
    context.free(all)?;

    let taken = thread::scope(|scope| {
        let taken = scope.spawn(|| taker.allocate(1 << 20));
        until("the fill is finished", || card.finish(0));
        taken.join().expect("it ends")
    })?;

    assert_ne!(taken, all);
    assert_eq!(user.ticket(last).query(), Ok(true));
    Ok(())
}
