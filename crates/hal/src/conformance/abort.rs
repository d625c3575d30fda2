//! Blocks that hang, and how they are ended.

use std::thread;

use super::driver::{fill, launch};
use super::{Driver, Ending, FIRST};
use crate::{EngineIndex, Fault, Outcome, Token};

fn assert_hung(outcome: &Outcome) {
    assert!(matches!(outcome, Err(Fault::Hung { .. })), "it ended with {outcome:?}");
}

pub(super) fn an_abort_with_nothing_running_does_nothing(driver: &Driver<'_>) {
    let range = driver.range(driver.region(4096), 0, 4096);
    for _ in 0..20 {
        for engine in driver.engines() {
            driver.hardware().abort(engine, Token(0));
            let token = driver.start(engine, fill(&[1], range));
            assert_eq!(driver.wait(token), Ok(()));
            driver.hardware().abort(engine, token);
        }
    }
}

pub(super) fn an_abort_ends_a_hang(driver: &Driver<'_>) {
    let program = driver.program(Ending::Hang, driver.region(8192), 0);
    for engine in driver.engines() {
        let token = driver.start(engine, launch(program));
        assert_hung(&driver.abort(engine, token));
    }
}

pub(super) fn an_engine_goes_on_after_an_abort(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Hang, region, 0);
    for _ in 0..20 {
        let token = driver.start(FIRST, launch(program));
        assert_hung(&driver.abort(FIRST, token));
        assert_eq!(driver.run(FIRST, fill(&[1], driver.range(region, 4096, 128))), Ok(()));
    }
}

pub(super) fn a_second_abort_reports_nothing(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Hang, region, 0);
    let token = driver.start(FIRST, launch(program));
    driver.hardware().abort(FIRST, token);
    assert_hung(&driver.abort(FIRST, token));
    driver.hardware().abort(FIRST, token);
    assert_eq!(driver.run(FIRST, fill(&[1], driver.range(region, 4096, 128))), Ok(()));
}

pub(super) fn an_abort_that_comes_late_spares_the_next_block(driver: &Driver<'_>) {
    let program = driver.program(Ending::Hang, driver.region(8192), 0);
    let first = driver.start(FIRST, launch(program));
    assert_hung(&driver.abort(FIRST, first));
    let second = driver.start(FIRST, launch(program));
    for _ in 0..200 {
        driver.hardware().abort(FIRST, first);
        thread::yield_now();
    }
    assert!(!driver.is_reported(second), "it was not meant");
    assert_hung(&driver.abort(FIRST, second));
}

pub(super) fn a_hang_on_one_engine_leaves_the_others_running(driver: &Driver<'_>) {
    let region = driver.region(8192);
    let program = driver.program(Ending::Hang, region, 0);
    let range = driver.range(region, 4096, 128);
    for hung in driver.engines() {
        let token = driver.start(hung, launch(program));
        for engine in driver.engines().filter(|engine| *engine != hung) {
            assert_eq!(driver.run(engine, fill(&[1, 2], range)), Ok(()), "while {hung:?} hangs");
        }
        assert!(!driver.is_reported(token));
        assert_hung(&driver.abort(hung, token));
    }
}

pub(super) fn an_abort_ends_its_own_engine_only(driver: &Driver<'_>) {
    let program = driver.program(Ending::Hang, driver.region(8192), 0);
    let start = |engine| (engine, driver.start(engine, launch(program)));
    let hung: Vec<(EngineIndex, Token)> = driver.engines().map(start).collect();
    for (at, (engine, token)) in hung.iter().enumerate() {
        assert_hung(&driver.abort(*engine, *token));
        let others = hung[at + 1..].iter();
        assert!(others.into_iter().all(|(_, token)| !driver.is_reported(*token)));
    }
}
