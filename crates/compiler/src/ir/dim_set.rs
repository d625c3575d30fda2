use std::ops::{BitAnd, BitOr};

/// A named dim of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DimId(pub u8);

/// A set of dims: those along which a value differs.
///
/// ```
/// use spyre_compiler::{DimId, DimSet};
///
/// let both: DimSet = [DimId(0), DimId(3)].into_iter().collect();
/// assert!(both.contains(DimId(3)));
/// assert_eq!(both.without(DimId(0)).iter().collect::<Vec<_>>(), [DimId(3)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimSet(u32);

impl DimSet {
    /// Largest number of dims that a kernel may have.
    pub const MOST: usize = 32;

    /// No dims: one value.
    pub const NONE: Self = Self(0);

    /// Returns the set with this dim.
    #[must_use]
    pub fn with(self, dim: DimId) -> Self {
        Self(self.0 | 1_u32.checked_shl(dim.0.into()).unwrap_or(0))
    }

    /// Returns the set without this dim.
    #[must_use]
    pub fn without(self, dim: DimId) -> Self {
        Self(self.0 & !Self::NONE.with(dim).0)
    }

    /// The dims that are not in `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns true if this dim is in it.
    pub fn contains(self, dim: DimId) -> bool {
        self.0 & Self::NONE.with(dim).0 != 0
    }

    /// Returns true if `other` has all of its dims.
    pub fn is_inside(self, other: Self) -> bool {
        self.minus(other) == Self::NONE
    }

    /// Returns true if some dim is in both.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if it has no dims.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its dims, in their order.
    pub fn iter(self) -> impl Iterator<Item = DimId> {
        (0..Self::MOST as u8).map(DimId).filter(move |&dim| self.contains(dim))
    }
}

impl BitOr for DimSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for DimSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<DimId> for DimSet {
    fn from_iter<I: IntoIterator<Item = DimId>>(dims: I) -> Self {
        dims.into_iter().fold(Self::NONE, Self::with)
    }
}
