//! Processes of the other ranks: if they live, and what their memory holds.

mod peer_memory;
mod peer_process;

pub(crate) use peer_memory::{allow_readers, read_memory};
pub(crate) use peer_process::{PeerProcess, namespace_of_pids, start_of};
