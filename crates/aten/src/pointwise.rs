//! Ops that compute each element of their results from the same place of their arguments.

mod complex;
mod entry;
mod kernel;
mod parameter;
mod row;
mod special;
mod table;

pub(crate) use entry::Entry;
pub use kernel::Pointwise;
pub(crate) use table::entries;
