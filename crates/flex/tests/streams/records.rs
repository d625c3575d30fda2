//! Contents of the flight recorder.

use spyre_flex::{Error, Event, Priority, RECORDED, RecordState, SchedulerSettings};
use spyre_hal::{BlockKind, Label};

use super::launch;
use crate::support::{Stepped, Way, fault, on_cards_with, on_each_card, program};

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
    let stream = stepped.stream(Priority::Low);
    let other = stepped.stream(Priority::Low);
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
            stream.record(&Event::timed())?;
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

/// A prompt device's block is known to be done before the rest of its run is.
#[test]
fn what_was_waited_for_is_in_the_record_at_once() {
    on_each_card(|card| {
        let stream = card.stream();
        let scheduler = card.context.scheduler();
        let program = program(&stream)?;
        stream.synchronize()?;
        for sequence in 2..500 {
            stream.launch(program)?;
            stream.synchronize()?;
            let last =
                scheduler.flight_record().last().map(|record| (record.sequence, record.state));
            assert_eq!(last, Some((sequence, RecordState::Done)));
        }
        for _ in 0..500 {
            scheduler.start_recording(3);
            (0..5).try_for_each(|_| stream.launch(program).map(drop))?;
            stream.synchronize()?;
            let tape = scheduler.stop_recording();
            assert_eq!((tape.records.len(), tape.lost), (3, 2));
        }
        Ok(())
    });
}

#[test]
fn a_recording_keeps_every_block_up_to_its_bound() {
    on_cards_with(
        &SchedulerSettings::default(),
        |kind| kind.way != Way::Late,
        |card| {
            let stream = card.stream();
            let scheduler = card.context.scheduler();
            let program = program(&stream)?;
            stream.synchronize()?;
            let launch_all = |count: usize| -> Result<(), Error> {
                (0..count).try_for_each(|_| stream.launch(program).map(drop))?;
                stream.synchronize()
            };

            scheduler.start_recording(RECORDED + 9);
            launch_all(RECORDED + 7)?;
            let tape = scheduler.stop_recording();
            let sequences: Vec<u64> = tape.records.iter().map(|record| record.sequence).collect();
            assert_eq!(sequences, (2..RECORDED as u64 + 9).collect::<Vec<_>>());
            assert!(tape.records.iter().all(|record| record.started_at > 0));
            assert_eq!(tape.lost, 0);

            scheduler.start_recording(3);
            launch_all(5)?;
            let tape = scheduler.start_recording(1);
            assert_eq!((tape.records.len(), tape.lost), (3, 2));
            assert_eq!(scheduler.stop_recording().records, []);
            launch_all(1)?;
            assert_eq!(scheduler.stop_recording().records, [], "nothing is recorded any more");
            Ok(())
        },
    );
}
