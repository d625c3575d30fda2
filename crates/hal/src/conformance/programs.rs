//! Launches of what lies in memory, whatever it is.

use super::driver::{assert_bytes, fill, launch};
use super::{Driver, Ending, FIRST};
use crate::random::Random;
use crate::{Fault, Outcome, Region};

const BYTES: u64 = 70_000;

/// The program was bad, the device is not.
fn assert_refused(outcome: &Outcome, what: &str) {
    let is_fault = matches!(outcome, Err(fault) if !matches!(fault, Fault::DeviceLost { .. }));
    assert!(is_fault, "{what} ended with {outcome:?}");
}

fn assert_works(driver: &Driver<'_>, region: Region) {
    let range = driver.range(region, BYTES - 64, 64);
    assert_eq!(driver.run(FIRST, fill(&[9], range)), Ok(()));
    assert_bytes(&driver.download(range), &[9; 64], "after a bad program");
}

pub(super) fn zeros_are_no_program(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let outcome = driver.run(FIRST, launch(driver.handle(region, 0)));
    assert_refused(&outcome, "zeros");
    assert_works(driver, region);
}

pub(super) fn one_byte_again_and_again_is_no_program(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    for byte in 0..=u8::MAX {
        let range = driver.range(region, 0, 4096);
        assert_eq!(driver.run(FIRST, fill(&[byte], range)), Ok(()));
        assert_refused(&driver.run(FIRST, launch(range.handle)), &format!("bytes of {byte:#04x}"));
    }
    assert_works(driver, region);
}

pub(super) fn random_bytes_are_no_program(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let mut random = Random::new(51);
    for round in 0..300 {
        let length = 1 + random.below(8192) as usize;
        let offset = random.below(400) * 128;
        driver.upload(driver.range(region, offset, length as u64), &random.bytes(length));
        let outcome = driver.run(FIRST, launch(driver.handle(region, offset)));
        assert_refused(&outcome, &format!("random program {round}"));
    }
    assert_works(driver, region);
}

pub(super) fn a_program_cut_off_by_its_region_is_none(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    driver.upload(driver.range(region, 0, BYTES), &Random::new(52).bytes(BYTES as usize));
    for missing in [1, 2, 8, 15, 64, 128] {
        let outcome = driver.run(FIRST, launch(driver.handle(region, BYTES - missing)));
        assert_refused(&outcome, &format!("the last {missing} bytes"));
    }
    assert_works(driver, region);
}

pub(super) fn bad_programs_leave_memory_alone(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let other = driver.region(BYTES);
    let bytes = Random::new(53).bytes(BYTES as usize);
    driver.upload(driver.range(region, 0, BYTES), &bytes);
    driver.upload(driver.range(other, 0, BYTES), &bytes);
    for place in 0..300 {
        let outcome = driver.run(FIRST, launch(driver.handle(region, place * 128)));
        assert_refused(&outcome, &format!("random bytes at {}", place * 128));
    }
    assert_bytes(&driver.download(driver.range(region, 0, BYTES)), &bytes, "its own region");
    assert_bytes(&driver.download(driver.range(other, 0, BYTES)), &bytes, "another region");
}

pub(super) fn a_bad_program_is_refused_on_every_engine(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    for engine in driver.engines() {
        let outcome = driver.run(engine, launch(driver.handle(region, 128)));
        assert_refused(&outcome, &format!("zeros on {engine:?}"));
        let range = driver.range(region, 4096, 64);
        assert_eq!(driver.run(engine, fill(&[1], range)), Ok(()));
    }
}

pub(super) fn a_good_program_ends_well(driver: &Driver<'_>) {
    let program = driver.program(Ending::Well, driver.region(BYTES), 1280);
    for engine in driver.engines().cycle().take(20) {
        assert_eq!(driver.run(engine, launch(program)), Ok(()));
    }
}

pub(super) fn an_engine_goes_on_after_a_fault(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let bad = driver.program(Ending::Fault, region, 0);
    let good = driver.program(Ending::Well, region, 32_768);
    for engine in driver.engines().cycle().take(20) {
        assert_refused(&driver.run(engine, launch(bad)), "a program that fails");
        assert_eq!(driver.run(engine, launch(good)), Ok(()));
    }
}
