//! Element formats of host and device, and exact conversions between them.
//!
//! The lowest layer: it knows no other crate of ours. [`DType`] is what a framework says,
//! [`DataFormat`] is what memory holds, a [`Profile`] picks the second for the first, and a
//! [`Converter`] carries slices from one format to another at the speed of memory.
//!
//! ```
//! use spyre_numerics::{Converter, DType, Profile};
//!
//! let host = DType::Float16.host_format();
//! let device = Profile::Card.device_format(DType::Float16);
//! let converter = Converter::new(host, device)?;
//!
//! let ones = [0x00, 0x3C].repeat(64); // 1.0 as IEEE half, one stick of it
//! let mut stick = [0; 128];
//! converter.convert(&ones, &mut stick)?;
//! assert_eq!(stick[..2], 0x3E00_u16.to_le_bytes()); // 1.0 as SEN169_FP16
//! # Ok::<(), spyre_numerics::Error>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

#[cfg(not(target_endian = "little"))]
compile_error!("element bytes are little-endian here; a big-endian host needs its own wire module");

mod cast;
mod convert;
mod dtype;
mod error;
mod float8;
mod format;
mod profile;
mod scalar;
mod sen169;
pub mod special;
mod tier;

pub use convert::{Converter, Overflow, Specials};
pub use dtype::DType;
pub use error::Error;
pub use float8::{Float8, Float8Kind};
pub use format::DataFormat;
pub use profile::Profile;
pub use scalar::Scalar;
pub use sen169::Sen169;
pub use tier::{Rows, Tier};

/// Bytes of a stick: the unit in which the device stores, moves and computes.
pub const STICK_BYTES: usize = 128;
