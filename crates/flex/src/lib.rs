//! The runtime next to the device: memory, and later streams and their scheduler.
//!
//! Above [`spyre_hal`]. A [`FlexAllocator`] carves 128-byte blocks from a card's regions and gives
//! them out as [`DeviceHandle`]s. It knows the last use of every block in every stream, so that a
//! block is never given out again while one of them may still touch it: no call is needed for that.
//!
//! ```
//! use std::sync::Arc;
//! use spyre_flex::{FlexAllocator, Idle, Settings, StreamIndex, VirtualRegions};
//!
//! let regions = Arc::new(VirtualRegions::new(8, 12 << 30));
//! let allocator = FlexAllocator::new(regions, Arc::new(Idle), Settings::default());
//! let handle = allocator.allocate(1000, StreamIndex(0))?;
//! assert_eq!(allocator.statistics().allocated_bytes, 1024);
//!
//! allocator.free(handle)?;
//! assert!(allocator.free(handle).is_err()); // a handle is good for one free
//! # Ok::<(), spyre_flex::Error>(())
//! ```

mod allocator;
mod arrivals;
mod bell;
mod budget;
mod combiner;
mod context;
mod control_block_stream;
mod core;
mod devices;
mod env;
mod environment;
mod error;
mod event;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod peer;
mod policy;
mod process;
mod recorder;
mod ring;
mod scheduler;
mod stream;
mod stream_fault;
mod stream_table;
mod sync;
mod timeline;

pub use allocator::{BlockInfo, BlockState, FlexAllocator, Settings, Statistics};
pub use budget::Budget;
pub use context::Context;
pub use control_block_stream::ControlBlockStream;
pub use devices::{Devices, HostMemory, num_devices};
pub use env::{Env, Machine};
pub use environment::{Environment, EnvironmentError};
pub use error::Error;
pub use event::Event;
pub use policy::{Policy, Priority};
pub use recorder::{RECORDED, Record, RecordState};
pub use scheduler::{Drive, Scheduler, SchedulerSettings};
pub use spyre_hal::{DeviceHandle, StreamIndex, VirtualRegions};
pub use stream::{FlexStream, Lent, Ticket};
pub use stream_fault::StreamFault;
pub use timeline::{Idle, LastUse, Timelines};

/// The unit of device memory: blocks start at its multiples and are that long.
pub const BLOCK_BYTES: u64 = 128;
