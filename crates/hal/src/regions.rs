use std::fmt::{self, Debug};
use std::sync::Weak;

use crate::DeviceRange;

/// The two ways in which a card gives out memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryMode {
    /// Physical function: every allocation is mapped on its own, at a physical address.
    Pf,
    /// Virtual function: a few large regions, and offsets in them.
    #[default]
    Vf,
}

/// Index of a region of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u16);

/// A large piece of device memory that an allocator carves blocks from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Index of the region.
    pub id: RegionId,
    /// Start address, which handles show in PF mode, and hide in VF mode.
    pub base_address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Leaves out the address, which is private in VF mode.
impl Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({}, {} bytes)", self.id.0, self.bytes)
    }
}

/// The part of a card that memory comes from.
///
/// # Contract
/// - Regions do not overlap, and start at a multiple of 128 bytes.
/// - A region stays until it is released.
/// - `try_allocate` has no effect when it returns `None`.
/// - Releasing a region that was released already, or by a reset of the card, has no effect.
/// - A protected range stays so until it is unprotected, or its region released.
/// - No method calls back: an allocator calls them with its lock held.
pub trait Regions: Debug + Send + Sync {
    /// The mode the card is in.
    fn mode(&self) -> MemoryMode;

    /// A region of exactly so many bytes, if there is one to be had.
    fn try_allocate(&self, bytes: u64) -> Option<Region>;

    /// Gives a region back.
    fn release(&self, region: RegionId);

    /// These bytes are free: the card may give their pages back to the host.
    ///
    /// Until they are written again they read as zero or as anything. The range lies inside a
    /// region that is held; its ends are multiples of 4096 bytes from the start of the region.
    fn discard(&self, _region: RegionId, _offset_bytes: u64, _bytes: u64) {}

    /// These bytes are an allocation for programs. What a card that guards programs does then is
    /// item 13 of the contract on [`Hardware`](crate::Hardware); others need not care.
    ///
    /// The range lies inside a region that is held, and overlaps no other that is protected.
    fn protect(&self, _region: RegionId, _offset_bytes: u64, _bytes: u64) {}

    /// Programs no longer lie in these bytes, which were protected just so.
    fn unprotect(&self, _region: RegionId, _offset_bytes: u64, _bytes: u64) {}

    /// Says who knows the handles of this card from now on. Without it, or when it is gone, a card
    /// checks the places of handles only.
    fn attach(&self, _allocations: Weak<dyn Allocations>) {}
}

/// Tells which handles are good: what an allocator is to the card that it gives memory of.
pub trait Allocations: Debug + Send + Sync {
    /// The first of these ranges that no block may touch which runs now, and why. A block may use
    /// an allocation that was freed after the block was queued.
    fn first_refused(&self, ranges: &[DeviceRange]) -> Option<(usize, Box<str>)>;
}

/// Passes every call of [`Regions`] on to a card inside: for use in an `impl Regions`.
///
/// One list for all wrappers, so that a method that is new to the trait reaches the card through
/// each of them.
///
/// ```
/// use spyre_hal::{NullCard, Regions, forward_regions};
///
/// #[derive(Debug)]
/// struct Wrapped(NullCard);
///
/// impl Regions for Wrapped {
///     forward_regions!(|self| self.0);
/// }
/// assert!(Wrapped(NullCard::new()).try_allocate(4096).is_some());
/// ```
#[macro_export]
macro_rules! forward_regions {
    (|$self:ident| $card:expr) => {
        fn mode(&$self) -> $crate::MemoryMode {
            $card.mode()
        }

        fn try_allocate(&$self, bytes: u64) -> Option<$crate::Region> {
            $card.try_allocate(bytes)
        }

        fn release(&$self, region: $crate::RegionId) {
            $card.release(region);
        }

        fn discard(&$self, region: $crate::RegionId, offset_bytes: u64, bytes: u64) {
            $card.discard(region, offset_bytes, bytes);
        }

        fn protect(&$self, region: $crate::RegionId, offset_bytes: u64, bytes: u64) {
            $card.protect(region, offset_bytes, bytes);
        }

        fn unprotect(&$self, region: $crate::RegionId, offset_bytes: u64, bytes: u64) {
            $card.unprotect(region, offset_bytes, bytes);
        }

        fn attach(&$self, allocations: std::sync::Weak<dyn $crate::Allocations>) {
            $card.attach(allocations);
        }
    };
}
