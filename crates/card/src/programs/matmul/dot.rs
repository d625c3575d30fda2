use spyre_artifact::{Dim, Instruction, Lane, Operand, Register, Span};
use spyre_numerics::Tier;

use crate::programs::execute::broadcast::spread;
use crate::programs::execute::buffer::Element;
use crate::programs::execute::transpose::Transpose;
use crate::programs::execute::vector::LANES;
use crate::programs::execute::vector::vectorised;
use crate::programs::load::factors::{TensorFactor, TensorSide};
use crate::programs::matmul::blocks::Factors;
use crate::programs::matmul::operands::{Columns, Right, Roles, Side};
use crate::programs::matmul::product::{Matrix, PANEL, Product};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

/// Rows of the left matrix between two looks whether the block is to end.
const ROWS: usize = 224;
/// Up to so many rows, columns of the right matrix that lie along k are used as they are: to transpose
/// them would take longer than to sum up each result by itself.
pub(in crate::programs) const FEW_ROWS: usize = 4;

/// Element of matrices that are multiplied.
pub(in crate::programs) trait Factor: Element + Product + Transpose {}

impl<T: Element + Product + Transpose> Factor for T {}

/// Sizes of a product.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Counts {
    pub(in crate::programs) batches: usize,
    pub(in crate::programs) rows: usize,
    pub(in crate::programs) columns: usize,
    pub(in crate::programs) k: usize,
}

impl Machine<'_> {
    /// Adds the product of two operands' tiles.
    pub(in crate::programs) fn dot(
        &mut self,
        at: usize,
        target: Register,
        [left, right]: [Operand; 2],
        k: Dim,
    ) -> Result<(), Stop> {
        let [of_left, of_right] = [left, right].map(|side| self.span_of(side));
        let of_target = self.registers.type_of(target).span;
        let roles = Roles::new(of_left, of_right, (of_left | of_right).minus(of_target));
        let left = Side::Tensor(TensorSide { operand: left, at, nth: 0 });
        let right = TensorSide { operand: right, at, nth: 1 };
        self.add_factors(target, Factors { left, right, k, roles })
    }

    /// Adds the product of two sides, of which the right one is a tensor's tile.
    fn add_factors(&mut self, target: Register, factors: Factors) -> Result<(), Stop> {
        let Factors { left, right, roles, k } = factors;
        let sides = [left, Side::Tensor(right)];
        let is_single = self.is_single(roles.both | roles.k.without(k), roles.right);
        match self.registers.type_of(target).lane {
            Lane::F64 => self.add_products::<f64>(target, sides, roles),
            _ if !is_single => self.add_products::<f32>(target, sides, roles),
            _ => match self.thin_columns(factors) {
                Some(columns) => self.add_thin(target, factors, columns),
                None if self.add_few_rows(target, factors)? => Ok(()),
                None => self.add_blocks(target, factors),
            },
        }
    }

    /// Adds the product of two operands over all of a dim, whose loop holds nothing else: `at` is the product's
    /// place. Returns false if it is better added tile by tile.
    pub(in crate::programs) fn dot_over_all(&mut self, at: usize, dim: Dim) -> Result<bool, Stop> {
        let Instruction::Dot { target, left, right, k } = self.code.program().instructions()[at]
        else {
            return Ok(false);
        };
        let both = (self.span_of(left) & self.span_of(right)).minus(Span::NONE.with(k));
        let columns = self.span_of(right).minus(both | Span::NONE.with(k));
        let is_single = self.is_single(both, columns);
        let is_f32 = self.registers.type_of(target).lane == Lane::F32;
        if k != dim || !is_single || !is_f32 || self.binding.extents[k.index()] == 0 {
            return Ok(false);
        }
        let tiles = self.tiles;
        self.tiles.starts[k.index()] = 0;
        self.tiles.elements[k.index()] = self.binding.extents[k.index()];
        let outcome = self.dot(at, target, [left, right], k);
        self.tiles = tiles;
        outcome.map(|()| true)
    }

    /// Returns true if there is one product, of several columns: a single one is summed in lanes.
    fn is_single(&self, both: Span, columns: Span) -> bool {
        self.tiles.elements_of(both) == 1 && self.tiles.elements_of(columns) > 1
    }

    /// The columns of the right side, if they lie along k and there are so few rows that they are used as they are.
    fn thin_columns(&self, factors: Factors) -> Option<Columns> {
        let Factors { right, roles, .. } = factors;
        let is_long = |dim: &Dim| self.tiles.elements[dim.index()] > 1;
        let mut columns = dims(roles.right).filter(is_long);
        let column = columns.next().filter(|_| columns.next().is_none())?;
        // The order in which a register's tile is multiplied does not depend on where the tile lies.
        let is_along = matches!(factors.left, Side::Tensor(_)) || column < factors.k;
        let is_thin = is_along
            && self.tiles.elements_of(roles.left) <= FEW_ROWS
            && self.lies_along(right.operand, roles.k, roles.right);
        is_thin.then_some(Columns { side: right, k: roles.k, column })
    }

    /// Adds the product of two registers, the right one of which may be a tensor's tile that was not loaded.
    pub(in crate::programs) fn multiply(
        &mut self,
        at: usize,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Stop> {
        let [of_left, of_right, of_target] =
            [left, right, target].map(|register| self.registers.type_of(register).span);
        let roles = Roles::new(of_left, of_right, (of_left | of_right).minus(of_target));
        let left = Side::Register(left);
        if let Some(TensorFactor { right, k }) = self.code.factor(at) {
            return self.add_factors(target, Factors { left, right, k, roles });
        }
        let sides = [left, Side::Register(right)];
        match self.registers.type_of(target).lane {
            Lane::F64 => self.add_products::<f64>(target, sides, roles),
            Lane::I64 => self.add_products::<i64>(target, sides, roles),
            _ => self.add_products::<f32>(target, sides, roles),
        }
    }

    fn add_products<T: Factor>(
        &mut self,
        target: Register,
        [left, right]: [Side; 2],
        roles: Roles,
    ) -> Result<(), Stop> {
        let counts = Counts {
            batches: self.tiles.elements_of(roles.both),
            rows: self.tiles.elements_of(roles.left),
            columns: self.tiles.elements_of(roles.right),
            k: self.tiles.elements_of(roles.k),
        };
        let right = self.right::<T>(right, left, roles)?;
        let left = self.left::<T>(left, roles)?;
        let mut sums = self.sums::<T>(target, roles);
        let mut panel = self.registers.take();
        let outcome = (0..counts.batches).try_for_each(|batch| {
            let Counts { rows, columns, k, .. } = counts;
            let a = &left.elements[batch * rows * k..][..rows * k];
            let sums = &mut sums[batch * rows * columns..][..rows * columns];
            self.add_product(counts, a, (&right, batch), sums, &mut panel)
        });
        self.put_sums(target, roles, sums);
        self.put_back(left);
        self.put_back_right(right);
        self.registers.give(panel);
        outcome
    }

    /// Adds one product of two matrices, panel by panel of the right one.
    fn add_product<T: Factor>(
        &self,
        counts: Counts,
        a: &[T],
        (right, batch): (&Right<T>, usize),
        sums: &mut [T],
        panel: &mut Vec<T>,
    ) -> Result<(), Stop> {
        let Counts { rows, columns, k, .. } = counts;
        let is_few = rows <= FEW_ROWS;
        if let (1, Some(b)) = (columns, right.vector(batch, k)) {
            vectorised(
                #[inline(always)]
                || add_dots(k, b, a, sums, rows),
            );
            return self.check_turn();
        }
        for first in (0..columns).step_by(PANEL) {
            self.check_turn()?;
            let width = PANEL.min(columns - first);
            let sums = &mut sums[first..(rows - 1) * columns + first + width];
            match right.columns(batch * columns + first, width, k) {
                Some(b) if is_few => vectorised(
                    #[inline(always)]
                    || add_dots(k, a, b, sums, columns),
                ),
                Some(b) => {
                    room_for(panel, k, width);
                    T::transpose(Tier::detected(), b, k, panel, PANEL);
                    self.add_panel(counts, a, whole(panel), sums, width)?;
                }
                None => match right.panel(counts, [batch, first]) {
                    Some(b) => self.add_panel(counts, a, b, sums, width)?,
                    None => {
                        right.pack(counts, [batch, first, width], panel);
                        self.add_panel(counts, a, whole(panel), sums, width)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn add_panel<T: Factor>(
        &self,
        counts: Counts,
        a: &[T],
        b: Matrix<'_, T>,
        sums: &mut [T],
        width: usize,
    ) -> Result<(), Stop> {
        let Counts { rows, columns, k, .. } = counts;
        for row in (0..rows).step_by(ROWS) {
            self.check_turn()?;
            let end = rows.min(row + ROWS);
            let a = Matrix { elements: &a[row * k..end * k], pitch: k };
            let sums = &mut sums[row * columns..(end - 1) * columns + width];
            T::add_product(Tier::detected(), k, a, b, sums, columns, width);
        }
        Ok(())
    }

    /// Sums that the target holds, in the order of the product.
    pub(in crate::programs) fn sums<T: Element>(
        &mut self,
        target: Register,
        roles: Roles,
    ) -> Vec<T> {
        let held = std::mem::take(T::of_mut(self.registers.tile_mut(target)));
        if self.is_in_order(roles.of_result()) {
            return held;
        }
        let mut sums = self.registers.take();
        let span = self.registers.type_of(target).span;
        spread(&self.tiles, &held, span, roles.of_result(), &mut sums);
        self.registers.give(held);
        sums
    }

    pub(in crate::programs) fn put_sums<T: Element>(
        &mut self,
        target: Register,
        roles: Roles,
        sums: Vec<T>,
    ) {
        let mut held = sums;
        if !self.is_in_order(roles.of_result()) {
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
}

/// A panel whose rows follow each other.
fn whole<T>(panel: &[T]) -> Matrix<'_, T> {
    Matrix { elements: panel, pitch: PANEL }
}

/// Makes a panel as long as k; columns that are not filled are zero.
pub(in crate::programs) fn room_for<T: Element>(panel: &mut Vec<T>, k: usize, width: usize) {
    if width < PANEL {
        panel.clear();
    }
    panel.resize(k * PANEL, T::default());
}

/// Adds the product of rows of k and columns of k, which all lie along k, to rows of sums that are
/// `pitch` apart. Each result is summed up in lanes, and the lanes then: in the same order always.
#[inline(always)]
pub(in crate::programs) fn add_dots<T: Factor>(
    k: usize,
    a: &[T],
    b: &[T],
    sums: &mut [T],
    pitch: usize,
) {
    for (column, b) in b.chunks_exact(k).enumerate() {
        for (row, a) in a.chunks_exact(k).enumerate() {
            let sum = &mut sums[row * pitch + column];
            *sum = sum.plus(dot(a, b));
        }
    }
}

#[inline(always)]
fn dot<T: Factor>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::default(); LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = T::fused(a, b, *lane);
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = T::fused(a, b, *lane);
    }
    joined(lanes)
}

/// Sum of all lanes.
#[inline(always)]
pub(in crate::programs) fn joined<T: Factor>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        (0..width).for_each(|at| lanes[at] = lanes[at].plus(lanes[at + width]));
        width /= 2;
    }
    lanes[0]
}
