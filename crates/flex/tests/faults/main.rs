//! Faults after a block was queued: how far they reach, to whom they are reported, and how they
//! end.

mod device_loss;
mod hangs;
mod poison;
mod reports;
mod structural_faults;
#[path = "../support/mod.rs"]
mod support;

use spyre_hal::Fault;

fn data_fault() -> Fault {
    Fault::IndexOutOfRange { operand: 1, dimension: 0, index: 9, size: 3 }
}
