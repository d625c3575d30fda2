//! Data arrives by every way, and buffers come back.

use std::sync::Arc;

use spyre_flex::{Error, Policy, Priority};
use spyre_hal::{BlockKind, DeviceRange, HostBuffer, Pattern, Trigger};
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat;

use crate::support::{Stepped, on_each_card, read, whole};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
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
        let row = 1;
        let column = 70;
        let place = ((column / 64) * 3 + row) * 64 + column % 64;
        assert_eq!(halves[place * 2..][..2], 0x5950_u16.to_le_bytes());
        Ok(())
    });
}

#[test]
fn a_host_buffer_is_back_exactly_when_its_copy_is_done() -> Result<(), Error> {
    let stepped = Stepped::open(Policy::RoundRobin);
    let stream = stepped.stream(Priority::Low);
    let range = whole(stream.allocate(4)?, 4);
    let source = HostBuffer::from(vec![1, 2, 3, 4]);
    let target = HostBuffer::zeroed(4);

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
        let failed = HostBuffer::zeroed(4);
        let cancelled = HostBuffer::zeroed(4);
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
