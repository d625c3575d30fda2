//! Errors of a caller: reported at the call, with nothing queued.

mod support;

use std::sync::Arc;
use std::sync::mpsc;

use spyre_flex::{
    Budget, Context, ControlBlockStream, Error, Event, FlexStream, Machine, Priority,
    SchedulerSettings, Settings,
};
use spyre_hal::{
    ControlBlock, CopyDevice, CopyPeer, CopyToDevice, DeviceHandle, DeviceRange, HandleTag,
    HostBuffer, HostBusy, Label, Location, MemoryMode, NullCard, Pattern, ScriptedCard,
    StreamIndex, StreamPoint,
};
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat;
use support::{Card, Random, on_each_card, program, refusal, whole};

/// A block made from a range that may be wrong, with everything else right.
type Make = fn(&Fixture<'_>, DeviceRange) -> Result<(), Error>;

/// Every way to name device memory.
const WAYS: [(&str, Make); 10] = [
    ("fill", |f, range| f.stream.fill(range, 1).map(drop)),
    ("copy to device", |f, range| {
        f.stream.copy_to_device(vec![0; f.host_bytes(range)], range).map(drop)
    }),
    ("staged", |f, range| f.stream.copy_staged(&vec![0; f.host_bytes(range)], range).map(drop)),
    ("copy from device", |f, range| {
        f.stream.copy_from_device(range, &HostBuffer::zeroed(f.host_bytes(range))).map(drop)
    }),
    ("copy from", |f, range| f.stream.copy_on_device(range, f.like(range), None).map(drop)),
    ("copy to", |f, range| f.stream.copy_on_device(f.like(range), range, None).map(drop)),
    ("peer from", |f, range| {
        f.stream.copy_to_peer(range, &f.peer.context, f.like_there(range)).map(drop)
    }),
    ("queue_operation", |f, target| {
        let block = ControlBlock::Fill { pattern: Pattern::from(1), target };
        f.card.context.scheduler().queue_operation(f.stream.index(), block).map(drop)
    }),
    ("in a batch", |f, target| {
        let launch = || ControlBlock::launch(f.program, Label::default());
        let fill = ControlBlock::Fill { pattern: Pattern::from(1), target };
        f.stream.submit([launch(), fill, launch()]).map(drop)
    }),
    ("replayed", |f, target| {
        let mut blocks = ControlBlockStream::new();
        blocks.append(ControlBlock::launch(f.program, Label::default()))?;
        blocks.append(ControlBlock::Fill { pattern: Pattern::from(1), target })?;
        blocks.finalize()?;
        blocks.replay(&f.stream).map(drop)
    }),
];

const BYTES: u64 = 1024;

struct Fixture<'a> {
    card: &'a Card,
    peer: Card,
    stream: FlexStream,
    program: DeviceHandle,
    good: DeviceHandle,
    other: DeviceHandle,
    there: DeviceHandle,
}

impl<'a> Fixture<'a> {
    fn new(card: &'a Card) -> Result<Self, Error> {
        let stream = card.stream();
        let peer = card.kind.open();
        let program = program(&stream)?;
        let [good, other] = [stream.allocate(BYTES)?, stream.allocate(BYTES)?];
        let there = peer.stream().allocate(BYTES)?;
        stream.synchronize()?;
        Ok(Self { card, peer, stream, program, good, other, there })
    }

    /// Enough for a range, but never too much to have.
    fn host_bytes(&self, range: DeviceRange) -> usize {
        range.bytes.min(1 << 16) as usize
    }

    fn like(&self, range: DeviceRange) -> DeviceRange {
        whole(self.other, range.bytes)
    }

    fn like_there(&self, range: DeviceRange) -> DeviceRange {
        whole(self.there, range.bytes.min(BYTES))
    }

    fn refusal(&self, call: impl FnOnce() -> Result<(), Error>) -> Error {
        refusal(&self.card.context, self.card.scripted(), &self.stream, call)
    }

    fn refusals(&self, range: DeviceRange) -> Vec<(&'static str, Error)> {
        let refused =
            |(way, make): &(&'static str, Make)| (*way, self.refusal(|| make(self, range)));
        WAYS.iter().map(refused).collect()
    }
}

#[test]
fn a_range_past_the_end_is_refused_in_every_block() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let handle = fixture.good;
        for (offset, bytes) in [(0, BYTES + 1), (BYTES, 1), (BYTES - 1, 2), (u64::MAX, 1)] {
            for (way, error) in fixture.refusals(DeviceRange { handle, offset, bytes }) {
                let expected = Error::OutOfRange { handle, offset, bytes, allocated: BYTES };
                // The other end of a copy is as long, and may be looked at first.
                let like = DeviceRange { handle: fixture.other, offset: 0, bytes };
                let of_other =
                    Error::OutOfRange { handle: like.handle, offset: 0, bytes, allocated: BYTES };
                let is_expected = error == expected || error == of_other;
                let is_uneven = way == "peer from" && matches!(error, Error::UnequalBytes { .. });
                assert!(is_expected || is_uneven, "{way} at {offset}+{bytes}: {error:?}");
            }
        }
        let error = fixture.refusal(|| {
            fixture.stream.fill(DeviceRange { handle, offset: 1020, bytes: 5 }, 1).map(drop)
        });
        assert_eq!(
            error.to_string(),
            format!("5 bytes at offset 1020 of {handle} end past its 1024 bytes")
        );
        Ok(())
    });
}

#[test]
fn a_range_that_overflows_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        for (offset, bytes) in [(1, u64::MAX), (u64::MAX, u64::MAX), (0, u64::MAX)] {
            let range = DeviceRange { handle: fixture.good, offset, bytes };
            for (way, error) in fixture.refusals(range) {
                let is_typed = matches!(
                    error,
                    Error::OutOfRange { .. }
                        | Error::SourceTooSmall { .. }
                        | Error::TargetTooSmall { .. }
                        | Error::UnequalBytes { .. }
                );
                assert!(is_typed, "{way} at {offset}+{bytes}: {error:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_block_of_no_bytes_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let range = whole(fixture.good, 0);
        for (way, error) in fixture.refusals(range) {
            assert!(matches!(error, Error::ZeroBytes { .. }), "{way}: {error:?}");
        }
        let error = fixture.refusal(|| fixture.stream.fill(range, 1).map(drop));
        assert_eq!(
            error.to_string(),
            format!(
                "0 bytes at offset 0 of {}: there is nothing to copy or fill; leave it out",
                fixture.good
            )
        );
        Ok(())
    });
}

#[test]
fn handles_that_are_not_live_are_refused_in_every_block() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let freed = fixture.stream.allocate(BYTES)?;
        card.context.free(freed)?;
        let tag = fixture.good.tag();
        let forged = |tag: HandleTag| match fixture.good.location() {
            Location::Pf(place) => DeviceHandle::pf(place, tag),
            Location::Vf(place) => DeviceHandle::vf(place, tag),
        };
        let cases = [
            ("freed", freed, "it was freed"),
            ("foreign", fixture.there, "it is from before a reset, or from another card"),
            ("another generation", forged(HandleTag { generation: 99, ..tag }), "it was freed"),
            ("another slot", forged(HandleTag { slot: 1 << 20, ..tag }), "it was never given out"),
            (
                "another epoch",
                forged(HandleTag { epoch: tag.epoch.wrapping_add(999), ..tag }),
                "it is from before a reset, or from another card",
            ),
        ];
        for (what, handle, why) in cases {
            for (way, error) in fixture.refusals(whole(handle, 16)) {
                assert_eq!(error, Error::BadHandle { handle, why }, "{what}, {way}");
            }
            let launched = fixture.refusal(|| fixture.stream.launch(handle).map(drop));
            assert_eq!(launched, Error::BadHandle { handle, why }, "{what}, launch");
            let error = fixture.refusal(|| card.context.free(handle));
            assert_eq!(error, Error::BadHandle { handle, why }, "{what}, free");
            assert_eq!(
                error.to_string(),
                format!("{handle} is not a live allocation of this card: {why}")
            );
        }
        Ok(())
    });
}

#[test]
fn no_random_handle_is_taken_for_a_live_one() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let mut random = Random::new(7);
        let before = card.scripted().log().len();
        for _ in 0..20_000 {
            let a = random.number();
            let b = random.number();
            let c = random.number();
            let tag = HandleTag {
                epoch: if a & 1 == 0 { fixture.good.tag().epoch } else { a as u16 },
                generation: if a & 2 == 0 { 0 } else { b as u32 },
                slot: if a & 4 == 0 { (b >> 32) as u32 % 8 } else { (b >> 32) as u32 },
            };
            let handle = match card.kind.mode {
                MemoryMode::Pf => {
                    DeviceHandle::pf(spyre_hal::PFDeviceHandle { physical_address: c | 1 }, tag)
                }
                MemoryMode::Vf => {
                    let region_id = (a >> 16) as u16 % 8;
                    DeviceHandle::vf(spyre_hal::VFDeviceHandle { region_id, vf_offset: c | 1 }, tag)
                }
            };
            assert!(matches!(fixture.stream.launch(handle), Err(Error::BadHandle { .. })));
            assert!(card.context.free(handle).is_err());
        }
        assert_eq!(card.scripted().log().len(), before);
        fixture.stream.launch(fixture.program)?;
        fixture.stream.synchronize()
    });
}

#[test]
fn copies_that_overlap_or_differ_are_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let handle = fixture.good;
        let from = DeviceRange { handle, offset: 0, bytes: 16 };
        let to = DeviceRange { handle, offset: 15, bytes: 16 };
        for (from, to) in [(from, to), (to, from), (from, from)] {
            let error = fixture.refusal(|| fixture.stream.copy_on_device(from, to, None).map(drop));
            assert_eq!(error, Error::Overlap { from, to });
        }
        let error = Error::Overlap { from, to };
        assert_eq!(
            error.to_string(),
            format!(
                "source (16 bytes at offset 0 of {handle}) and target (16 bytes at offset 15 of \
                 {handle}) overlap: copy by way of a third place"
            )
        );

        let to = whole(fixture.other, 17);
        let error = fixture.refusal(|| fixture.stream.copy_on_device(from, to, None).map(drop));
        assert_eq!(error, Error::UnequalBytes { from, to });
        let touching = DeviceRange { handle, offset: 16, bytes: 16 };
        fixture.stream.copy_on_device(from, touching, None)?;
        fixture.stream.synchronize()
    });
}

#[test]
fn a_host_buffer_that_is_too_small_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let stream = &fixture.stream;
        let range = whole(fixture.good, 100);
        let error = fixture.refusal(|| stream.copy_to_device(vec![0; 99], range).map(drop));
        assert_eq!(error, Error::SourceTooSmall { given: 99, needed: 100 });
        assert_eq!(error.to_string(), "the copy reads 100 bytes, and its source holds 99");
        let error = fixture.refusal(|| stream.copy_staged(&[], range).map(drop));
        assert_eq!(error, Error::SourceTooSmall { given: 0, needed: 100 });
        let host = HostBuffer::zeroed(99);
        let error = fixture.refusal(|| stream.copy_from_device(range, &host).map(drop));
        assert_eq!(error, Error::TargetTooSmall { given: 99, needed: 100 });
        assert_eq!(error.to_string(), "the copy writes 100 bytes, and its target holds 99");
        assert!(host.write().is_ok(), "a refused copy keeps no buffer");
        Ok(())
    });
}

#[test]
fn a_nest_that_reaches_too_far_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let view = View::contiguous(&[4, 64]).expect("it is small");
        let layout =
            SpyreTensorLayout::contiguous(&[4, 64], DataFormat::IeeeFp16).expect("it tiles");
        let host = Endpoint::host(&view, DataFormat::IeeeFp16);
        let nest =
            Arc::new(DmaNest::derive(host, Endpoint::device(&view, &layout)).expect("they fit"));
        let copy = |host, device| {
            let range = whole(fixture.good, device);
            fixture.stream.copy_to_device_with(&nest, vec![0; host], range).map(drop)
        };

        let error = fixture.refusal(|| copy(511, 512));
        assert_eq!(error, Error::SourceTooSmall { given: 511, needed: 512 });
        let error = fixture.refusal(|| copy(512, 511));
        assert_eq!(error, Error::TargetTooSmall { given: 511, needed: 512 });
        copy(512, 512)?;
        fixture.stream.synchronize()
    });
}

#[test]
fn a_busy_host_buffer_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let stream = &fixture.stream;
        let range = whole(fixture.good, 4);
        let buffer = HostBuffer::zeroed(4);
        let lent = buffer.lend_to_write().expect("it is not lent");
        for error in [
            fixture.refusal(|| stream.copy_to_device(&buffer, range).map(drop)),
            fixture.refusal(|| stream.copy_from_device(range, &buffer).map(drop)),
        ] {
            assert_eq!(error, Error::HostBusy(HostBusy));
            assert_eq!(
                error.to_string(),
                "the host buffer is lent to a copy that has not completed: synchronize first"
            );
        }
        drop(lent);
        let lent = buffer.lend_to_read().expect("it is not lent");
        stream.copy_to_device(&buffer, range)?;
        let error = fixture.refusal(|| stream.copy_from_device(range, &buffer).map(drop));
        assert_eq!(error, Error::HostBusy(HostBusy));
        drop(lent);
        Ok(())
    });
}

#[test]
fn a_stream_that_does_not_exist_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        for index in [1, 63, 64, 4095, 4096, u16::MAX] {
            let stream = StreamIndex(index);
            let target = whole(fixture.good, 4);
            let block = ControlBlock::Fill { pattern: Pattern::from(1), target };
            let scheduler = card.context.scheduler();
            let error = fixture.refusal(|| scheduler.queue_operation(stream, block).map(drop));
            assert_eq!(error, Error::UnknownStream { stream });
            assert_eq!(
                error.to_string(),
                format!("this card has no stream {index}: it is another card's, or was never made")
            );
        }
        Ok(())
    });
}

#[test]
fn a_wait_for_the_future_or_for_an_unknown_stream_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let other = card.stream();
        let last = other.launch(fixture.program)?;
        let wait = |stream: StreamIndex, sequence: u64| {
            let block = ControlBlock::WaitEvent(StreamPoint { stream, sequence });
            card.context.scheduler().queue_operation(fixture.stream.index(), block).map(drop)
        };
        for sequence in [last.sequence + 1, u64::MAX] {
            let error = fixture.refusal(|| wait(last.stream, sequence));
            assert_eq!(error, Error::ForeignEvent);
        }
        let error = fixture.refusal(|| wait(fixture.stream.index(), u64::MAX / 2));
        assert_eq!(error, Error::ForeignEvent, "nor may a stream wait for its own future");
        let error = fixture.refusal(|| wait(StreamIndex(77), 1));
        assert_eq!(error, Error::UnknownStream { stream: StreamIndex(77) });
        wait(last.stream, last.sequence)?;
        card.context.synchronize()
    });
}

#[test]
fn a_batch_has_one_block_at_least_and_no_more_than_the_bound() -> Result<(), Error> {
    let settings =
        SchedulerSettings { queue_blocks: 4, queue_bound: 16, ..SchedulerSettings::default() };
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = support::open(card.clone(), settings);
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;
    let batch = |blocks: usize| -> Vec<ControlBlock> {
        (0..blocks).map(|_| ControlBlock::launch(program, Label::default())).collect()
    };

    for blocks in [0, 17, 1000] {
        let error = refusal(&context, &card, &stream, || stream.submit(batch(blocks)));
        assert_eq!(error, Error::BatchSize { blocks: blocks as u64, bound: 16 });
        assert_eq!(
            error.to_string(),
            format!("{blocks} blocks cannot be queued at once: 1 to 16 can")
        );
    }
    let mut blocks = ControlBlockStream::new();
    batch(17).into_iter().try_for_each(|block| blocks.append(block))?;
    blocks.finalize()?;
    let error = refusal(&context, &card, &stream, || blocks.replay(&stream));
    assert_eq!(error, Error::BatchSize { blocks: 17, bound: 16 });
    for _ in 0..10 {
        stream.submit(batch(16))?;
    }
    stream.synchronize()
}

#[test]
fn a_batch_with_one_bad_block_is_refused_as_a_whole() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let source = HostBuffer::zeroed(4);
        let target = whole(fixture.good, 4);
        for bad in 0..3 {
            let lent = source.lend_to_read().expect("it is not lent");
            let copy = CopyToDevice { source: lent, target, nest: None };
            let mut blocks = vec![
                ControlBlock::CopyToDevice(Box::new(copy)),
                ControlBlock::launch(fixture.program, Label::default()),
            ];
            let overlapping = CopyDevice { source: target, target, nest: None };
            blocks.insert(bad, ControlBlock::CopyDevice(Box::new(overlapping)));
            let error = fixture.refusal(|| fixture.stream.submit(blocks).map(drop));
            assert!(matches!(error, Error::Overlap { .. }), "{error}");
            assert!(source.write().is_ok(), "what was lent is back");
        }
        Ok(())
    });
}

#[test]
fn a_copy_to_a_place_that_the_peer_does_not_have_is_refused() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let stream = &fixture.stream;
        let peer = &fixture.peer.context;
        let source = whole(fixture.good, 16);
        let copy = |target| stream.copy_to_peer(source, peer, target).map(drop);

        let own = whole(fixture.other, 16);
        let there = fixture.there;
        let error = fixture.refusal(|| copy(own));
        assert!(
            matches!(error, Error::BadHandle { handle, .. } if handle == own.handle),
            "{error}"
        );
        let past = DeviceRange { handle: there, offset: BYTES - 8, bytes: 16 };
        let error = fixture.refusal(|| copy(past));
        assert!(matches!(error, Error::OutOfRange { offset: 1016, .. }), "{error}");
        let error = fixture.refusal(|| copy(whole(there, 8)));
        assert!(matches!(error, Error::UnequalBytes { .. }), "{error}");
        copy(whole(there, 16))?;
        stream.synchronize()?;
        peer.free(there)?;
        let error = fixture.refusal(|| copy(whole(there, 16)));
        assert!(matches!(error, Error::BadHandle { why: "it was freed", .. }), "{error}");
        Ok(())
    });
}

#[test]
fn a_peer_copy_that_was_made_by_hand_faults_where_the_peer_says_so() {
    on_each_card(|card| {
        let fixture = Fixture::new(card)?;
        let source = whole(fixture.good, 16);
        let target = DeviceRange { handle: fixture.there, offset: u64::MAX - 15, bytes: 16 };
        let peer = Arc::clone(fixture.peer.context.hardware());
        let copy = ControlBlock::CopyPeer(Box::new(CopyPeer { source, peer, target }));
        fixture.stream.submit([copy])?;
        let reported = support::fault(fixture.stream.synchronize());
        assert_eq!(reported.kind, spyre_hal::BlockKind::CopyPeer);
        fixture.stream.reset()?;
        fixture.stream.launch(fixture.program)?;
        fixture.stream.synchronize()
    });
}

#[test]
fn out_of_memory_says_what_there_is() -> Result<(), Error> {
    let settings = Settings { budget: Arc::new(Budget::new(1 << 20)), ..Settings::default() };
    let context = Context::open_with(
        Arc::new(NullCard::new()),
        settings,
        SchedulerSettings::default(),
        Arc::new(Machine::default()),
    )?;
    let stream = context.stream(Priority::Low)?;
    let kept = stream.allocate(600_000)?;
    let error = stream.allocate(500_000).expect_err("there is no room");

    let region = 12_u64 << 30;
    let used = 600_064;
    assert_eq!(
        error.to_string(),
        format!(
            "out of device memory: 500000 bytes asked; {free} bytes free in {region} reserved, the \
             largest block {free}; {used} of 1048576 bytes committed. Free tensors, or raise \
             SPYRE_MEMORY_LIMIT",
            free = region - used
        )
    );
    let error = stream.allocate(u64::MAX).expect_err("no card has so much");
    assert!(matches!(error, Error::OutOfMemory { requested: u64::MAX, .. }), "{error}");
    assert_eq!(context.allocator().statistics().allocated_bytes, used);
    assert_eq!(context.scheduler().flight_record(), []);
    context.free(kept)?;
    stream.allocate(1 << 20).map(drop)
}

#[test]
fn a_callback_may_not_wait_for_its_card() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&card.stream())?;
        card.context.synchronize()?;
        let context = card.context.clone();
        let shared = Arc::new((card.stream(), Event::new()));
        let (sender, receiver) = mpsc::channel();
        let inner = Arc::clone(&shared);
        let gate = Arc::new(parking_lot::Mutex::new(()));
        let closed = gate.lock();
        let opened = Arc::clone(&gate);
        stream.host_callback(move || {
            drop(opened.lock());
            let (own, event) = &*inner;
            let results = vec![
                own.synchronize(),
                event.synchronize(),
                context.synchronize(),
                context.reset(),
                // Asking and submitting are allowed.
                own.query().map(drop),
                own.launch(program).map(drop),
            ];
            sender.send(results).map_err(|error| error.to_string())
        })?;
        // The callback blocks this stream, and these wait for it.
        let (own, event) = &*shared;
        let started = Event::new();
        stream.record(&started)?;
        own.wait(&started)?;
        own.record(event)?;
        drop(closed);

        let results = receiver.recv().expect("it is called");
        for result in &results[..3] {
            let error = result.clone().expect_err("it would wait for itself");
            assert!(matches!(error, Error::InsideCallback { .. }), "{error}");
        }
        assert_eq!(
            results[0].clone().map_err(|error| error.to_string()),
            Err(format!(
                "a host callback must not wait for stream {}: blocks behind the callback would \
                 never run",
                own.index().0
            ))
        );
        assert!(matches!(results[3], Err(Error::InsideCallback { .. })));
        assert_eq!(results[4..], [Ok(()), Ok(())]);
        card.context.synchronize()
    });
}
