//! The runtime next to the device: memory, streams, events and the scheduler.
//!
//! Above [`spyre_hal`]. A [`Context`] is an opened card. Its [`FlexStream`]s queue control blocks and
//! return at once; the [`Scheduler`] starts them on the device, one after another within a stream,
//! and in any order across streams but where an [`Event`] says otherwise. Its [`FlexAllocator`]
//! carves 128-byte blocks from the card's regions and gives them out as [`DeviceHandle`]s. It knows
//! the last use of every block in every stream, so that memory is never given out again while a
//! queued block may still touch it: no call is needed for that.
//!
//! ```
//! use std::sync::Arc;
//! use spyre_flex::{Context, Priority};
//! use spyre_hal::{DeviceRange, HostBuffer, MemoryMode, ScriptedCard};
//!
//! let context = Context::open(Arc::new(ScriptedCard::new(MemoryMode::Vf)))?;
//! let stream = context.stream(Priority::Low)?;
//! let memory = stream.allocate(1000)?;
//! let range = DeviceRange::start_of(memory, 1000);
//!
//! stream.copy_to_device(vec![7; 1000], range)?;
//! let host = HostBuffer::zeroed(1000);
//! stream.copy_from_device(range, &host)?;
//! context.free(memory)?; // what is queued still has it
//! stream.synchronize()?;
//! assert_eq!(host.read()?[..], [7; 1000]);
//! assert!(stream.fill(range, 0).is_err()); // a handle is good until it is freed
//! # Ok::<(), spyre_flex::Error>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod allocator;
mod context;
mod core;
mod devices;
mod env;
mod error;
mod interrupt;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod peer;
mod policy;
mod process;
mod recorder;
mod scheduler;
mod stream;
mod sync;

pub use allocator::{BlockInfo, BlockState, FlexAllocator, Settings, Statistics};
pub use context::Context;
pub use devices::{
    Budget, Devices, Environment, EnvironmentError, HostMemory, num_devices, parse_bytes,
};
pub use env::{Env, Machine};
pub use error::Error;
pub use interrupt::{
    HeldInterrupts, InterruptCheck, Interruption, hold_interrupts, set_interrupt_check,
};
pub use policy::{Policy, Priority};
pub use process::Process;
pub use recorder::{RECORDED, Record, RecordState, Tape};
pub use scheduler::{Drive, Scheduler, SchedulerSettings};
pub use spyre_hal::{DeviceHandle, StreamIndex, VirtualRegions};
pub use stream::{
    ControlBlockStream, Event, FailureEpoch, FlexStream, Idle, LastUse, Lent, MemoryAccess,
    MemoryUse, StreamFault, Ticket, Timelines,
};

/// The unit of device memory: blocks start at its multiples and are that long.
pub const BLOCK_BYTES: u64 = 128;
