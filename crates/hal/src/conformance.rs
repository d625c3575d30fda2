//! Tests of what every [`Hardware`] must do.
//!
//! Each case checks items of the contract on [`Hardware`], by their numbers; [`CASES`] lists them
//! all. One line runs them on a hardware, each as a test of its own:
//!
//! ```
//! # use std::sync::Arc;
//! use spyre_hal::{MemoryMode, ScriptedCard};
//!
//! spyre_hal::conformance!(scripted, || Arc::new(ScriptedCard::new(MemoryMode::Pf)));
//! # fn main() {}
//! ```
//!
//! A [`Subject`] says more about the hardware: that it keeps no data, or how programs come about
//! that hang. A case that needs what the hardware does not have is skipped, and says why.

mod abort;
mod completion;
mod copies;
mod device_loss;
mod driver;
mod fills;
mod model;
mod nests;
mod order;
mod peers;
mod programs;
mod protection;
mod recorder;
mod regions;
mod reset;
mod subject;
mod suite;
mod table;

use crate::EngineIndex;
#[cfg(doc)]
use crate::Hardware;
pub use driver::Driver;
pub use subject::{Ending, Subject};
pub use table::{CASES, Case, Needs};

/// Result of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The hardware did what it should.
    Passed,
    /// It lacks what the case needs, and this is what.
    Skipped(String),
}

/// The engine that every hardware has.
const FIRST: EngineIndex = EngineIndex(0);

/// Runs the case of that name on a hardware that `open` opens anew. Panics where the hardware does
/// not do what it should.
pub fn check(name: &str, open: &dyn Fn() -> Subject) -> Verdict {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let driver = Driver::new(open);
    if let Some(lack) = case.needs.lack(driver.subject()) {
        return Verdict::Skipped(lack);
    }
    (case.run)(&driver);
    driver.settle();
    Verdict::Passed
}

/// Like [`check`], as a test that prints why it was skipped.
#[expect(clippy::print_stdout, reason = "it is part of what a test says")]
pub fn test<S: Into<Subject>>(name: &str, open: impl Fn() -> S) {
    if let Verdict::Skipped(lack) = check(name, &|| open().into()) {
        println!("skipped: {lack}");
    }
}

/// Fails unless these are the names of all cases, in the table's order.
pub fn assert_complete(names: &[&str]) {
    let cases: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names, cases, "the macro lists what the table does");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::NullCard;

    #[test]
    fn every_item_of_the_contract_has_a_case() {
        for item in 1..=13 {
            assert!(CASES.iter().any(|case| case.contract.contains(&item)), "item {item} has none");
        }
    }

    #[test]
    fn every_case_names_items_of_the_contract() {
        for case in CASES {
            let is_known = case.contract.iter().all(|item| (1..=13).contains(item));
            assert!(is_known && !case.contract.is_empty(), "{}: {:?}", case.name, case.contract);
        }
    }

    #[test]
    fn a_case_that_needs_what_is_missing_says_so() {
        let null = || Subject::new(Arc::new(NullCard::new())).without_data();
        let skipped = |why: &str| Verdict::Skipped(why.to_owned());
        assert_eq!(check("a_region_reads_as_zero", &null), skipped("it keeps no data"));
        let lack = "it has 1 of the 2 engines";
        assert_eq!(check("a_report_names_its_engine", &null), skipped(lack));
        let lack = "it knows no program that ends like this: Hang";
        assert_eq!(check("an_abort_ends_a_hang", &null), skipped(lack));
    }

    #[test]
    #[should_panic(expected = "a_region_reads_as_zero: byte")]
    fn a_hardware_that_forgets_fails() {
        let null = || Subject::new(Arc::new(NullCard::new()));
        check("a_region_reads_as_zero", &null);
    }
}
