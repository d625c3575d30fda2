//! Memory whose contents were to be written by work that was cancelled.

use std::sync::Arc;

use spyre_flex::{Error, Event, FlexStream, MemoryAccess, MemoryUse, Priority, StreamFault};
use spyre_hal::{
    Behaviour, BlockKind, ControlBlock, CopyDevice, DeviceRange, Fault, HostBuffer, Label, Trigger,
};

use super::data_fault;
use crate::support::{Card, fault, on_each_card, program, read, whole};

fn memory(stream: &FlexStream, byte: u8) -> Result<DeviceRange, Error> {
    let range = whole(stream.allocate(512)?, 512);
    stream.fill(range, byte)?;
    stream.synchronize()?;
    Ok(range)
}

fn part(range: DeviceRange) -> DeviceRange {
    DeviceRange { offset: 128, bytes: 384, ..range }
}

/// Has the next block of a stream fail, and returns the fault once it was reported.
fn failing(
    card: &Card,
    stream: &FlexStream,
    behind: impl FnOnce() -> Result<(), Error>,
) -> Result<Arc<StreamFault>, Error> {
    let program = program(stream)?;
    stream.synchronize()?;
    card.scripted().script(Trigger::Next(BlockKind::Launch), Behaviour::Fault(data_fault()));
    stream.launch(program)?;
    behind()?;
    Ok(fault(stream.synchronize()))
}

fn poison(result: Result<impl std::fmt::Debug, Error>) -> Arc<StreamFault> {
    match result {
        Err(Error::Poisoned { cause, .. }) => cause,
        other => panic!("not refused as poisoned: {other:?}"),
    }
}

#[test]
fn a_fault_that_was_reported_fails_no_stream_that_waits_for_it_later() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let written = memory(&stream, 1)?;
        let event = Event::new();
        let cause = failing(card, &stream, || {
            stream.fill(written, 7)?;
            stream.record(&event).map(drop)
        })?;

        other.wait(&event)?;
        let sound = memory(&other, 3)?;
        assert_eq!(read(&other, sound)?, [3; 512]);
        assert_eq!(poison(read(&other, written)), cause);
        other.synchronize()
    });
}

#[test]
fn a_block_may_read_what_one_before_it_in_the_same_submission_heals() {
    on_each_card(|card| {
        let stream = card.stream();
        let written = memory(&stream, 1)?;
        let cause = failing(card, &stream, || stream.fill(written, 7).map(drop))?;
        let host = HostBuffer::zeroed(512);
        let target = memory(&stream, 2)?;
        let fill = || ControlBlock::Fill { pattern: 9_u8.into(), target: written };
        let copy = || {
            let copy = CopyDevice { source: written, target, nest: None };
            ControlBlock::CopyDevice(Box::new(copy))
        };
        assert_eq!(poison(stream.submit([copy(), fill()])), cause, "it reads before it heals");
        stream.submit([fill(), copy()])?;
        stream.copy_from_device(target, &host)?;
        stream.synchronize()?;
        assert_eq!(*host.read().expect("the copy is done"), [9; 512]);
        Ok(())
    });
}

#[test]
fn a_copy_from_another_card_heals_what_it_writes_wholly() {
    on_each_card(|card| {
        let stream = card.stream();
        let home = card.kind.open();
        let source = memory(&home.stream(), 5)?;
        let written = memory(&stream, 1)?;
        let cause = failing(card, &stream, || stream.fill(written, 7).map(drop))?;

        let there = home.stream();
        let half = |range: DeviceRange| DeviceRange { bytes: 256, ..range };
        there.copy_to_peer(half(source), &card.context, half(written))?;
        there.synchronize()?;
        assert_eq!(poison(read(&stream, written)), cause, "a part of it heals nothing");
        there.copy_to_peer(source, &card.context, written)?;
        there.synchronize()?;
        assert_eq!(read(&stream, written)?, [5; 512]);
        Ok(())
    });
}

#[test]
fn a_stream_that_waited_before_the_fault_was_reported_fails_with_it() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let written = memory(&stream, 1)?;
        let event = Event::new();
        let cause = failing(card, &stream, || {
            stream.fill(written, 7)?;
            stream.record(&event)?;
            other.wait(&event)
        })?;
        assert_eq!(fault(other.synchronize()), cause);
        other.synchronize()
    });
}

#[test]
fn what_a_cancelled_block_was_to_write_cannot_be_read() {
    on_each_card(|card| {
        let stream = card.stream();
        let written = memory(&stream, 1)?;
        let other = memory(&stream, 2)?;
        let cause = failing(card, &stream, || stream.fill(written, 7).map(drop))?;

        let target = memory(&stream, 3)?;
        let host = HostBuffer::zeroed(512);
        assert_eq!(poison(read(&stream, written)), cause);
        assert_eq!(poison(stream.copy_from_device(part(written), &host)), cause);
        assert_eq!(poison(stream.copy_on_device(written, target, None)), cause);
        let program = program(&stream)?;
        for access in [MemoryAccess::Read, MemoryAccess::Update] {
            let mut blocks = vec![ControlBlock::launch(program, Label::default())];
            let used = [MemoryUse { range: written, access }];
            assert_eq!(poison(stream.submit_using(&mut blocks, &used)), cause);
        }
        let reported = card.context.allocator().poison_of(written.handle)?;
        assert_eq!(reported, Some(cause));

        assert_eq!(read(&stream, other)?, [2; 512], "untouched memory is as it was");
        assert_eq!(read(&stream, target)?, [3; 512], "what was refused did nothing");
        Ok(())
    });
}

#[test]
fn only_a_write_of_all_of_it_heals() {
    on_each_card(|card| {
        let stream = card.stream();
        for is_used_often in [false, true] {
            let written = memory(&stream, 1)?;
            for _ in 0..if is_used_often { 8 } else { 0 } {
                stream.fill(written, 1)?;
            }
            let cause = failing(card, &stream, || stream.fill(part(written), 7).map(drop))?;
            stream.fill(part(written), 8)?;
            stream.copy_to_device(vec![8; 384], part(written))?;
            assert_eq!(poison(read(&stream, written)), cause);
            let mut blocks = vec![ControlBlock::launch(program(&stream)?, Label::default())];
            let used = [MemoryUse { range: written, access: MemoryAccess::WritePart }];
            stream.submit_using(&mut blocks, &used)?;
            assert_eq!(poison(read(&stream, written)), cause);

            stream.copy_to_device(vec![9; 512], written)?;
            assert_eq!(read(&stream, written)?, [9; 512]);
            assert_eq!(card.context.allocator().poison_of(written.handle)?, None);
        }
        Ok(())
    });
}

#[test]
fn what_a_launch_was_to_write_is_poisoned_and_a_launch_heals_it() {
    on_each_card(|card| {
        let stream = card.stream();
        let result = memory(&stream, 1)?;
        let input = memory(&stream, 2)?;
        let program = program(&stream)?;
        let launch = || vec![ControlBlock::launch(program, Label::default())];
        let uses = [
            MemoryUse { range: input, access: MemoryAccess::Read },
            MemoryUse { range: result, access: MemoryAccess::WriteAll },
        ];
        let cause = failing(card, &stream, || stream.submit_using(&mut launch(), &uses).map(drop))?;
        assert_eq!(poison(read(&stream, result)), cause);
        assert_eq!(read(&stream, input)?, [2; 512], "what was only read is sound");

        stream.submit_using(&mut launch(), &uses)?;
        assert_eq!(read(&stream, result)?, [1; 512], "this card's programs do nothing");
        Ok(())
    });
}

#[test]
fn freed_memory_takes_its_poison_with_it() {
    on_each_card(|card| {
        let stream = card.stream();
        let written = memory(&stream, 1)?;
        failing(card, &stream, || stream.fill(written, 7).map(drop))?;
        card.context.free(written.handle)?;
        let again = whole(stream.allocate(512)?, 512);
        read(&stream, again)?;
        assert_eq!(card.context.allocator().poison_of(again.handle)?, None);
        Ok(())
    });
}

#[test]
fn another_stream_is_refused_too_and_may_heal() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.context.stream(Priority::High)?;
        let written = memory(&stream, 1)?;
        let cause = failing(card, &stream, || stream.fill(written, 7).map(drop))?;
        assert_eq!(poison(read(&other, written)), cause);
        other.fill(written, 5)?;
        assert_eq!(read(&other, written)?, [5; 512]);
        assert_eq!(read(&stream, written)?, [5; 512]);
        Ok(())
    });
}

#[test]
fn a_fault_that_was_not_reported_yet_poisons_for_other_streams() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let written = memory(&stream, 1)?;
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::Next(BlockKind::Launch), Behaviour::Fault(data_fault()));
        stream.launch(program)?;
        stream.fill(written, 7)?;
        crate::support::until("the fill is cancelled", || stream.is_idle());
        let cause = poison(read(&other, written));

        // A write of all of it by another stream stands, also when the fault is reported after it.
        other.fill(written, 4)?;
        other.synchronize()?;
        assert_eq!(fault(stream.synchronize()), cause);
        assert_eq!(read(&other, written)?, [4; 512]);
        Ok(())
    });
}

#[test]
fn what_was_queued_behind_a_structural_fault_is_poisoned_when_the_stream_is_reset() {
    on_each_card(|card| {
        let stream = card.stream();
        let written = memory(&stream, 1)?;
        let late = memory(&stream, 2)?;
        let no_program = stream.allocate(128)?;
        stream.fill(whole(no_program, 128), 0)?;
        let fill = ControlBlock::Fill { pattern: 7.into(), target: written };
        stream.submit([ControlBlock::launch(no_program, Label::default()), fill])?;
        let cause = fault(stream.synchronize());
        assert!(matches!(cause.fault, Fault::BadProgram { .. }));
        assert!(stream.fill(late, 7).is_err(), "it is refused");

        stream.reset()?;
        assert_eq!(poison(read(&stream, written)), cause);
        assert_eq!(read(&stream, late)?, [2; 512], "what was refused poisons nothing");
        stream.fill(written, 8)?;
        assert_eq!(read(&stream, written)?, [8; 512]);
        Ok(())
    });
}

#[test]
fn a_stream_that_waits_for_a_failed_one_poisons_with_the_first_cause() {
    on_each_card(|card| {
        let stream = card.stream();
        let waiter = card.stream();
        let written = memory(&waiter, 1)?;
        let event = Event::new();
        let program = program(&stream)?;
        stream.synchronize()?;
        card.scripted().script(Trigger::Next(BlockKind::Launch), Behaviour::Fault(data_fault()));
        stream.launch(program)?;
        stream.record(&event)?;
        waiter.wait(&event)?;
        waiter.fill(written, 7)?;
        let cause = fault(waiter.synchronize());
        assert_eq!(poison(read(&waiter, written)), cause);
        assert_eq!(fault(stream.synchronize()), cause);
        Ok(())
    });
}

#[test]
fn the_first_cause_stays() {
    on_each_card(|card| {
        let stream = card.stream();
        let written = memory(&stream, 1)?;
        let first = failing(card, &stream, || stream.fill(written, 7).map(drop))?;
        let second = failing(card, &stream, || stream.fill(part(written), 8).map(drop))?;
        assert_ne!(first, second);
        assert_eq!(poison(read(&stream, written)), first);
        Ok(())
    });
}
