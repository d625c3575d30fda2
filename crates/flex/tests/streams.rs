//! What streams promise: the data arrives, in order, and nothing else happens.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spyre_flex::{
    Budget, Context, ControlBlockStream, Error, Event, Machine, Policy, Priority, RECORDED,
    RecordState, SchedulerSettings, Settings,
};
use spyre_hal::{
    BlockKind, ControlBlock, CopyDevice, Deferred, DeviceHandle, DeviceRange, Fault, HostBuffer,
    HostCallback, Label, MemoryMode, NullCard, Pattern, ScriptedCard, StreamIndex, Trigger,
};
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat;
use support::{Stepped, Way, fault, on_cards_with, on_each_card, program, read, until, whole};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn copy(source: DeviceRange, target: DeviceRange) -> ControlBlock {
    ControlBlock::CopyDevice(Box::new(CopyDevice { source, target, nest: None }))
}

fn fill(target: DeviceRange, byte: u8) -> ControlBlock {
    ControlBlock::Fill { pattern: Pattern::from(byte), target }
}

fn launch(program: DeviceHandle) -> ControlBlock {
    ControlBlock::Launch { program, label: Label::default() }
}

#[test]
fn data_arrives_by_every_way() {
    on_each_card(|card| {
        let stream = card.stream();
        let [a, b] = [stream.allocate(10_000)?, stream.allocate(10_000)?];
        let bytes = pattern(10_000);

        stream.copy_to_device(bytes.clone(), whole(a, 10_000))?;
        stream.copy_on_device(whole(a, 10_000), whole(b, 10_000), None)?;
        let filled = DeviceRange { handle: b, offset: 100, bytes: 7 };
        stream.fill(filled, Pattern::new(&[1, 2, 3]).expect("three bytes"))?;
        let staged = DeviceRange { handle: b, offset: 9_990, bytes: 10 };
        stream.copy_staged(&[9; 10], staged)?;

        let mut expected = bytes.clone();
        expected[100..107].copy_from_slice(&[1, 2, 3, 1, 2, 3, 1]);
        expected[9_990..].fill(9);
        assert!(read(&stream, whole(b, 10_000))? == expected);
        assert!(read(&stream, whole(a, 10_000))? == bytes);
        Ok(())
    });
}

#[test]
fn a_nest_tiles_and_converts_on_the_way_in_and_back() {
    on_each_card(|card| {
        let stream = card.stream();
        let view = View::contiguous(&[3, 100]).expect("it is small");
        let layout =
            SpyreTensorLayout::contiguous(&[3, 100], DataFormat::IeeeFp16).expect("it tiles");
        let host = Endpoint::host(&view, DataFormat::IeeeFp32);
        let device = Endpoint::device(&view, &layout);
        let inwards = Arc::new(DmaNest::derive(host, device).expect("they fit"));
        let outwards = Arc::new(DmaNest::derive(device, host).expect("they fit"));
        let numbers: Vec<u8> = (0..300).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let range =
            whole(stream.allocate(layout.device_bytes() as u64)?, layout.device_bytes() as u64);

        stream.copy_to_device_with(&inwards, numbers.clone(), range)?;
        let back = HostBuffer::zeroed(1200);
        stream.copy_from_device_with(&outwards, range, &back)?;
        let halves = read(&stream, range)?;

        assert!(back.read().expect("it is done")[..] == numbers[..]);
        // Element (1, 70) lies in the second stick of its row; 170 is 0x5950 as a half.
        let (row, column) = (1, 70);
        let place = ((column / 64) * 3 + row) * 64 + column % 64;
        assert_eq!(halves[place * 2..][..2], 0x5950_u16.to_le_bytes());
        Ok(())
    });
}

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
    let has_engines = |kind: support::Kind| kind.engines > 1;
    on_cards_with(&SchedulerSettings::default(), has_engines, |card| {
        let (stuck, free) = (card.stream(), card.stream());
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
fn a_batch_stays_together_whoever_else_submits() {
    on_each_card(|card| {
        const EACH: u64 = 150;
        let stream = card.stream();
        let (scratch, slots) = (stream.allocate(1)?, stream.allocate(2 * EACH)?);
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
        let (stream, other) = (card.stream(), card.stream());
        let program = program(&stream)?;
        let (a, b) = (whole(stream.allocate(4)?, 4), whole(stream.allocate(4)?, 4));
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
    let (first, second) = (stream.ticket(first), stream.ticket(second));
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
    let (stream, other) = (stepped.stream(Priority::Low), stepped.stream(Priority::Low));
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

#[test]
fn a_dropped_stream_goes_on() {
    on_each_card(|card| {
        let (dropped, reader) = (card.stream(), card.stream());
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
    for kind in support::Kind::ALL {
        let card = kind.open();
        let (ran, count) = (Arc::new(AtomicUsize::new(0)), 100);
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
    let context = support::open(Arc::new(NullCard::new()), settings);
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

#[test]
fn a_host_buffer_is_back_exactly_when_its_copy_is_done() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let range = whole(stream.allocate(4)?, 4);
    let (source, target) = (HostBuffer::from(vec![1, 2, 3, 4]), HostBuffer::zeroed(4));

    stream.fill(range, 0)?;
    stream.copy_to_device(&source, range)?;
    stream.copy_from_device(range, &target)?;
    for _ in 0..2 {
        assert!(source.read().is_ok() && source.write().is_err());
        assert!(target.read().is_err() && target.write().is_err());
        stepped.steps(1);
    }
    assert!(source.write().is_ok() && target.read().is_err());
    stepped.steps(1);

    assert_eq!(target.write().expect("it is back")[..], [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn a_host_buffer_comes_back_from_a_copy_that_fails_or_is_cancelled() {
    on_each_card(|card| {
        let stream = card.stream();
        let range = whole(stream.allocate(4)?, 4);
        let (failed, cancelled) = (HostBuffer::zeroed(4), HostBuffer::zeroed(4));
        let short = spyre_hal::Behaviour::ShortCopy;
        card.scripted().script(Trigger::Next(BlockKind::CopyFromDevice), short);

        stream.copy_from_device(range, &failed)?;
        // The other may be refused the place, but never keeps the buffer.
        stream.copy_from_device(range, &cancelled)?;
        assert!(stream.synchronize().is_err());

        assert!(failed.write().is_ok() && cancelled.write().is_ok());
        Ok(())
    });
}

#[test]
fn many_copies_may_read_one_buffer() {
    on_each_card(|card| {
        let stream = card.stream();
        let source = HostBuffer::from(vec![5; 16]);
        let handle = stream.allocate(16 * 32)?;
        for nth in 0..32 {
            stream.copy_to_device(&source, DeviceRange { handle, offset: nth * 16, bytes: 16 })?;
        }
        assert!(source.read().is_ok());
        assert!(read(&stream, whole(handle, 16 * 32))? == [5; 16 * 32]);
        assert!(source.write().is_ok());
        Ok(())
    });
}

#[test]
fn a_composed_stream_is_replayed_as_one() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        let (a, b) = (whole(stream.allocate(4)?, 4), whole(stream.allocate(4)?, 4));
        let mut blocks = ControlBlockStream::new();
        blocks.append(stream.stage(&[1, 2, 3, 4], a))?;
        blocks.append(launch(program))?;
        blocks.append(copy(a, b))?;
        blocks.append(fill(a, 0))?;
        assert_eq!((blocks.len(), blocks.is_empty(), blocks.is_final()), (4, false, false));
        blocks.finalize()?;
        assert!(blocks.is_final());

        let first = blocks.replay(&stream)?;
        for _ in 0..20 {
            blocks.replay(&stream)?;
        }
        let last = blocks.replay(&card.stream())?;

        assert_eq!(read(&stream, b)?, [1, 2, 3, 4]);
        assert_eq!(read(&stream, a)?, [0; 4]);
        assert_eq!(first.sequence % 4, 1, "behind the program's copy");
        card.context.synchronize()?;
        assert_eq!(last.sequence, 4);
        Ok(())
    });
}

#[test]
fn a_composed_stream_says_what_it_cannot_do() -> Result<(), Error> {
    let context = Context::open(Arc::new(NullCard::new()))?;
    let stream = context.stream(Priority::Low)?;
    let program = stream.allocate(128)?;
    let mut blocks = ControlBlockStream::new();
    let refused = |result: Result<(), Error>| result.expect_err("refused").to_string();

    assert_eq!(
        refused(blocks.finalize()),
        "the control block stream is empty: append blocks before it is finalized"
    );
    blocks.append(launch(program))?;
    assert_eq!(
        refused(blocks.replay(&stream).map(drop)),
        "the control block stream is open: finalize it first"
    );
    assert_eq!(
        refused(blocks.append(ControlBlock::HostCallback(HostCallback::new(|| Ok(()))))),
        "a block of kind host callback cannot be replayed: submit it beside the composed stream"
    );
    assert_eq!(
        refused(blocks.append(fill(whole(program, 0), 1))),
        format!("0 bytes at offset 0 of {program}: there is nothing to copy or fill; leave it out")
    );
    assert_eq!(blocks.len(), 1);
    blocks.finalize()?;
    assert_eq!(
        refused(blocks.append(launch(program))),
        "the control block stream is finalized: compose a new one"
    );

    context.free(program)?;
    let error = blocks.replay(&stream).expect_err("its program is gone");
    assert!(matches!(error, Error::BadHandle { handle, .. } if handle == program), "{error}");
    assert_eq!(context.scheduler().flight_record(), []);
    Ok(())
}

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
    let (submitted, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));

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
            match stepped.step() {
                true => drop(ended.fetch_add(1, Ordering::SeqCst)),
                false => thread::yield_now(),
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
    let context = Arc::new(support::open(Arc::new(NullCard::new()), settings));
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
        "stream 0 holds 2 blocks, its bound, and a host callback must not wait for it"
    );
    stream.synchronize()
}

#[test]
fn an_allocation_waits_for_streams_that_use_what_was_freed() -> Result<(), Error> {
    let card = Arc::new(Deferred::new(ScriptedCard::new(MemoryMode::Vf)));
    let settings = Settings { budget: Arc::new(Budget::new(1 << 20)), ..Settings::default() };
    let machine = Arc::new(Machine::default());
    let scheduler = SchedulerSettings::default();
    let context = Context::open_with(card.clone(), settings, scheduler, machine)?;
    let (user, taker) = (context.stream(Priority::Low)?, context.stream(Priority::Low)?);
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

#[test]
fn a_label_is_in_the_record_and_in_the_error() {
    on_each_card(|card| {
        let stream = card.stream();
        let handle = stream.allocate(128)?;
        let label = Label::named("matmul 64x64");
        let point = stream.launch_labelled(handle, label)?;
        let fault = fault(stream.synchronize());

        assert_eq!((fault.label, fault.kind, fault.point), (label, BlockKind::Launch, point));
        let text = fault.to_string();
        assert!(text.starts_with("stream 0, block 1 (launch \"matmul 64x64\"): "), "{text}");
        let records = card.context.scheduler().flight_record();
        let record = records.last().expect("it ended");
        assert_eq!((record.label, record.state), (label, RecordState::Failed));
        let text = record.to_string();
        assert!(
            text.starts_with("stream 0 block 1 launch \"matmul 64x64\": failed after"),
            "{text}"
        );
        Ok(())
    });
}

#[test]
fn the_flight_record_holds_the_last_4096_and_those_that_run() -> Result<(), Error> {
    let stepped = Stepped::open_with(2, SchedulerSettings::default());
    let (stream, other) = (stepped.stream(Priority::Low), stepped.stream(Priority::Low));
    let program = stepped.program(&stream)?;
    for _ in 0..5000 {
        stream.launch(program)?;
        stepped.steps(1);
    }
    let running = [stream.launch(program)?, other.launch(program)?];

    let records = stepped.context.scheduler().flight_record();
    let (ended, live) = records.split_at(RECORDED);
    // The program's copy is the first of the stream's 5001.
    assert_eq!(
        ended.iter().map(|r| r.sequence).collect::<Vec<_>>(),
        (906..=5001).collect::<Vec<_>>()
    );
    assert!(ended.iter().all(|record| record.state == RecordState::Done));
    let live: Vec<_> = live.iter().map(|r| (r.stream, r.sequence, r.state)).collect();
    let expected = running.map(|point| (point.stream, point.sequence, RecordState::Running));
    assert_eq!(live, expected);
    Ok(())
}

#[test]
fn the_flight_record_is_the_order_in_which_blocks_ended() {
    on_cards_with(
        &SchedulerSettings::default(),
        |kind| kind.way != Way::Late,
        |card| {
            let stream = card.stream();
            let program = program(&stream)?;
            card.context.scheduler().set_tracing(true);
            stream.submit([launch(program), launch(program)])?;
            stream.host_callback(|| Ok(()))?;
            stream.record(&Event::new())?;
            stream.synchronize()?;

            let records = card.context.scheduler().flight_record();
            let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
            let launch = BlockKind::Launch;
            let expected = [
                BlockKind::CopyToDevice,
                launch,
                launch,
                BlockKind::HostCallback,
                BlockKind::RecordEvent,
            ];
            assert_eq!(kinds, expected);
            assert_eq!(records.iter().map(|r| r.sequence).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
            let traced = &records[1..4];
            assert!(traced.iter().all(|r| r.queued_at > 0 && r.started_at >= r.queued_at));
            Ok(())
        },
    );
}
