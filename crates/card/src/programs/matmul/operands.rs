//! The sides of a matrix product, brought into the order that its inner loops want: rows of k on the
//! left, panels of columns on the right.

use std::mem;

use spyre_artifact::{Dim, Operand, Register, Span};
use spyre_numerics::Tier;

use crate::programs::execute::broadcast::spread;
use crate::programs::execute::buffer::Element;
use crate::programs::load::factors::TensorSide;
use crate::programs::matmul::dot::{Counts, Factor, room_for};
use crate::programs::matmul::product::{Matrix, PANEL};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

/// Side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Side {
    Tensor(TensorSide),
    Register(Register),
}

/// A product of tiles: dims of both sides, of the left one, of the right one, and summed over.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Roles {
    pub(in crate::programs) both: Span,
    pub(in crate::programs) left: Span,
    pub(in crate::programs) right: Span,
    pub(in crate::programs) k: Span,
}

/// A dense matrix, or several; and the register that it is, if it is one.
#[derive(Debug)]
pub(in crate::programs) struct Dense<T> {
    pub(in crate::programs) elements: Vec<T>,
    home: Option<Register>,
}

/// The right matrix; whether its columns lie along k.
#[derive(Debug)]
pub(in crate::programs) struct Right<T> {
    matrix: Dense<T>,
    is_transposed: bool,
}

/// The columns of a tensor, and what is summed over.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Columns {
    pub(in crate::programs) side: TensorSide,
    pub(in crate::programs) k: Span,
    pub(in crate::programs) column: Dim,
}

impl Roles {
    pub(in crate::programs) fn new(left: Span, right: Span, k: Span) -> Self {
        let both = (left & right).minus(k);
        Self { both, left: left.minus(both | k), right: right.minus(both | k), k }
    }

    /// Rows of k.
    fn of_left(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.both).chain(dims(self.left)).chain(dims(self.k))
    }

    /// Transpose of [`of_left`](Self::of_left): k rows.
    fn of_left_transposed(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.both).chain(dims(self.k)).chain(dims(self.left))
    }

    /// k rows.
    fn of_right(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.both).chain(dims(self.k)).chain(dims(self.right))
    }

    /// Its columns as rows of k.
    fn of_right_transposed(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.both).chain(dims(self.right)).chain(dims(self.k))
    }

    pub(in crate::programs) fn of_result(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.both).chain(dims(self.left)).chain(dims(self.right))
    }
}

impl<T> Right<T> {
    /// Its only column, as it lies.
    pub(in crate::programs) fn vector(&self, batch: usize, k: usize) -> Option<&[T]> {
        self.matrix.elements.get(batch * k..(batch + 1) * k)
    }

    /// Columns as rows of k, if that is how they lie.
    pub(in crate::programs) fn columns(
        &self,
        first: usize,
        width: usize,
        k: usize,
    ) -> Option<&[T]> {
        self.is_transposed.then(|| &self.matrix.elements[first * k..][..width * k])
    }
}

impl<T: Element> Right<T> {
    /// A panel of one of the matrices as it lies, if it is whole and so few rows use it that packing is not worth it.
    pub(in crate::programs) fn panel(
        &self,
        counts: Counts,
        [batch, first]: [usize; 2],
    ) -> Option<Matrix<'_, T>> {
        /// More rows than this go over a panel several times.
        const FEW_ROWS: usize = 14;
        let Counts { rows, columns, k, .. } = counts;
        let elements = &self.matrix.elements[batch * k * columns..][first..];
        let is_worth_it = rows <= FEW_ROWS && first + PANEL <= columns;
        is_worth_it.then_some(Matrix { elements, pitch: columns })
    }

    /// Fills the panel with some columns of one of the matrices.
    pub(in crate::programs) fn pack(
        &self,
        counts: Counts,
        [batch, first, width]: [usize; 3],
        panel: &mut Vec<T>,
    ) {
        let Counts { columns, k, .. } = counts;
        let b = &self.matrix.elements[batch * k * columns..][..k * columns];
        pack(b, columns, first, width, panel);
    }
}

impl Machine<'_> {
    /// Returns true if a dense tile in the order of some dims is in that of a register, too.
    pub(in crate::programs) fn is_in_order(&self, along: impl Iterator<Item = Dim>) -> bool {
        along.filter(|dim| self.tiles.elements[dim.index()] > 1).is_sorted()
    }

    /// The left matrices: rows of k.
    pub(in crate::programs) fn left<T: Factor>(
        &mut self,
        side: Side,
        roles: Roles,
    ) -> Result<Dense<T>, Stop> {
        match side {
            Side::Register(register) => Ok(self.ordered(register, roles.of_left(), false)),
            Side::Tensor(tensor) if !self.lies_along(tensor.operand, roles.left, roles.k) => {
                self.loaded(tensor, roles.of_left())
            }
            Side::Tensor(tensor) => {
                let transposed: Dense<T> = self.loaded(tensor, roles.of_left_transposed())?;
                let k = self.tiles.elements_of(roles.k);
                let rows = self.tiles.elements_of(roles.left);
                let mut elements = self.registers.take();
                elements.resize(transposed.elements.len(), T::default());
                let matrices = transposed.elements.chunks_exact(k * rows);
                for (source, target) in matrices.zip(elements.chunks_exact_mut(k * rows)) {
                    T::transpose(Tier::detected(), source, rows, target, k);
                }
                self.put_back(transposed);
                Ok(Dense { elements, home: None })
            }
        }
    }

    /// The right matrices.
    pub(in crate::programs) fn right<T: Factor>(
        &mut self,
        side: Side,
        left: Side,
        roles: Roles,
    ) -> Result<Right<T>, Stop> {
        match side {
            Side::Register(register) => {
                let is_transposed = !self.is_in_order(roles.of_right())
                    && self.is_in_order(roles.of_right_transposed());
                let matrix = if is_transposed {
                    self.ordered(register, roles.of_right_transposed(), side == left)
                } else {
                    self.ordered(register, roles.of_right(), side == left)
                };
                Ok(Right { matrix, is_transposed })
            }
            Side::Tensor(tensor) => {
                let is_transposed = self.lies_along(tensor.operand, roles.k, roles.right);
                let matrix = if is_transposed {
                    self.loaded(tensor, roles.of_right_transposed())?
                } else {
                    self.loaded(tensor, roles.of_right())?
                };
                Ok(Right { matrix, is_transposed })
            }
        }
    }

    pub(in crate::programs) fn put_back<T: Element>(&mut self, matrix: Dense<T>) {
        match matrix.home {
            Some(register) => *T::of_mut(self.registers.tile_mut(register)) = matrix.elements,
            None => self.registers.give(matrix.elements),
        }
    }

    pub(in crate::programs) fn put_back_right<T: Element>(&mut self, right: Right<T>) {
        self.put_back(right.matrix);
    }

    /// A register's elements in the order of some dims: taken out of it, if that is its own.
    fn ordered<T: Element>(
        &mut self,
        register: Register,
        along: impl Iterator<Item = Dim> + Clone,
        is_copied: bool,
    ) -> Dense<T> {
        if self.is_in_order(along.clone()) && !is_copied {
            let elements = mem::take(T::of_mut(self.registers.tile_mut(register)));
            return Dense { elements, home: Some(register) };
        }
        let mut elements = self.registers.take();
        let span = self.registers.type_of(register).span;
        spread(&self.tiles, T::of(self.registers.tile(register)), span, along, &mut elements);
        Dense { elements, home: None }
    }

    pub(in crate::programs) fn loaded<T: Element>(
        &mut self,
        TensorSide { operand, at, nth }: TensorSide,
        along: impl Iterator<Item = Dim> + Clone,
    ) -> Result<Dense<T>, Stop> {
        let mut tile = T::tile(self.registers.take());
        let converter = self.code.converter(at, nth)?;
        self.load_tile(operand, converter, along, None, &mut tile)?;
        Ok(Dense { elements: mem::take(T::of_mut(&mut tile)), home: None })
    }

    /// Returns true if a tensor's neighbours lie along one of some dims, rather than along one of others.
    pub(in crate::programs) fn lies_along(
        &self,
        operand: Operand,
        some: Span,
        others: Span,
    ) -> bool {
        let Some((tensor, _)) = self.binding.tensor(operand) else { return false };
        let distance = |span: Span| {
            let long = dims(span).filter(|dim| self.tiles.elements[dim.index()] > 1);
            long.map(|dim| tensor.distance(dim)).min().unwrap_or(u64::MAX)
        };
        distance(some) < distance(others)
    }
}

/// Copies some columns of all rows; what is left of the panel is zero.
fn pack<T: Element>(b: &[T], columns: usize, first: usize, width: usize, panel: &mut Vec<T>) {
    room_for(panel, b.len() / columns, width);
    let rows = b.chunks_exact(columns).zip(panel.as_chunks_mut::<PANEL>().0);
    for (row, target) in rows {
        match row[first..].first_chunk::<PANEL>() {
            // Of a known length: no call.
            Some(whole) if width == PANEL => *target = *whole,
            _ => target[..width].copy_from_slice(&row[first..first + width]),
        }
    }
}
