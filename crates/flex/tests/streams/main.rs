//! Guarantees of streams: the data arrives, in order, and nothing else happens.

mod bounds;
mod checked_operands;
mod compositions;
mod data;
mod lifetimes;
mod order;
mod records;
mod run;
#[path = "../support/mod.rs"]
mod support;

use spyre_hal::{ControlBlock, CopyDevice, DeviceHandle, DeviceRange, Label, Pattern};

fn copy(source: DeviceRange, target: DeviceRange) -> ControlBlock {
    ControlBlock::CopyDevice(Box::new(CopyDevice { source, target, nest: None }))
}

fn fill(target: DeviceRange, byte: u8) -> ControlBlock {
    ControlBlock::Fill { pattern: Pattern::from(byte), target }
}

fn launch(program: DeviceHandle) -> ControlBlock {
    ControlBlock::launch(program, Label::default())
}
