//! The contract with hardware: what a device is to everything above it.
//!
//! Above the layouts, below `flex`. A [`DeviceHandle`] names a place in device memory, in one of
//! the two modes that a card can be in; [`Regions`] is the part of a card that memory comes from.
//!
//! ```
//! use spyre_hal::{DeviceHandle, HandleTag, Location, VFDeviceHandle};
//!
//! let place = VFDeviceHandle { region_id: 2, vf_offset: 4096 };
//! let handle = DeviceHandle::vf(place, HandleTag { epoch: 1, generation: 7, slot: 12 });
//! assert_eq!(handle.location(), Location::Vf(place));
//! assert_eq!(handle.to_string(), "vf:2+0x1000");
//! ```

mod handle;
mod regions;

pub use handle::{DeviceHandle, HandleTag, Location, PFDeviceHandle, VFDeviceHandle};
pub use regions::{MemoryMode, Region, RegionId, Regions};
