use std::fmt;

use super::Dim;
use crate::isa::MAX_DIMS;

/// A set of dims: those along which a register or an operand holds more than one value.
///
/// ```
/// use spyre_artifact::{Dim, Span};
///
/// let (rows, columns) = (Span::of(&[Dim(0)]), Span::of(&[Dim(1)]));
/// assert_eq!((rows | columns).to_string(), "[d0 d1]");
/// assert!(rows.is_inside(rows | columns));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(u16);

impl Span {
    /// No dims: one value.
    pub const NONE: Self = Self(0);

    /// These dims. A dim that no program can have (16 and up) is left out.
    pub fn of(dims: &[Dim]) -> Self {
        dims.iter().fold(Self::NONE, |span, &dim| span.with(dim))
    }

    /// The set whose bit i says whether dim i is in it.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Bit i says whether dim i is in it.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the set with this dim added.
    #[must_use]
    pub fn with(self, dim: Dim) -> Self {
        Self(self.0 | 1_u16.checked_shl(dim.0.into()).unwrap_or(0))
    }

    /// Returns the set with this dim removed.
    #[must_use]
    pub fn without(self, dim: Dim) -> Self {
        Self(self.0 & !Self::NONE.with(dim).0)
    }

    /// The dims that are not in `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns true if this dim is in it.
    pub fn contains(self, dim: Dim) -> bool {
        Self::NONE.with(dim).0 & self.0 != 0
    }

    /// Returns true if `other` has all of its dims.
    pub fn is_inside(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Number of its dims before this one: the place of the dim among them, if it is one.
    pub fn place(self, dim: Dim) -> usize {
        let before = 1_u16.checked_shl(dim.0.into()).unwrap_or(0).wrapping_sub(1);
        (self.0 & before).count_ones() as usize
    }

    /// Number of its dims.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if it has no dims.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its dims, lowest first.
    pub fn dims(self) -> impl Iterator<Item = Dim> + Clone {
        (0..MAX_DIMS as u8).map(Dim).filter(move |&dim| self.contains(dim))
    }
}

impl std::ops::BitOr for Span {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Span {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl<const N: usize> From<[Dim; N]> for Span {
    fn from(dims: [Dim; N]) -> Self {
        Self::of(&dims)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims().map(|dim| dim.to_string()).collect();
        write!(f, "[{}]", dims.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dim_that_cannot_be_is_in_no_span() {
        assert_eq!(Span::of(&[Dim(16), Dim(255)]), Span::NONE);
        assert!(!Span::from_bits(0xFFFF).contains(Dim(16)));
        assert_eq!(Span::from_bits(0xFFFF).dims().count(), MAX_DIMS);
    }

    #[test]
    fn dims_have_places_in_a_span() {
        let span = Span::of(&[Dim(1), Dim(4), Dim(15)]);
        assert_eq!(span.dims().map(|dim| span.place(dim)).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(span.count(), 3);
    }
}
