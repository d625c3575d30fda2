use spyre_hal::DeviceHandle;

use crate::EnvironmentError;

/// What the runtime can refuse. An `Err` means that nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// There is no block for the request.
    #[error(
        "out of device memory: {requested} bytes asked; {free} bytes free in {reserved} reserved, \
         the largest block {largest}; {committed} of {limit} bytes committed. Free tensors, or \
         raise SPYRE_MEMORY_LIMIT"
    )]
    OutOfMemory {
        requested: u64,
        free: u64,
        reserved: u64,
        largest: u64,
        committed: u64,
        limit: u64,
    },

    /// Handles could no longer tell one card from another.
    #[error("{open} cards are open in this process, and handles tell no more apart: drop some")]
    TooManyCards { open: usize },

    /// The handle does not name a live allocation of this card.
    #[error("{handle} is not a live allocation of this card: {why}")]
    BadHandle { handle: DeviceHandle, why: &'static str },

    /// An access past the end of an allocation.
    #[error("{bytes} bytes at offset {offset} of {handle} end past its {allocated} bytes")]
    OutOfRange { handle: DeviceHandle, offset: u64, bytes: u64, allocated: u64 },

    /// The environment says something that cannot be.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}
