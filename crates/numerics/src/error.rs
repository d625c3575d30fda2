use crate::{DType, DataFormat, Tier};

/// Errors of conversions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The card has no format for this dtype.
    #[error(
        "the card profile does not support dtype {dtype}; use float16, float32, int32 or int8, \
         or run with SPYRE_PROFILE=open"
    )]
    UnsupportedDType {
        /// The dtype that was asked for.
        dtype: DType,
    },
    /// Elements of this format do not fill whole bytes, or have no published packing.
    #[error("{format} has no byte-addressable elements; convert to an 8, 16, 32 or 64 bit format")]
    NotAddressable {
        /// The format that was asked for.
        format: DataFormat,
    },
    /// The two slices do not hold the same number of elements.
    #[error(
        "{source_bytes} bytes of {from} are not as many elements as {target_bytes} bytes of {to}"
    )]
    LengthMismatch {
        /// Format of the source.
        from: DataFormat,
        /// Length of the source slice.
        source_bytes: usize,
        /// Format of the target.
        to: DataFormat,
        /// Length of the target slice.
        target_bytes: usize,
    },
    /// This machine lacks the instructions of the tier.
    #[error("this CPU has no {tier}; ask Tier::detected() for what it has")]
    TierMissing {
        /// The tier that was asked for.
        tier: Tier,
    },
}
