use std::fmt;

use super::{Dim, Register, Span};

/// The most axes of an operand that have coordinates of their own.
pub const MAX_COORDINATES: usize = 7;

/// Axes of a tensor along which a program does not walk, but goes where registers say.
///
/// ```
/// use spyre_artifact::{Coordinate, Coordinates, Dim, Register};
///
/// // Row r3 of a table [d1, d2]; along d2, the program walks.
/// let row = Coordinates::new(&[Coordinate { axis: 0, dim: Dim(1), register: Register(3) }]);
/// assert_eq!(row.map(|row| row.to_string()), Some("[0: d1 at r3]".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinates {
    given: [Coordinate; MAX_COORDINATES],
    count: u8,
}

/// Where along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    /// Which of the tensor's axes, 0 to 7: what a fault calls it.
    pub axis: u8,
    /// The dim that moves the operand along it, and is as long.
    pub dim: Dim,
    /// Integers: the coordinates.
    pub register: Register,
}

impl Default for Coordinate {
    fn default() -> Self {
        Self { axis: 0, dim: Dim(0), register: Register(0) }
    }
}

impl Coordinates {
    /// No axes: everything is where the loops are.
    pub const NONE: Self = Self {
        given: [Coordinate { axis: 0, dim: Dim(0), register: Register(0) }; MAX_COORDINATES],
        count: 0,
    };

    /// These; `None` if there are more than seven, axes do not ascend, or one cannot be.
    pub fn new(given: &[Coordinate]) -> Option<Self> {
        let mut all = Self { count: given.len() as u8, ..Self::NONE };
        all.given.get_mut(..given.len())?.copy_from_slice(given);
        let ascends = given.windows(2).all(|pair| pair[0].axis < pair[1].axis);
        let can_be = given.iter().all(|one| one.axis < 8 && one.dim.0 < 16);
        (ascends && can_be).then_some(all)
    }

    /// One for each axis, in the order of axes.
    pub fn given(&self) -> &[Coordinate] {
        &self.given[..usize::from(self.count)]
    }

    /// Their registers, to look at or to rename.
    pub fn registers_mut(&mut self) -> impl Iterator<Item = &mut Register> {
        self.given[..usize::from(self.count)].iter_mut().map(|one| &mut one.register)
    }

    /// The dims of those axes.
    pub fn dims(&self) -> Span {
        self.given().iter().fold(Span::NONE, |dims, one| dims.with(one.dim))
    }

    /// Axes as a set of bits, dims in four bits each, registers in eight bits each.
    pub(super) fn fields(&self) -> (u8, u32, u64) {
        let given = self.given().iter().enumerate();
        given.fold((0, 0, 0), |(axes, dims, registers), (at, one)| {
            let dim = u32::from(one.dim.0) << (4 * at);
            let register = u64::from(one.register.code()) << (8 * at);
            (axes | 1 << one.axis, dims | dim, registers | register)
        })
    }

    /// The other way round; what is left over makes no difference here.
    pub(super) fn from_fields(axes: u8, dims: u32, registers: u64) -> Option<Self> {
        let axes = (0..8).filter(|axis| axes >> axis & 1 == 1).enumerate();
        let one = |(at, axis)| Coordinate {
            axis,
            dim: Dim((dims >> (4 * at)) as u8 & 15),
            register: Register((registers >> (8 * at) & 0xFF) as u16),
        };
        let given: Vec<Coordinate> = axes.take(8).map(one).collect();
        Self::new(&given)
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |one: &Coordinate| format!("{}: {} at {}", one.axis, one.dim, one.register);
        let given: Vec<String> = self.given().iter().map(one).collect();
        write!(f, "[{}]", given.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_hold_as_many_as_there_can_be() {
        let one = |axis: u8| Coordinate {
            axis,
            dim: Dim(15 - axis),
            register: Register(u16::from(axis) * 9),
        };
        for axes in [0..0, 0..1, 3..5, 1..8, 0..7] {
            let given: Vec<Coordinate> = axes.map(one).collect();
            let all = Coordinates::new(&given).expect("up to seven");
            let (axes, dims, registers) = all.fields();
            assert_eq!(Coordinates::from_fields(axes, dims, registers), Some(all));
        }
        assert_eq!(Coordinates::from_fields(0xFF, 0, 0), None);
    }

    #[test]
    fn axes_ascend() {
        let one = |axis: u8| Coordinate { axis, dim: Dim(0), register: Register(0) };
        assert_eq!(Coordinates::new(&[one(1), one(0)]), None);
        assert_eq!(Coordinates::new(&[one(1), one(1)]), None);
        assert_eq!(Coordinates::new(&[one(8)]), None);
    }
}
