//! Services of the framework: a store to meet at, and a way to other machines.

use std::time::{Duration, Instant};

/// Store in which ranks leave words for each other: c10d's `Store`.
///
/// # Contract
/// - Keys are the group's own: the caller puts a prefix before them that no other group has, not even an
///   earlier group of the same ranks.
/// - The methods are called by the thread that connects a group, and by no other.
/// - An error is a text for people.
pub trait KeyValueStore: Send {
    /// Sets `key`, once.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String>;

    /// Waits until `key` is set, and returns its value.
    fn wait_get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, String>;
}

/// Messages between ranks on different machines: c10d's Gloo, on bytes of the host.
///
/// # Contract
/// - Messages of one pair of ranks and one tag arrive in the order in which they were sent.
/// - Calls block until the bytes are taken or there, or until the deadline, and then fail.
/// - Calls are made by several threads at once, with different tags or peers.
/// - An error is a text for people; after one, no further call needs to work.
pub trait Remote: Send + Sync {
    /// Sends `bytes` to a rank of the group.
    fn send(&self, peer: usize, tag: u32, bytes: &[u8], deadline: Instant) -> Result<(), String>;

    /// Receives as many bytes as `bytes` has from a rank of the group.
    fn receive(
        &self,
        peer: usize,
        tag: u32,
        bytes: &mut [u8],
        deadline: Instant,
    ) -> Result<(), String>;

    /// Ends every call that waits, soon. Called at most once, from any thread.
    fn abort(&self) {}
}
