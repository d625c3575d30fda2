//! Memory of a framework's tensors: addresses, layouts, and copies between host and device.

mod address_space;
mod custom_layouts;
mod layout_cache;
mod memory_copy;
mod nest_cache;
pub(crate) mod storage_layout;

pub use address_space::AddressSpace;
pub use custom_layouts::shared_custom_layout;
pub use layout_cache::{shared_bytes, shared_layout};
pub use memory_copy::{Return, copy_from_device, copy_on_device, copy_to_device, copy_to_peer};
pub use storage_layout::{SharedLayout, StorageLayout};
