//! Collectives among processes: the engine of the distributed backend `spyreccl`.
//!
//! Ranks of one machine meet in shared memory and read each other's device memory in place; ranks of different
//! machines meet over a transport that the framework gives. It knows numerics only: memory is addresses, streams
//! are a call that is made ready and a callback when it is over.
//!
#![doc = include_str!("../DESIGN.md")]

mod collective_call;
mod device_buffer;
mod error;
mod group;
mod group_options;
mod history;
mod processes;
mod reduce_op;
mod reduction;
mod shared_memory;
mod transport;

pub use collective_call::{CallOutcome, Collective, CollectiveCall};
pub use device_buffer::DeviceBuffer;
pub use error::Error;
pub use group::{Done, PendingCall, ProcessGroup};
pub use group_options::GroupOptions;
pub use history::{CallRecord, CallState};
pub use reduce_op::ReduceOp;
pub use transport::{KeyValueStore, Remote};
