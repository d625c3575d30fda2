use std::fmt;

use super::{Dim, Register, Span};
use crate::isa::MAX_DIMS;

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
    /// Bit i: there is one for axis i.
    axes: u8,
    /// Those of each axis that has one, in order; zeros behind them.
    dims: [u8; MAX_COORDINATES],
    registers: [u16; MAX_COORDINATES],
}

/// Coordinates along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    /// Index of the tensor's axis, 0 to 7, by which a fault names it.
    pub axis: u8,
    /// The dim that moves the operand along it, and is as long.
    pub dim: Dim,
    /// Integers: the coordinates.
    pub register: Register,
}

impl Coordinates {
    /// No axes: everything is where the loops are.
    pub const NONE: Self =
        Self { axes: 0, dims: [0; MAX_COORDINATES], registers: [0; MAX_COORDINATES] };

    /// These; `None` if there are more than seven, axes do not ascend, or one cannot be.
    pub fn new(given: &[Coordinate]) -> Option<Self> {
        let mut all = Self::NONE;
        for (at, one) in given.iter().enumerate() {
            let ascends = all.axes >> one.axis.min(7) == 0;
            if at >= MAX_COORDINATES || one.axis >= 8 || one.dim.index() >= MAX_DIMS || !ascends {
                return None;
            }
            all.axes |= 1 << one.axis;
            (all.dims[at], all.registers[at]) = (one.dim.0, one.register.0);
        }
        Some(all)
    }

    /// One for each axis, in the order of axes.
    pub fn given(&self) -> impl Iterator<Item = Coordinate> + use<> {
        let Self { axes, dims, registers } = *self;
        let axes = (0..8).filter(move |axis| axes >> axis & 1 == 1);
        let numbers = dims.into_iter().zip(registers);
        axes.zip(numbers).map(|(axis, (dim, register))| Coordinate {
            axis,
            dim: Dim(dim),
            register: Register(register),
        })
    }

    /// Has another register take the place of each.
    pub fn rename(&mut self, mut act: impl FnMut(&mut Register)) {
        for number in &mut self.registers[..self.axes.count_ones() as usize] {
            let mut register = Register(*number);
            act(&mut register);
            *number = register.0;
        }
    }

    /// The dims of those axes.
    pub fn dims(&self) -> Span {
        self.given().fold(Span::NONE, |dims, one| dims.with(one.dim))
    }

    /// Axes as a set of bits, dims in four bits each, registers in eight bits each.
    pub(super) fn fields(&self) -> (u8, u32, u64) {
        let given = self.given().enumerate();
        given.fold((0, 0, 0), |(axes, dims, registers), (at, one)| {
            let dim = u32::from(one.dim.0) << (4 * at);
            let register = u64::from(one.register.code()) << (8 * at);
            (axes | 1 << one.axis, dims | dim, registers | register)
        })
    }

    /// The other way round; what is left over makes no difference here.
    pub(super) fn from_fields(axes: u8, dims: u32, registers: u64) -> Option<Self> {
        if axes.count_ones() as usize > MAX_COORDINATES {
            return None;
        }
        let mut all = Self { axes, ..Self::NONE };
        for at in 0..axes.count_ones() as usize {
            all.dims[at] = (dims >> (4 * at)) as u8 & 15;
            all.registers[at] = u16::from((registers >> (8 * at)) as u8);
        }
        Some(all)
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |one: Coordinate| format!("{}: {} at {}", one.axis, one.dim, one.register);
        let given: Vec<String> = self.given().map(one).collect();
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
