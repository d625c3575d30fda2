//! Many seeds of the whole runtime; and proof that the oracle would notice.

use spyre_simulation::{FaultPlan, Promise, Report, Sabotage, Settings, Violation, simulate};

/// All seeds together, or the first that broke a promise.
fn run(seeds: impl Iterator<Item = u64>, operations: u64) -> Result<Report, Box<Violation>> {
    let mut report = Report::default();
    for seed in seeds {
        report += simulate(&Settings::of_seed(seed, operations))?.report;
    }
    Ok(report)
}

#[test]
fn no_promise_is_broken_in_the_first_hundred_seeds() -> Result<(), Box<Violation>> {
    let report = run(1..=100, 10_000)?;
    assert_eq!(report.operations, 1_000_000);
    assert!(report.faults > 2000 && report.reported > 2000, "{report:?}");
    assert!(report.resets > 100 && report.losses > 20 && report.hangs > 100, "{report:?}");
    assert!(report.reused > 1000 && report.compared_bytes > 100_000, "{report:?}");
    assert!(report.poisoned > 10_000, "{report:?}");
    Ok(())
}

#[test]
fn no_promise_is_broken_in_the_next_hundred_seeds() -> Result<(), Box<Violation>> {
    assert_eq!(run(101..=200, 10_000)?.operations, 1_000_000);
    Ok(())
}

#[test]
fn no_promise_is_broken_where_faults_are_common() -> Result<(), Box<Violation>> {
    let mut report = Report::default();
    for seed in 1000..1060 {
        let settings = Settings::of_seed(seed, 3000).with_faults(FaultPlan::stormy());
        report += simulate(&settings)?.report;
    }
    assert!(report.faults > 2000 && report.resets > 50, "{report:?}");
    Ok(())
}

#[test]
fn a_seed_gives_the_same_run_again() -> Result<(), Box<Violation>> {
    for seed in 0..40 {
        let settings = Settings::of_seed(seed, 2000);
        assert_eq!(simulate(&settings)?, simulate(&settings)?, "seed {seed}");
    }
    Ok(())
}

#[test]
fn seeds_differ() -> Result<(), Box<Violation>> {
    let [one, two] = [1, 2].map(|seed| simulate(&Settings::of_seed(seed, 500)));
    assert_ne!(one?.fingerprint, two?.fingerprint);
    Ok(())
}

/// Promises that the oracle finds broken in several runs with a defect.
fn found(sabotage: Sabotage) -> Vec<Promise> {
    let runs = (0..20).map(|seed| simulate(&Settings::of_seed(seed, 3000).sabotaged(sabotage)));
    runs.filter_map(|run| run.err().map(|violation| violation.promise)).collect()
}

#[test]
fn a_block_that_is_reported_twice_is_noticed() {
    assert!(found(Sabotage::ReportTwice).contains(&Promise::InOrder));
}

#[test]
fn a_block_that_is_forgotten_is_noticed() {
    assert!(!found(Sabotage::Forget).is_empty());
}

#[test]
fn a_fault_that_is_hidden_is_noticed() {
    assert!(found(Sabotage::HideFault).contains(&Promise::RightFault));
}

#[test]
fn a_wrong_byte_is_noticed() {
    assert!(found(Sabotage::WrongByte).contains(&Promise::RightBytes));
}

#[test]
fn blocks_out_of_order_are_noticed() {
    assert!(found(Sabotage::SwapOrder).contains(&Promise::InOrder));
}

#[test]
fn memory_that_is_given_out_too_early_is_noticed() {
    assert!(found(Sabotage::ReuseEarly).contains(&Promise::NoUseAfterFree));
}

#[test]
fn poisoned_memory_that_is_read_is_noticed() {
    assert!(found(Sabotage::ReadPoisoned).contains(&Promise::NoSilentResult));
}

#[test]
fn a_violation_names_its_seed_and_shows_what_happened() {
    let settings = Settings::of_seed(3, 3000).sabotaged(Sabotage::HideFault);
    let violation = simulate(&settings).expect_err("a fault is hidden");
    assert_eq!(violation.seed, 3);
    assert!(!violation.tail.is_empty());
    assert!(violation.to_string().contains("seed 3, after "), "{violation}");
}
