//! Copies from one card to another.

use super::copies::{assert_only, zone};
use super::driver::assert_bytes;
use super::{Driver, FIRST};
use crate::random::Random;
use crate::{ControlBlock, CopyPeer, DeviceRange, EngineIndex, Outcome};

fn send(
    from: &Driver<'_>,
    engine: EngineIndex,
    source: DeviceRange,
    to: &Driver<'_>,
    target: DeviceRange,
) -> Outcome {
    let copy = CopyPeer { source, peer: to.hardware().clone(), target };
    from.run(engine, ControlBlock::CopyPeer(Box::new(copy)))
}

pub(super) fn a_copy_to_a_peer_arrives(driver: &Driver<'_>) {
    let peer = driver.another();
    let bytes = Random::new(61).bytes(150_000);
    let source = driver.range(driver.region(150_000), 0, 150_000);
    let target = peer.range(peer.region(150_000), 0, 150_000);
    driver.upload(source, &bytes);
    for engine in driver.engines() {
        assert_eq!(send(driver, engine, source, &peer, target), Ok(()));
        assert_bytes(&peer.download(target), &bytes, "on the other card");
        assert_bytes(&driver.download(source), &bytes, "on this card");
    }
}

pub(super) fn a_copy_to_a_peer_leaves_its_neighbours(driver: &Driver<'_>) {
    let peer = driver.another();
    let region = driver.region(150_000);
    let all = Random::new(62).bytes(150_000);
    driver.upload(driver.range(region, 0, 150_000), &all);
    for (from, to, bytes) in [(0, 0, 1), (3, 77, 5), (1, 65_535, 2), (11, 4095, 100_001)] {
        let there = zone(&peer);
        let source = driver.range(region, from, bytes);
        let target = peer.range(there, to, bytes);
        assert_eq!(send(driver, FIRST, source, &peer, target), Ok(()));
        assert_only(&peer, there, to, &all[from as usize..][..bytes as usize]);
        peer.hardware().release(there.id);
    }
    assert_bytes(&driver.download(driver.range(region, 0, 150_000)), &all, "the source");
}

pub(super) fn bytes_go_to_a_peer_and_back(driver: &Driver<'_>) {
    let peer = driver.another();
    let bytes = Random::new(63).bytes(4099);
    let region = driver.region(10_000);
    let there = peer.range(peer.region(10_000), 5, 4099);
    let source = driver.range(region, 0, 4099);
    let target = driver.range(region, 5000, 4099);
    driver.upload(source, &bytes);
    assert_eq!(send(driver, FIRST, source, &peer, there), Ok(()));
    assert_eq!(send(&peer, FIRST, there, driver, target), Ok(()));
    assert_bytes(&driver.download(target), &bytes, "there and back");
}

pub(super) fn what_a_card_accepts_is_there_for_its_next_block(driver: &Driver<'_>) {
    let region = zone(driver);
    for (offset, bytes) in [(0, 1), (129, 1000), (65_000, 70_000)] {
        let target = driver.range(region, offset, bytes);
        let zone = vec![0xa5; bytes as usize];
        let bytes = Random::new(offset).bytes(bytes as usize);
        assert_eq!(driver.hardware().accept(target, &bytes), Ok(()));
        assert_only(driver, region, offset, &bytes);
        driver.upload(target, &zone);
    }
}

pub(super) fn two_cards_can_copy_to_each_other(driver: &Driver<'_>) {
    let peer = driver.another();
    let here = driver.region(8192);
    let there = peer.region(8192);
    for _ in 0..100 {
        let copy = |from: &Driver<'_>, to: &Driver<'_>, source, target| {
            let peer = to.hardware().clone();
            let source = from.range(source, 0, 64);
            let target = to.range(target, 4096, 64);
            from.start(FIRST, ControlBlock::CopyPeer(Box::new(CopyPeer { source, peer, target })))
        };
        let out = copy(driver, &peer, here, there);
        let back = copy(&peer, driver, there, here);
        assert_eq!((driver.wait(out), peer.wait(back)), (Ok(()), Ok(())));
    }
    peer.settle();
}
