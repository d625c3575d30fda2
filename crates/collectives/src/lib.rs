//! Collectives among processes: the engine of the distributed backend `spyreccl`.
//!
//! Ranks of one machine meet in shared memory and read each other's device memory in place; ranks of different
//! machines meet over a transport that the framework gives. It knows numerics only: memory is addresses, streams
//! are a call that is made ready and a callback when it is over.
//!
#![doc = include_str!("../DESIGN.md")]
#![allow(dead_code, reason = "the group that uses the private parts follows")]

mod collective_call;
mod device_buffer;
mod error;
mod reduce_op;
mod reduction;
mod transport;

pub use collective_call::{CallOutcome, Collective, CollectiveCall};
pub use device_buffer::DeviceBuffer;
pub use error::Error;
pub use reduce_op::ReduceOp;
pub use transport::{KeyValueStore, Remote};
