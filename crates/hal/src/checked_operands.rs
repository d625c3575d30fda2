use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use foldhash::quality::RandomState;

use crate::DeviceRange;

/// Fingerprint of the ranges that a launch uses besides its program. The scheduler has found that they lie in
/// live allocations, and keeps these until the launch has ended.
///
/// A card that finds just these ranges in a program's table need not ask [`Allocations`](crate::Allocations)
/// for them. The fingerprint uses a key of this process: other ranges match it with a chance of one in 2^63.
///
/// ```
/// use spyre_hal::{DeviceHandle, DeviceRange, HandleTag, VFDeviceHandle, CheckedOperands};
///
/// let tag = HandleTag { epoch: 0, generation: 3, slot: 7 };
/// let handle = DeviceHandle::vf(VFDeviceHandle { region_id: 0, vf_offset: 256 }, tag);
/// let [first, second] = [4, 8].map(|bytes| DeviceRange::start_of(handle, bytes));
/// let checked_operands = CheckedOperands::of(&[first, second]);
/// assert!(checked_operands.is_for(&[first, second]));
/// assert!(!checked_operands.is_for(&[second, first]) && !checked_operands.is_for(&[first]));
/// assert!(!CheckedOperands::NONE.is_for(&[]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedOperands(u64);

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::default);

impl CheckedOperands {
    /// Fingerprint that no ranges match.
    pub const NONE: Self = Self(0);

    /// Fingerprint of ranges, in this order.
    #[inline]
    pub fn of(ranges: &[DeviceRange]) -> Self {
        Self::of_each(ranges)
    }

    /// Fingerprint of ranges that stand among other things, in this order.
    #[inline]
    pub fn of_each<'a>(ranges: impl IntoIterator<Item = &'a DeviceRange>) -> Self {
        let mut hasher = KEY.build_hasher();
        for range in ranges {
            let [address, tag, place] = range.handle.to_words();
            hasher.write_u128(u128::from(address) << 64 | u128::from(tag));
            hasher.write_u128(u128::from(range.offset) << 64 | u128::from(range.bytes));
            hasher.write_u64(place);
        }
        Self(hasher.finish() | 1)
    }

    /// Returns true if it is for these ranges.
    #[inline]
    pub fn is_for(self, ranges: &[DeviceRange]) -> bool {
        self != Self::NONE && self == Self::of(ranges)
    }
}
