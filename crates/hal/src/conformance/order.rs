//! Effects of a block are visible to those that start after it.

use super::driver::{assert_bytes, fill, from_device, on_device, to_device};
use super::model::Model;
use super::{Driver, FIRST};
use crate::random::Random;
use crate::{EngineIndex, HostBuffer, Token};

/// Writes, copies along `steps` regions and reads, each on the engine that `pick` says.
fn chain(driver: &Driver<'_>, steps: usize, pick: impl Fn(usize) -> EngineIndex) {
    let bytes = Random::new(31).bytes(70_000);
    let region = driver.region(70_000 * steps as u64);
    let at = |step: usize| driver.range(region, 70_000 * step as u64, 70_000);
    assert_eq!(driver.run(pick(0), to_device(bytes.clone(), at(0), None)), Ok(()));
    for step in 1..steps {
        assert_eq!(driver.run(pick(step), on_device(at(step - 1), at(step), None)), Ok(()));
    }
    let host = HostBuffer::zeroed(70_000);
    assert_eq!(driver.run(pick(steps), from_device(at(steps - 1), &host, None)), Ok(()));
    assert_bytes(&host.read().expect("it has ended"), &bytes, "the end of the chain");
}

pub(super) fn a_chain_of_copies_carries_bytes_along(driver: &Driver<'_>) {
    chain(driver, 20, |_| FIRST);
}

pub(super) fn a_chain_goes_on_across_engines(driver: &Driver<'_>) {
    let engines: Vec<EngineIndex> = driver.engines().collect();
    chain(driver, 20, |step| engines[step % engines.len()]);
}

pub(super) fn the_last_of_many_writes_stays(driver: &Driver<'_>) {
    let engines: Vec<EngineIndex> = driver.engines().collect();
    let range = driver.range(driver.region(5000), 0, 5000);
    for round in 0..100 {
        let engine = engines[round % engines.len()];
        assert_eq!(driver.run(engine, fill(&[round as u8], range)), Ok(()));
        let found = driver.download(range);
        assert_bytes(&found, &[round as u8; 5000], &format!("round {round}"));
    }
}

pub(super) fn engines_write_side_by_side(driver: &Driver<'_>) {
    let region = driver.region(1 << 20);
    let strip = |engine: EngineIndex| driver.range(region, u64::from(engine.0) * 1001, 1001);
    for round in 0..20u16 {
        let byte = |engine: EngineIndex| (round * 7 + engine.0 + 1) as u8;
        let tokens: Vec<Token> = driver
            .engines()
            .map(|engine| driver.start(engine, fill(&[byte(engine)], strip(engine))))
            .collect();
        tokens.into_iter().for_each(|token| assert_eq!(driver.wait(token), Ok(())));
        for engine in driver.engines() {
            let expected = [byte(engine); 1001];
            assert_bytes(&driver.download(strip(engine)), &expected, &format!("{engine:?}"));
        }
    }
}

pub(super) fn thousands_of_random_blocks_do_as_a_model(driver: &Driver<'_>) {
    let engines: Vec<EngineIndex> = driver.engines().collect();
    let mut model = Model::new(driver, 41);
    let mut random = Random::new(42);
    for _ in 0..4000 {
        let engine = engines[random.below(engines.len() as u64) as usize];
        assert_eq!(driver.run(engine, model.next()), Ok(()));
        model.check();
    }
    model.check_all();
}

pub(super) fn random_blocks_on_all_engines_do_as_models(driver: &Driver<'_>) {
    let engines: Vec<EngineIndex> = driver.engines().collect();
    let mut models: Vec<Model<'_>> =
        engines.iter().map(|engine| Model::new(driver, u64::from(engine.0))).collect();
    for _ in 0..800 {
        let blocks = engines.iter().zip(&mut models);
        let tokens: Vec<Token> =
            blocks.map(|(engine, model)| driver.start(*engine, model.next())).collect();
        tokens.into_iter().for_each(|token| assert_eq!(driver.wait(token), Ok(())));
        models.iter_mut().for_each(Model::check);
    }
    models.iter().for_each(Model::check_all);
}
