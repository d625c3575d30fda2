//! What goes wrong after a block was queued: how far it reaches, who is told, and how it ends.

mod hung;
mod lost;
mod poison;
mod structural;
#[path = "../support/mod.rs"]
mod support;
mod told;

use spyre_hal::Fault;

fn data_fault() -> Fault {
    Fault::IndexOutOfRange { operand: 1, dimension: 0, index: 9, size: 3 }
}
