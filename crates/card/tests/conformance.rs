//! The conformance suite, on every make of the software card.

use std::sync::Arc;

use spyre_card::{SoftwareCard, Threads};
use spyre_hal::{Late, MemoryMode};

fn pf() -> SoftwareCard {
    SoftwareCard::new(MemoryMode::Pf)
}

fn vf(engines: u16) -> SoftwareCard {
    SoftwareCard::new(MemoryMode::Vf).with_engines(engines)
}

fn guarded() -> SoftwareCard {
    vf(4).guarded().with_threads(Threads::new(3))
}

spyre_hal::conformance!(software_pf, || Arc::new(pf()));
spyre_hal::conformance!(software_vf, || Arc::new(vf(1)));
spyre_hal::conformance!(software_of_4_engines, || Arc::new(vf(4)));
spyre_hal::conformance!(software_guarded, || Arc::new(guarded()));
spyre_hal::conformance!(software_guarded_pf, || Arc::new(pf().guarded()));
spyre_hal::conformance!(late_software, || Arc::new(Late::new(pf(), 7)));
spyre_hal::conformance!(late_software_of_4_engines, || Arc::new(Late::new(vf(4), 7)));
spyre_hal::conformance!(late_guarded, || Arc::new(Late::new(guarded(), 7)));
