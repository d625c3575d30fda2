//! A device that is gone.

use super::driver::{fill, from_device, launch, on_device, to_device};
use super::{Driver, Ending, FIRST};
use crate::{ControlBlock, CopyPeer, EngineIndex, Fault, HostBuffer, Outcome, Region, Token};

pub(super) fn assert_lost(outcome: &Outcome) {
    assert!(matches!(outcome, Err(Fault::DeviceLost { .. })), "it ended with {outcome:?}");
}

/// Loses the device, and gives the region that the program was in.
fn lose(driver: &Driver<'_>) -> Region {
    let region = driver.region(8192);
    let program = driver.program(Ending::Lose, region, 0);
    assert_lost(&driver.run(FIRST, launch(program)));
    region
}

pub(super) fn a_lost_device_fails_every_block(driver: &Driver<'_>) {
    let region = lose(driver);
    let source = driver.range(region, 4096, 64);
    let target = driver.range(region, 5000, 64);
    for engine in driver.engines() {
        for block in [
            to_device(vec![1; 64], target, None),
            from_device(source, &HostBuffer::zeroed(64), None),
            on_device(source, target, None),
            fill(&[1], target),
            launch(driver.handle(region, 0)),
        ] {
            assert_lost(&driver.run(engine, block));
        }
    }
}

pub(super) fn a_lost_device_ends_what_hangs(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let hang = driver.program(Ending::Hang, region, 0);
    let lose = driver.program(Ending::Lose, region, 4096);
    let hung: Vec<_> =
        driver.engines().skip(1).map(|engine| driver.start(engine, launch(hang))).collect();
    assert_lost(&driver.run(FIRST, launch(lose)));
    hung.into_iter().for_each(|token| assert_lost(&driver.wait(token)));
}

pub(super) fn an_abort_on_a_lost_device_does_nothing(driver: &Driver<'_>) {
    let region = lose(driver);
    driver.engines().for_each(|engine| driver.hardware().abort(engine, Token(0)));
    assert_lost(&driver.run(FIRST, fill(&[1], driver.range(region, 4096, 64))));
}

pub(super) fn a_reset_brings_a_lost_device_back(driver: &Driver<'_>) {
    for _ in 0..3 {
        lose(driver);
        driver.hardware().reset();
        let range = driver.range(driver.region(4096), 0, 64);
        for engine in driver.engines() {
            assert_eq!(driver.run(engine, fill(&[1], range)), Ok(()));
        }
        driver.hardware().reset();
    }
}

/// The other card is lost, not the one that carries the copy out.
pub(super) fn a_lost_peer_fails_the_copy_only(driver: &Driver<'_>) {
    let peer = driver.another();
    let target = peer.range(lose(&peer), 4096, 64);
    let source = driver.range(driver.region(4096), 0, 64);
    let copy = CopyPeer { source, peer: peer.hardware().clone(), target };
    let outcome = driver.run(FIRST, ControlBlock::CopyPeer(Box::new(copy)));
    assert!(!matches!(outcome, Err(Fault::DeviceLost { .. })), "{outcome:?}");
    assert!(outcome.is_err(), "a lost card took bytes");
    let last: EngineIndex = driver.engines().last().expect("there is one");
    assert_eq!(driver.run(last, fill(&[1], source)), Ok(()));
}
