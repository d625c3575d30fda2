//! The software card: a [`Hardware`](spyre_hal::Hardware) on the host's memory and cores.
//!
//! Above [`spyre_hal`], beside `flex`, which drives it like any other device. Device memory is
//! mapped when a region is acquired and unmapped when it is released; copies are carried out by the
//! thread that starts them, and by a few more if they are large. Programs run from device memory:
//! images of [`spyre_artifact`] whose handles are written by [`handle_words`].
//!
//! ```
//! use spyre_card::SoftwareCard;
//! use spyre_hal::{
//!     ControlBlock, DeviceHandle, DeviceRange, EngineIndex, HandleTag, Hardware, MemoryMode,
//!     Pattern, Regions, Started, Token, VFDeviceHandle,
//! };
//!
//! let card = SoftwareCard::new(MemoryMode::Vf);
//! let region = card.try_allocate(12 << 30).expect("there are eight");
//! let place = VFDeviceHandle { region_id: region.id.0, vf_offset: 4096 };
//! let handle = DeviceHandle::vf(place, HandleTag { epoch: 0, generation: 0, slot: 0 });
//! let target = DeviceRange::start_of(handle, 1000);
//! let fill = ControlBlock::Fill { pattern: Pattern::from(7), target };
//! assert_eq!(card.start(EngineIndex(0), Token(1), fill), Started::Done(Ok(())));
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod abortable_crew;
mod copies;
mod engines;
mod handle_words;
mod memory;
mod model;
mod mxcsr;
mod programs;
mod software_card;
mod threads;
mod work;

pub use handle_words::{handle_from_words, handle_words};
pub use software_card::SoftwareCard;
pub use threads::Threads;
