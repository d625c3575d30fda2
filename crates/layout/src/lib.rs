//! Sticks, tensor layouts, views and DMA nests: where each host element lies on the device.
//!
//! Above [`spyre_numerics`], below everything that moves or computes. Four nouns:
//! a [`SpyreTensorLayout`] says how a storage is tiled into 128-byte sticks, a [`View`] is a size,
//! a stride and an offset over that storage, a [`DmaNest`] is the loop nest that carries a view
//! from one memory to another, and [`DmaNest::copy`] runs it.
//!
//! ```
//! use spyre_layout::{DmaNest, Endpoint, Solo, SpyreTensorLayout, View};
//! use spyre_numerics::DataFormat::IeeeFp16;
//!
//! let view = View::contiguous(&[1024, 256])?;
//! let layout = SpyreTensorLayout::contiguous(&[1024, 256], IeeeFp16)?;
//! assert_eq!(layout.device_size(), [4, 1024, 64]);
//!
//! let nest = DmaNest::derive(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout))?;
//! assert_eq!(nest.boxes()[0].ranges(), [4, 1024, 64]);
//! assert_eq!(nest.boxes()[0].source_strides(), [64, 256, 1]);
//! assert_eq!(nest.boxes()[0].target_strides(), [65536, 64, 1]);
//!
//! let host = vec![7; 1024 * 256 * 2];
//! let mut device = vec![0; layout.device_bytes()];
//! nest.copy(&host, &mut device, &Solo)?;
//! assert_eq!(host, device); // every element is the same, so their order does not show
//! # Ok::<(), spyre_layout::Error>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod arrangement;
mod axis_offsets;
mod copy;
mod crew;
mod device_run;
mod digits;
mod error;
mod nest;
mod restickify;
mod tensor_layout;
mod tensor_view;
mod view;
mod view_stick;

pub use arrangement::ElementArrangement;
pub use axis_offsets::AxisOffsets;
pub use copy::{
    STREAM_BYTES, StickGrid, copy_past_cache, copy_rows_past_cache, copy_stick_grid,
    copy_stick_grid_past_cache, store_fence, store_stick_past_cache,
};
pub use crew::{Crew, Solo};
pub use device_run::DeviceRun;
pub use error::Error;
pub use nest::{DmaBox, DmaLoop, DmaNest, Endpoint};
pub use restickify::restickify;
pub use spyre_numerics::STICK_BYTES;
pub use tensor_layout::{SpyreDeviceLayout, SpyreTensorLayout};
pub use tensor_view::TensorView;
pub use view::{Access, View};
pub use view_stick::ViewStick;

/// A handful of sizes or strides; more than eight go to the heap.
pub(crate) type Dims = smallvec::SmallVec<[usize; 8]>;
