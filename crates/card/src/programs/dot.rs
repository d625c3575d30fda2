use std::ops::{Add, Mul};

use spyre_artifact::{Dim, Lane, Operand, Register, Span};
use spyre_numerics::Converter;

use super::Stop;
use super::buffer::{Buffer, Element};
use super::machine::Machine;
use super::reduce::fold_row;
use super::registers::spread;

/// Rows of the left matrix that use one row of the right one while it is at hand.
const ROWS: usize = 4;
/// Columns at a time: rows of four results and one of the right matrix stay in the first cache.
const COLUMNS: usize = 1024;

/// A product of tiles: dims of both operands, of the left one, of the right one.
#[derive(Clone, Copy, Debug)]
struct Roles {
    both: Span,
    left: Span,
    right: Span,
    k: Dim,
}

/// How many there are of each.
#[derive(Clone, Copy, Debug)]
struct Counts {
    rows: usize,
    columns: usize,
    k: usize,
}

impl Roles {
    fn new(left: Span, right: Span, k: Dim) -> Self {
        let both = Span::from_bits(left.bits() & right.bits()).without(k);
        let only = |span: Span| Span::from_bits(span.bits() & !both.bits()).without(k);
        Self { both, left: only(left), right: only(right), k }
    }

    fn of_left(self) -> impl Iterator<Item = Dim> + Clone {
        self.both.dims().chain(self.left.dims()).chain([self.k])
    }

    fn of_right(self) -> impl Iterator<Item = Dim> + Clone {
        self.both.dims().chain([self.k]).chain(self.right.dims())
    }

    fn of_result(self) -> impl Iterator<Item = Dim> + Clone {
        self.both.dims().chain(self.left.dims()).chain(self.right.dims())
    }
}

impl Machine<'_> {
    pub(super) fn dot(
        &mut self,
        at: usize,
        target: Register,
        operands: [Operand; 2],
        k: Dim,
    ) -> Result<(), Stop> {
        match self.registers.type_of(target).lane {
            Lane::F64 => self.dot_as::<f64>(at, target, operands, k),
            _ => self.dot_as::<f32>(at, target, operands, k),
        }
    }

    fn dot_as<T: Element + Add<Output = T> + Mul<Output = T>>(
        &mut self,
        at: usize,
        target: Register,
        [left, right]: [Operand; 2],
        k: Dim,
    ) -> Result<(), Stop> {
        let roles = Roles::new(self.span_of(left), self.span_of(right), k);
        let code = self.code;
        let a = self.matrix::<T>(left, code.converter(at, 0)?, roles.of_left())?;
        let b = self.matrix::<T>(right, code.converter(at, 1)?, roles.of_right())?;
        let mut sums = self.sums::<T>(target, roles);
        let outcome = self.multiply(roles, T::of(&a), T::of(&b), &mut sums);
        self.put_sums(target, roles, sums);
        for mut tile in [a, b] {
            self.registers.give(std::mem::take(T::of_mut(&mut tile)));
        }
        outcome
    }

    fn matrix<T: Element>(
        &mut self,
        operand: Operand,
        converter: &Converter,
        dims: impl Iterator<Item = Dim> + Clone,
    ) -> Result<Buffer, Stop> {
        let mut tile = T::tile(self.registers.take());
        let lane = tile.lane();
        self.load_tile(operand, lane, converter, dims, &mut tile)?;
        Ok(tile)
    }

    /// What the target holds, in the order of the product.
    fn sums<T: Element>(&mut self, target: Register, roles: Roles) -> Vec<T> {
        let held = std::mem::take(T::of_mut(self.registers.tile_mut(target)));
        if roles.of_result().is_sorted() {
            return held;
        }
        let mut sums = self.registers.take();
        let span = self.registers.type_of(target).span;
        spread(&self.tiles, &held, span, roles.of_result(), &mut sums);
        self.registers.give(held);
        sums
    }

    fn put_sums<T: Element>(&mut self, target: Register, roles: Roles, sums: Vec<T>) {
        let mut held = sums;
        if !roles.of_result().is_sorted() {
            let sums = std::mem::replace(&mut held, self.registers.take());
            held.resize(sums.len(), T::default());
            let span = self.registers.type_of(target).span;
            let mut rest = sums.iter();
            let placed = self.tiles.nest(span, roles.of_result()).each_row(0, |row| {
                let places = held[row.start as usize..].iter_mut();
                let places = places.step_by(row.stride.max(1) as usize).take(row.elements);
                places.zip(&mut rest).for_each(|(place, sum)| *place = *sum);
                Ok::<(), std::convert::Infallible>(())
            });
            let Ok(()) = placed;
            self.registers.give(sums);
        }
        *T::of_mut(self.registers.tile_mut(target)) = held;
    }

    fn multiply<T: Element + Add<Output = T> + Mul<Output = T>>(
        &self,
        roles: Roles,
        a: &[T],
        b: &[T],
        sums: &mut [T],
    ) -> Result<(), Stop> {
        let counts = Counts {
            rows: self.tiles.elements_of(roles.left),
            columns: self.tiles.elements_of(roles.right),
            k: self.tiles.elements[roles.k.index()],
        };
        let Counts { rows, columns, k } = counts;
        let products = sums.chunks_mut(rows * columns);
        for ((sums, a), b) in products.zip(a.chunks(rows * k)).zip(b.chunks(k * columns)) {
            for (sums, a) in sums.chunks_mut(ROWS * columns).zip(a.chunks(ROWS * k)) {
                self.check_turn()?;
                add_rows(counts, a, b, sums);
            }
        }
        Ok(())
    }
}

/// Adds the product of up to four rows of `a` with all of `b`.
fn add_rows<T: Element + Add<Output = T> + Mul<Output = T>>(
    counts: Counts,
    a: &[T],
    b: &[T],
    sums: &mut [T],
) {
    let Counts { columns, k, .. } = counts;
    if columns == 1 {
        return add_column(k, a, b, sums);
    }
    for first in (0..columns).step_by(COLUMNS) {
        let last = columns.min(first + COLUMNS);
        if sums.len() == ROWS * columns {
            let mut rows = sums.chunks_exact_mut(columns).map(|row| &mut row[first..last]);
            if let (Some(s0), Some(s1), Some(s2), Some(s3)) =
                (rows.next(), rows.next(), rows.next(), rows.next())
            {
                for (at, b) in b.chunks_exact(columns).enumerate() {
                    let [a0, a1, a2, a3] = [a[at], a[k + at], a[2 * k + at], a[3 * k + at]];
                    let rows = s0.iter_mut().zip(s1.iter_mut()).zip(s2.iter_mut().zip(&mut *s3));
                    for (((s0, s1), (s2, s3)), &b) in rows.zip(&b[first..last]) {
                        *s0 = *s0 + a0 * b;
                        *s1 = *s1 + a1 * b;
                        *s2 = *s2 + a2 * b;
                        *s3 = *s3 + a3 * b;
                    }
                }
                continue;
            }
        }
        for (sums, a) in sums.chunks_exact_mut(columns).zip(a.chunks_exact(k)) {
            for (&a, b) in a.iter().zip(b.chunks_exact(columns)) {
                let columns = sums[first..last].iter_mut().zip(&b[first..last]);
                columns.for_each(|(sum, &b)| *sum = *sum + a * b);
            }
        }
    }
}

/// A matrix times a vector: each result is one row's sum.
fn add_column<T: Element + Add<Output = T> + Mul<Output = T>>(
    k: usize,
    a: &[T],
    b: &[T],
    sums: &mut [T],
) {
    let mut products = Vec::with_capacity(k);
    for (sum, a) in sums.iter_mut().zip(a.chunks_exact(k)) {
        products.clear();
        products.extend(a.iter().zip(b).map(|(&a, &b)| a * b));
        *sum = *sum + fold_row(&products, T::default(), |a, b| a + b);
    }
}
