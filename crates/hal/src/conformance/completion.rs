//! Each block is reported once, and lets go of the host before.

use std::sync::Arc;

use super::driver::{fill, from_device, launch, on_device, to_device};
use super::{Driver, Ending, FIRST};
use crate::{ControlBlock, CopyPeer, CopyToDevice, DeviceRange, EngineIndex, HostBuffer, Token};

/// One block of every kind that a hardware is given, but for launches.
fn one_of_each(driver: &Driver<'_>, peer: &Driver<'_>) -> Vec<ControlBlock> {
    let region = driver.region(4096);
    let source = driver.range(region, 0, 64);
    let target = driver.range(region, 128, 64);
    let there = peer.range(peer.region(4096), 0, 64);
    let copy = CopyPeer { source, peer: peer.hardware().clone(), target: there };
    vec![
        to_device(vec![1; 64], source, None),
        from_device(source, &HostBuffer::zeroed(64), None),
        on_device(source, target, None),
        ControlBlock::CopyPeer(Box::new(copy)),
        fill(&[1, 2, 3], target),
    ]
}

/// Runs a block of each kind. `Driver::settle` checks after every case that each is reported exactly once.
pub(super) fn every_kind_of_block_is_reported_once(driver: &Driver<'_>) {
    let peer = driver.another();
    for engine in driver.engines() {
        for block in one_of_each(driver, &peer) {
            let kind = block.kind();
            assert_eq!(driver.run(engine, block), Ok(()), "{kind}");
        }
        driver.hardware().reset();
        peer.hardware().reset();
    }
}

pub(super) fn many_blocks_are_reported_once_each(driver: &Driver<'_>) {
    let range = driver.range(driver.region(4096), 0, 4096);
    for _ in 0..500 {
        let start = |engine| driver.start(engine, fill(&[1], range));
        let tokens: Vec<Token> = driver.engines().map(start).collect();
        tokens.into_iter().for_each(|token| assert_eq!(driver.wait(token), Ok(())));
    }
}

pub(super) fn a_report_names_its_engine(driver: &Driver<'_>) {
    let range = driver.range(driver.region(4096), 0, 4096);
    for _ in 0..50 {
        let start = |engine| (engine, driver.start(engine, fill(&[1], range)));
        let started: Vec<(EngineIndex, Token)> = driver.engines().map(start).collect();
        for (engine, token) in started.into_iter().rev() {
            assert_eq!(driver.report(token).engine, engine);
        }
    }
}

pub(super) fn a_source_is_free_when_its_copy_is_reported(driver: &Driver<'_>) {
    let target = driver.range(driver.region(4096), 0, 4096);
    let buffer = HostBuffer::zeroed(4096);
    driver.watch(&buffer);
    for _ in 0..50 {
        let token = driver.start(FIRST, lent_to_device(&buffer, target));
        assert_eq!(driver.report(token).lent_buffers, 0, "the source was still lent");
    }
}

pub(super) fn a_target_is_free_when_its_copy_is_reported(driver: &Driver<'_>) {
    let source = driver.range(driver.region(4096), 0, 4096);
    let buffer = HostBuffer::zeroed(4096);
    driver.watch(&buffer);
    for _ in 0..50 {
        let token = driver.start(FIRST, from_device(source, &buffer, None));
        assert_eq!(driver.report(token).lent_buffers, 0, "the target was still lent");
    }
}

pub(super) fn a_peer_is_let_go_when_its_copy_is_reported(driver: &Driver<'_>) {
    let peer = driver.another();
    let source = driver.range(driver.region(4096), 0, 64);
    let target = peer.range(peer.region(4096), 0, 64);
    let owners = Arc::strong_count(peer.hardware());
    for _ in 0..50 {
        let copy = CopyPeer { source, peer: peer.hardware().clone(), target };
        assert_eq!(driver.run(FIRST, ControlBlock::CopyPeer(Box::new(copy))), Ok(()));
        assert_eq!(Arc::strong_count(peer.hardware()), owners, "the peer was still held");
    }
}

pub(super) fn a_block_that_a_lost_device_refuses_is_let_go(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Lose, region, 0);
    let buffer = HostBuffer::zeroed(64);
    driver.watch(&buffer);
    assert!(driver.run(FIRST, launch(program)).is_err());
    let range = driver.range(region, 4096, 64);
    for block in [lent_to_device(&buffer, range), from_device(range, &HostBuffer::zeroed(64), None)]
    {
        let token = driver.start(FIRST, block);
        assert!(driver.wait(token).is_err());
        assert_eq!(driver.report(token).lent_buffers, 0, "the buffer was still lent");
    }
}

fn lent_to_device(buffer: &HostBuffer, target: DeviceRange) -> ControlBlock {
    let source = buffer.lend_to_read().expect("it is not lent");
    ControlBlock::CopyToDevice(Box::new(CopyToDevice { source, target, nest: None }))
}

pub(super) fn a_start_does_not_wait_for_a_hang(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Hang, region, 0);
    for engine in driver.engines() {
        let token = driver.start_promptly(engine, launch(program));
        assert!(!driver.is_reported(token));
        assert!(driver.abort(engine, token).is_err());
    }
}

pub(super) fn a_description_stays_the_same(driver: &Driver<'_>) {
    let before = driver.hardware().description();
    assert!(before.engines > 0 && !before.name.is_empty(), "{before:?}");
    let range = driver.range(driver.region(128), 0, 128);
    assert_eq!(driver.run(FIRST, fill(&[1], range)), Ok(()));
    driver.hardware().reset();
    assert_eq!(driver.hardware().description(), before);
}

pub(super) fn another_runtime_can_take_over(driver: &Driver<'_>) {
    let range = driver.range(driver.region(4096), 0, 64);
    assert_eq!(driver.run(FIRST, fill(&[1], range)), Ok(()));
    let second = driver.take_over();
    assert_eq!(second.run(FIRST, fill(&[2], range)), Ok(()));
    second.settle();
}
