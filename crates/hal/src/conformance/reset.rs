//! Everything anew.

use std::thread;

use super::device_loss::assert_lost;
use super::driver::{assert_bytes, fill, from_device, launch};
use super::regions::take_all;
use super::{Driver, Ending, FIRST};
use crate::{HostBuffer, Token};

pub(super) fn a_reset_ends_what_hangs(driver: &Driver<'_>) {
    for _ in 0..10 {
        let program = driver.program(Ending::Hang, driver.region(8192), 0);
        let start = |engine| driver.start(engine, launch(program));
        let hung: Vec<Token> = driver.engines().map(start).collect();
        end_by_reset(driver, &hung);
    }
}

/// Resets until all hung blocks are reported. Where `start` waits, the test cannot know whether a
/// block has begun: one that comes after the reset needs another, and may find its program gone.
fn end_by_reset(driver: &Driver<'_>, hung: &[Token]) {
    let is_prompt = driver.hardware().description().is_prompt;
    let is_over = || hung.iter().all(|token| driver.is_reported(*token));
    driver.hardware().reset();
    while !is_prompt && !is_over() {
        thread::yield_now();
        driver.hardware().reset();
    }
    assert!(is_over(), "reset has returned");
    for outcome in hung.iter().map(|token| driver.wait(*token)) {
        if is_prompt { assert_lost(&outcome) } else { assert!(outcome.is_err()) }
    }
}

pub(super) fn an_engine_goes_on_after_a_reset_of_a_hang(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Hang, region, 0);
    let token = driver.start(FIRST, launch(program));
    end_by_reset(driver, &[token]);
    let buffer = HostBuffer::zeroed(64);
    let source = driver.range(driver.region(4096), 0, 64);
    assert_eq!(driver.run(FIRST, from_device(source, &buffer, None)), Ok(()));
    assert!(buffer.write().is_ok());
}

pub(super) fn a_reset_releases_all_regions(driver: &Driver<'_>) {
    let before = take_all(driver, 128).len();
    driver.hardware().reset();
    assert_eq!(take_all(driver, 128).len(), before);
}

pub(super) fn memory_reads_as_zero_after_a_reset(driver: &Driver<'_>) {
    for round in 0..4 {
        let regions: Vec<_> = (0..2).map(|_| driver.region(100_000)).collect();
        for region in regions {
            let range = driver.range(region, 0, 100_000);
            let found = driver.download(range);
            assert_bytes(&found, &vec![0; 100_000], &format!("life {round}"));
            driver.upload(range, &vec![0xff; 100_000]);
        }
        driver.hardware().reset();
    }
}

pub(super) fn a_reset_of_an_idle_device_leaves_it_usable(driver: &Driver<'_>) {
    for resets in [1, 2, 5] {
        (0..resets).for_each(|_| driver.hardware().reset());
        let range = driver.range(driver.region(4096), 0, 64);
        for engine in driver.engines() {
            assert_eq!(driver.run(engine, fill(&[1], range)), Ok(()));
        }
    }
}

pub(super) fn a_reset_reports_what_was_just_started(driver: &Driver<'_>) {
    for _ in 0..50 {
        let range = driver.range(driver.region(4096), 0, 4096);
        let start = |engine| driver.start(engine, fill(&[1], range));
        let tokens: Vec<Token> = driver.engines().map(start).collect();
        driver.hardware().reset();
        if driver.hardware().description().is_prompt {
            assert!(tokens.iter().all(|token| driver.is_reported(*token)), "reset has returned");
        }
        tokens.into_iter().for_each(|token| drop(driver.wait(token)));
    }
}

pub(super) fn a_reset_frees_the_buffers_of_what_was_just_started(driver: &Driver<'_>) {
    let buffer = HostBuffer::zeroed(4096);
    driver.watch(&buffer);
    for _ in 0..50 {
        let source = driver.range(driver.region(4096), 0, 4096);
        let token = driver.start(FIRST, from_device(source, &buffer, None));
        driver.hardware().reset();
        assert_eq!(driver.report(token).lent_buffers, 0, "the buffer was still lent");
    }
}

pub(super) fn what_was_started_before_a_reset_writes_nothing_after_it(driver: &Driver<'_>) {
    for _ in 0..50 {
        let range = driver.range(driver.region(4096), 0, 4096);
        let token = driver.start(FIRST, fill(&[0xff], range));
        driver.hardware().reset();
        let range = driver.range(driver.region(4096), 0, 4096);
        assert_bytes(&driver.download(range), &[0; 4096], "the new life");
        drop(driver.wait(token));
        assert_bytes(&driver.download(range), &[0; 4096], "the new life, later");
        driver.hardware().reset();
    }
}
