use std::ops::{Add, Mul};

use spyre_artifact::{Dim, Lane, Operand, Register, Span};
use spyre_numerics::{Converter, Tier};

use super::Stop;
use super::buffer::{Buffer, Element};
use super::machine::Machine;
use super::product::{Matrix, PANEL, Product};
use super::reduce::fold_row;
use super::registers::spread;
use super::vector::vectorised;

/// Rows of the left matrix between two looks whether the block is to end.
const ROWS: usize = 64;
/// With fewer rows, a panel is used too seldom to be worth a copy of its own.
const LEAST_ROWS: usize = 6;

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

    fn dot_as<T: Element + Product + Add<Output = T> + Mul<Output = T>>(
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
        self.load_tile(operand, converter, dims, None, &mut tile)?;
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

    fn multiply<T: Element + Product + Add<Output = T> + Mul<Output = T>>(
        &mut self,
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
        let mut panel = self.registers.take::<T>();
        let products = sums.chunks_mut(rows * columns);
        for ((sums, a), b) in products.zip(a.chunks(rows * k)).zip(b.chunks(k * columns)) {
            match columns {
                1 => vectorised(|| add_column(k, a, b, sums, &mut panel)),
                _ => self.add_panels(counts, a, b, sums, &mut panel)?,
            }
        }
        self.registers.give(panel);
        Ok(())
    }

    /// Adds a product, panel by panel of the right matrix.
    fn add_panels<T: Element + Product>(
        &self,
        counts: Counts,
        a: &[T],
        b: &[T],
        sums: &mut [T],
        panel: &mut Vec<T>,
    ) -> Result<(), Stop> {
        let Counts { rows, columns, k } = counts;
        for first in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - first);
            let b = match width == PANEL && rows < LEAST_ROWS {
                true => Matrix { elements: &b[first..], pitch: columns },
                false => {
                    pack(b, columns, first, width, panel);
                    Matrix { elements: &panel[..], pitch: PANEL }
                }
            };
            for row in (0..rows).step_by(ROWS) {
                self.check_turn()?;
                let end = rows.min(row + ROWS);
                let a = Matrix { elements: &a[row * k..end * k], pitch: k };
                let sums = &mut sums[row * columns + first..(end - 1) * columns + first + width];
                T::add_product(Tier::detected(), k, a, b, sums, columns, width);
            }
        }
        Ok(())
    }
}

/// Copies some columns of all rows; what is left of the panel is zero.
fn pack<T: Element>(b: &[T], columns: usize, first: usize, width: usize, panel: &mut Vec<T>) {
    panel.clear();
    for row in b.chunks_exact(columns) {
        panel.extend_from_slice(&row[first..first + width]);
        panel.resize(panel.len() + PANEL - width, T::default());
    }
}

/// A matrix times a vector: each result is one row's sum.
#[inline(always)]
fn add_column<T: Element + Add<Output = T> + Mul<Output = T>>(
    k: usize,
    a: &[T],
    b: &[T],
    sums: &mut [T],
    products: &mut Vec<T>,
) {
    for (sum, a) in sums.iter_mut().zip(a.chunks_exact(k)) {
        products.clear();
        products.extend(a.iter().zip(b).map(|(&a, &b)| a * b));
        *sum = *sum + fold_row(products, T::default(), |a, b| a + b);
    }
}
