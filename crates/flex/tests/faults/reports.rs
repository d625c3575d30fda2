//! Faults that end when they are reported, and what is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spyre_flex::{Context, Error, Event, FlexStream, Policy, Priority, RecordState};
use spyre_hal::{
    Behaviour, BlockKind, ControlBlock, Hardware, Label, MemoryMode, ScriptedCard, StreamIndex,
    Trigger,
};

use super::data_fault;
use crate::support::{Stepped, fault, on_each_card, program, read, whole};

fn states(context: &Context, stream: &FlexStream) -> Vec<RecordState> {
    let records = context.scheduler().flight_record();
    records.iter().filter(|r| r.stream == stream.index()).map(|r| r.state).collect()
}

#[test]
fn a_data_fault_cancels_what_is_queued_and_is_reported_once() {
    on_each_card(|card| {
        let stream = card.stream();
        let event = Event::new();
        let target = whole(stream.allocate(4)?, 4);
        stream.fill(target, 1)?;
        stream.synchronize()?;
        for round in 0..20 {
            card.scripted().script(Trigger::Next(BlockKind::Fill), Behaviour::Fault(data_fault()));
            let fill = |byte: u8| ControlBlock::Fill { pattern: byte.into(), target };
            let last = stream.submit([fill(2), fill(3), fill(4)])?;
            stream.record(&event)?;

            let reported = fault(stream.synchronize());
            assert_eq!(
                (reported.point.sequence, &reported.fault),
                (last.sequence - 2, &data_fault())
            );
            assert_eq!((stream.synchronize(), stream.query()), (Ok(()), Ok(true)), "{round}");
            // A caller that asks about the blocks themselves always gets the fault.
            assert_eq!(fault(stream.ticket(last).wait()), reported);
            assert_eq!(fault(event.query()), reported);
            // What was cancelled did nothing, and what it should have written cannot be read.
            let Err(Error::Poisoned { cause, .. }) = read(&stream, target) else {
                panic!("what was cancelled looks like a result");
            };
            assert_eq!(cause, reported);
        }

        stream.fill(target, 5)?;
        assert_eq!(read(&stream, target)?, [5; 4], "and the stream goes on");
        Ok(())
    });
}

#[test]
fn blocks_behind_a_data_fault_are_cancelled_until_it_is_reported() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let program = stepped.program(&stream)?;
    stepped.card.inner().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
    for _ in 0..3 {
        stream.launch(program)?;
    }
    stepped.steps(1);
    // It failed, the fault was not reported, and this one was queued not knowing.
    stream.launch(program)?;
    assert_eq!(stepped.card.pending(), 0);

    assert_eq!(fault(stream.query()).point.sequence, 2);
    assert_eq!(stream.query(), Ok(true));
    stream.launch(program)?;
    stepped.steps(1);
    use RecordState::{Cancelled, Done, Failed};
    let expected = [Done, Failed, Cancelled, Cancelled, Cancelled, Done];
    assert_eq!(states(&stepped.context, &stream), expected);
    stream.synchronize()
}

#[test]
fn a_ticket_may_be_the_one_that_reports_a_fault() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        let ticket = stream.ticket(stream.launch(program)?);
        let reported = fault(ticket.wait());
        assert_eq!((stream.synchronize(), card.context.synchronize()), (Ok(()), Ok(())));
        assert_eq!(fault(ticket.query()), reported);
        Ok(())
    });
}

#[test]
fn a_failure_of_long_ago_never_counts_as_done() -> Result<(), Error> {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = Context::open(Arc::clone(&card) as Arc<dyn Hardware>)?;
    let stream = context.stream(Priority::Low)?;
    let other = context.stream(Priority::Low)?;
    let target = whole(stream.allocate(4)?, 4);
    let well = stream.fill(target, 1)?;
    let failures: Vec<_> = (0..300)
        .map(|_| {
            card.script(Trigger::Next(BlockKind::Fill), Behaviour::Fault(data_fault()));
            let failed = stream.fill(target, 2)?;
            assert_eq!(fault(stream.synchronize()).point, failed);
            Ok(failed)
        })
        .collect::<Result<_, Error>>()?;
    assert_eq!(stream.ticket(well).wait(), Ok(()));

    // The last ones are reported with their own cause, the others as what they are: no longer
    // known.
    let answers = failures.iter().map(|&failed| (failed, stream.ticket(failed).wait()));
    let (forgotten, known): (Vec<_>, Vec<_>) =
        answers.partition(|(_, answer)| matches!(answer, Err(Error::Forgotten { .. })));
    assert!((40..=44).contains(&forgotten.len()), "{} are forgotten", forgotten.len());
    for (failed, answer) in known {
        assert_eq!(fault(answer).point, failed);
    }
    let message = forgotten[0].1.as_ref().map_err(ToString::to_string);
    assert!(message.is_err_and(|text| text.contains("block 2 of stream 0 ended is no longer")));

    // Nor does a stream that waits for one go on.
    other.submit([ControlBlock::WaitEvent(failures[0])])?;
    assert_eq!(fault(other.synchronize()).fault, data_fault());
    Ok(())
}

#[test]
fn one_fault_is_reported_once_to_two_threads() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        stream.synchronize()?;
        for _ in 0..50 {
            card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
            stream.launch(program)?;
            let reports = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        reports
                            .fetch_add(usize::from(stream.synchronize().is_err()), Ordering::SeqCst)
                    });
                }
            });
            assert_eq!(reports.into_inner(), 1);
        }
        Ok(())
    });
}

#[test]
fn a_callback_that_fails_or_panics_is_a_data_fault() {
    on_each_card(|card| {
        let stream = card.stream();
        let failing = stream.host_callback(|| Err("no more rows".to_owned()))?;
        let reported = fault(stream.synchronize());
        assert_eq!((reported.point, reported.kind), (failing, BlockKind::HostCallback));
        assert_eq!(
            reported.to_string(),
            format!(
                "stream 0, block {} (host callback): the host callback failed: no more rows",
                failing.sequence
            )
        );

        for number in [1, 2] {
            let panicking = stream.host_callback(move || match number {
                1 => panic!("at the disco"),
                number => panic!("number {number}"),
            })?;
            let reported = fault(stream.ticket(panicking).wait());
            let what = if number == 1 { "at the disco" } else { "number 2" };
            let expected = format!("the host callback failed: it panicked: {what}");
            assert_eq!(reported.fault.to_string(), expected);
        }
        stream.host_callback(|| Ok(()))?;
        assert_eq!(stream.synchronize(), Ok(()));
        Ok(())
    });
}

#[test]
fn an_error_says_what_happened_where_and_what_to_do() {
    on_each_card(|card| {
        let stream = card.stream();
        let junk = stream.allocate(128)?;
        stream.copy_staged(b"no program at al", whole(junk, 16))?;
        stream.launch_labelled(junk, Label::named("softmax"))?;
        let bytes = format!("{:02x?}", b"no program at al");
        assert_eq!(
            stream.synchronize().expect_err("no program").to_string(),
            format!(
                "stream 0, block 2 (launch \"softmax\"): {junk} holds no program that runs: it \
                 starts with {bytes}"
            )
        );
        stream.reset()?;

        card.scripted().script(Trigger::Nth(1), Behaviour::ShortCopy);
        stream.fill(whole(junk, 100), 1)?;
        assert_eq!(
            stream.synchronize().expect_err("a short copy").to_string(),
            "stream 0, block 3 (fill): the copy failed: it ended after 50 of 100 bytes"
        );
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        stream.copy_staged(&[1], whole(junk, 1))?;
        assert_eq!(
            stream.synchronize().expect_err("a data fault").to_string(),
            "stream 0, block 4 (copy to device): index 9 is out of range for dimension 0 with size 3 (of operand o1)"
        );
        card.scripted().script(Trigger::Nth(1), Behaviour::Lose);
        stream.launch(stream.allocate(128)?)?;
        assert_eq!(
            stream.synchronize().expect_err("a lost device").to_string(),
            "stream 0, block 5 (launch): the device is lost: as the script says. Reset it; its \
             memory is gone"
        );
        Ok(())
    });
}

#[test]
fn a_context_tells_the_faults_of_all_its_streams() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..3).map(|_| card.stream()).collect();
        for (stream, why) in streams.iter().zip(["one", "two", "three"]) {
            stream.host_callback(move || Err(why.to_owned()))?;
        }
        let reported: Vec<StreamIndex> =
            (0..3).map(|_| fault(card.context.synchronize()).point.stream).collect();
        assert_eq!(reported, streams.iter().map(FlexStream::index).collect::<Vec<_>>());
        card.context.synchronize()
    });
}
