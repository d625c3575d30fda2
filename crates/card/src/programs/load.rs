//! Images out of device memory, and what a launch binds them to.

pub(in crate::programs) mod allocations;
pub(in crate::programs) mod binding;
pub(in crate::programs) mod code;
pub(in crate::programs) mod decoded_image;
pub(in crate::programs) mod factors;
pub(in crate::programs) mod limits;
pub(in crate::programs) mod piece_table;
