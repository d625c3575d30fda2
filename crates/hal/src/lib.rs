//! The contract with hardware: what a device is to everything above it.
//!
//! Above the layouts, below `flex`. [`Hardware`] carries out [`ControlBlock`]s, each on an engine,
//! and reports a [`Fault`] where one fails. A [`DeviceHandle`] names a place in device memory, in
//! one of the two modes that a card can be in; [`Regions`] is what memory comes from, and
//! [`HostBuffer`]s are what blocks copy from and to.
//!
//! ```
//! use spyre_hal::{DeviceHandle, HandleTag, Location, VFDeviceHandle};
//!
//! let place = VFDeviceHandle { region_id: 2, vf_offset: 4096 };
//! let handle = DeviceHandle::vf(place, HandleTag { epoch: 1, generation: 7, slot: 12 });
//! assert_eq!(handle.location(), Location::Vf(place));
//! assert_eq!(handle.to_string(), "vf:2+0x1000");
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod cache_line;
mod checked_operands;
pub mod conformance;
mod control_block;
mod device_range;
mod event_cell;
mod external_work;
mod fault;
mod handle;
mod handle_words;
mod hardware;
mod host;
mod label;
mod loan;
mod memory;
mod peer_memory;
mod random;
mod regions;
mod staging;
mod test_cards;
mod virtual_regions;

pub use cache_line::prefetch_to_write;
pub use checked_operands::CheckedOperands;
pub use control_block::{
    BlockKind, ControlBlock, CopyDevice, CopyFromDevice, CopyPeer, CopyToDevice, HostCallback,
    Pattern,
};
pub use device_range::DeviceRange;
pub use event_cell::{EventCell, StreamIndex, StreamPoint};
pub use external_work::{Cancel, Completion, ExternalWork};
pub use fault::{Fault, Outcome, Severity};
pub use handle::{DeviceHandle, HandleTag, Location, PFDeviceHandle, VFDeviceHandle};
pub use hardware::{Completions, Description, EngineIndex, Hardware, Started, Token};
pub use host::{HostBuffer, HostBusy, HostSource, HostTarget};
pub use label::Label;
pub use loan::Loan;
pub use memory::DeviceMemory;
pub use peer_memory::PeerMemory;
pub use regions::{Allocations, MemoryMode, Region, RegionId, Regions};
pub use staging::{StagedCopy, StagingPool};
pub use test_cards::{
    Behaviour, DeferredCard, LateCard, NullCard, ScriptedCard, StartedBlock, Trigger,
};
pub use virtual_regions::VirtualRegions;
