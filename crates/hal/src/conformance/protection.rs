//! Memory that holds programs, and who may write it.

use super::driver::{assert_bytes, fill, launch, on_device, to_device};
use super::{Driver, Ending, FIRST};
use crate::random::Random;
use crate::{DeviceRange, Fault, Outcome, Region};

const BYTES: u64 = 16_384;
/// Bounds of the protected part of a region.
const START: u64 = 4096;
const END: u64 = 8192;

fn assert_protected(outcome: &Outcome, what: &str) {
    let is_refused = matches!(outcome, Err(Fault::Protected { .. } | Fault::CopyFailed { .. }));
    assert!(is_refused, "{what} ended with {outcome:?}");
}

fn protected(driver: &Driver<'_>) -> Region {
    let region = driver.region(BYTES);
    driver.hardware().protect(region.id, START, END - START);
    region
}

/// Ranges of as many bytes that touch what is protected, and some that do not.
fn ranges(driver: &Driver<'_>, region: Region) -> ([DeviceRange; 4], [DeviceRange; 2]) {
    let range = |offset| driver.range(region, offset, 256);
    ([START, END - 256, START - 255, END - 1].map(range), [START - 256, END].map(range))
}

pub(super) fn programs_are_written_by_copies_to_the_device(driver: &Driver<'_>) {
    let region = protected(driver);
    let bytes = Random::new(61).bytes(BYTES as usize);
    driver.upload(driver.range(region, 0, BYTES), &bytes);
    driver.upload(driver.range(region, START + 100, 7), &bytes[START as usize + 100..][..7]);
    assert_bytes(&driver.download(driver.range(region, 0, BYTES)), &bytes, "all of it");
}

pub(super) fn nothing_else_writes_where_programs_are(driver: &Driver<'_>) {
    let region = protected(driver);
    let mut bytes = Random::new(62).bytes(BYTES as usize);
    driver.upload(driver.range(region, 0, BYTES), &bytes);
    let (inside, outside) = ranges(driver, region);
    let source = driver.range(region, 1024, 256);
    for target in inside {
        assert_protected(&driver.run(FIRST, fill(&[1, 2], target)), "a fill");
        assert_protected(&driver.run(FIRST, on_device(source, target, None)), "a copy");
        assert_protected(&driver.hardware().accept(target, &[3; 256]), "bytes of a peer");
    }
    for target in outside {
        assert_eq!(driver.run(FIRST, fill(&[7], target)), Ok(()));
        bytes[target.offset as usize..][..256].fill(7);
    }
    assert_bytes(&driver.download(driver.range(region, 0, BYTES)), &bytes, "all of it");
}

pub(super) fn what_is_no_longer_protected_is_plain_memory(driver: &Driver<'_>) {
    let region = protected(driver);
    driver.hardware().unprotect(region.id, START, END - START);
    let range = driver.range(region, START, END - START);
    assert_eq!(driver.run(FIRST, fill(&[5], range)), Ok(()));
    assert_bytes(&driver.download(range), &[5; (END - START) as usize], "a fill");
}

pub(super) fn a_region_that_is_acquired_again_holds_no_programs(driver: &Driver<'_>) {
    let region = protected(driver);
    driver.hardware().release(region.id);
    let region = driver.region(BYTES);
    assert_eq!(driver.run(FIRST, fill(&[5], driver.range(region, 0, BYTES))), Ok(()));
}

pub(super) fn a_reset_ends_all_protection(driver: &Driver<'_>) {
    protected(driver);
    driver.hardware().reset();
    let region = driver.region(BYTES);
    assert_eq!(driver.run(FIRST, fill(&[5], driver.range(region, 0, BYTES))), Ok(()));
}

pub(super) fn a_launch_from_plain_memory_is_refused(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let handle = driver.handle(region, START);
    let bytes = driver.subject().program(Ending::Well, handle);
    let range = DeviceRange::start_of(handle, bytes.len() as u64);
    driver.upload(range, &bytes);
    let outcome = driver.run(FIRST, launch(handle));
    assert!(matches!(outcome, Err(Fault::BadProgram { .. })), "it ended with {outcome:?}");

    driver.hardware().protect(region.id, START, range.bytes.next_multiple_of(128));
    assert_eq!(driver.run(FIRST, launch(handle)), Ok(()), "it is the same program");
}

pub(super) fn a_launch_runs_what_was_copied_last(driver: &Driver<'_>) {
    let region = protected(driver);
    let handle = driver.handle(region, START);
    for round in 0..20 {
        let ending = if round % 2 == 0 { Ending::Well } else { Ending::Fault };
        let bytes = driver.subject().program(ending, handle);
        let target = DeviceRange::start_of(handle, bytes.len() as u64);
        assert_eq!(driver.run(FIRST, to_device(bytes, target, None)), Ok(()));
        for engine in driver.engines() {
            let outcome = driver.run(engine, launch(handle));
            assert_eq!(outcome.is_ok(), ending == Ending::Well, "{ending:?}: {outcome:?}");
        }
    }
}
