//! Two registers of which one repeats: the commonest operations take its elements from where they are,
//! row by row, instead of from a copy that is as wide as the result.

use spyre_artifact::{BinaryOp, CompareOp, Register};
use spyre_numerics::Tier;

use crate::programs::access::nest::Nest;
use crate::programs::execute::buffer::Element;
use crate::programs::execute::elementwise::NanWins;
use crate::programs::execute::quotient::divide;
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::tiles::dims;

/// Shorter rows than this are better copied together.
const LEAST_ROW: usize = 32;

/// Operation on each pair.
pub(in crate::programs) trait Pairwise<T, U>: Copy {
    fn of(self, left: T, right: T) -> U;
}

/// Operation on each pair whose result replaces the left one.
pub(in crate::programs) trait InPlace<T: Copy>: Pairwise<T, T> {
    /// Applies it to a whole row, with one number at the right.
    #[inline(always)]
    fn with_one(self, row: &mut [T], right: T) {
        row.iter_mut().for_each(|left| *left = self.of(*left, right));
    }
}

impl<T, U, F: Fn(T, T) -> U + Copy> Pairwise<T, U> for F {
    #[inline(always)]
    fn of(self, left: T, right: T) -> U {
        self(left, right)
    }
}

impl<T: Copy, F: Fn(T, T) -> T + Copy> InPlace<T> for F {}

/// Division, which is cheaper if many numbers are divided by the same one.
#[derive(Clone, Copy)]
struct Over;

impl Pairwise<f32, f32> for Over {
    #[inline(always)]
    fn of(self, left: f32, right: f32) -> f32 {
        left / right
    }
}

impl InPlace<f32> for Over {
    #[inline(always)]
    fn with_one(self, row: &mut [f32], right: f32) {
        divide(row, right);
    }
}

impl Machine<'_> {
    /// Does it row by row, if it is one of these operations and the rows are long.
    pub(in crate::programs) fn binary_by_rows(
        &mut self,
        op: BinaryOp,
        target: Register,
        sources: [Register; 2],
    ) -> bool {
        match op {
            BinaryOp::Add => self.in_rows::<f32>(target, sources, |a, b| a + b),
            BinaryOp::Sub => self.in_rows::<f32>(target, sources, |a, b| a - b),
            BinaryOp::Mul => self.in_rows::<f32>(target, sources, |a, b| a * b),
            BinaryOp::Div => self.in_rows::<f32>(target, sources, Over),
            BinaryOp::Max => self.in_rows::<f32>(target, sources, f32::larger),
            _ => false,
        }
    }

    /// Like [`binary_by_rows`](Self::binary_by_rows), for comparisons of whole numbers, such as places.
    pub(in crate::programs) fn compare_by_rows(
        &mut self,
        op: CompareOp,
        target: Register,
        sources: [Register; 2],
    ) -> bool {
        match op {
            CompareOp::Less => self.by_rows::<i64, u8>(target, sources, |a, b| u8::from(a < b)),
            CompareOp::LessEqual => {
                self.by_rows::<i64, u8>(target, sources, |a, b| u8::from(a <= b))
            }
            CompareOp::Greater => self.by_rows::<i64, u8>(target, sources, |a, b| u8::from(a > b)),
            CompareOp::GreaterEqual => {
                self.by_rows::<i64, u8>(target, sources, |a, b| u8::from(a >= b))
            }
            _ => false,
        }
    }

    fn by_rows<T: Element, U: Element>(
        &mut self,
        target: Register,
        sources: [Register; 2],
        act: impl Pairwise<T, U>,
    ) -> bool {
        let Some(nests) = self.row_nests(target, sources) else { return false };
        let elements = self.tiles.elements_of(self.registers.type_of(target).span);
        let mut result = self.registers.sized::<U>(elements);
        let inputs = sources.map(|source| T::of(self.registers.tile(source)));
        run(Tier::detected(), ByRows { nests: &nests, inputs, result: &mut result, act });
        self.registers.put(target, result);
        true
    }

    /// Like [`by_rows`](Self::by_rows), but in place if the target is the first source only.
    fn in_rows<T: Element>(
        &mut self,
        target: Register,
        [first, second]: [Register; 2],
        act: impl InPlace<T>,
    ) -> bool {
        if target == first && target != second {
            self.in_place_rows(target, second, act)
        } else {
            self.by_rows(target, [first, second], act)
        }
    }

    /// Like [`by_rows`](Self::by_rows), with the target as the first source.
    pub(in crate::programs) fn in_place_rows<T: Element>(
        &mut self,
        target: Register,
        second: Register,
        act: impl InPlace<T>,
    ) -> bool {
        if !self.has_long_rows(target) {
            return false;
        }
        let nest = self.nest_of(second, target);
        let mut result = self.registers.take_from::<T>(target);
        let other = T::of(self.registers.tile(second));
        run(Tier::detected(), InRows { nest: &nest, other, result: &mut result, act });
        *T::of_mut(self.registers.tile_mut(target)) = result;
        true
    }

    /// Loops over the elements of both sources, if one repeats and rows are long.
    fn row_nests(&self, target: Register, sources: [Register; 2]) -> Option<[Nest; 2]> {
        let span = |register| self.registers.type_of(register).span;
        let repeats = sources.iter().any(|&source| span(source) != span(target));
        (repeats && self.has_long_rows(target)).then(|| sources.map(|it| self.nest_of(it, target)))
    }

    /// Returns true if rows of a register are worth a loop for each.
    pub(in crate::programs) fn has_long_rows(&self, register: Register) -> bool {
        let lengths =
            dims(self.registers.type_of(register).span).map(|dim| self.tiles.elements[dim.index()]);
        lengths.filter(|&length| length > 1).last().unwrap_or(0) >= LEAST_ROW
    }

    /// Loops over a register's elements, row by row of a wider one.
    pub(in crate::programs) fn nest_of(&self, register: Register, wide: Register) -> Nest {
        let [own, span] = [register, wide].map(|register| self.registers.type_of(register).span);
        self.tiles.nest_apart(own, dims(span))
    }
}

/// Elements that are replaced by what is made of each and another one.
struct InRows<'a, T, F> {
    /// Loops over the others, one for each dim.
    nest: &'a Nest,
    other: &'a [T],
    result: &'a mut [T],
    act: F,
}

impl<T: Element, F: InPlace<T>> Job for InRows<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { nest, other, result, act } = self;
        let mut starts = nest.starts();
        let row = nest.row();
        for result in result.chunks_exact_mut(row.elements) {
            let other = &other[starts.next()..];
            match row.stride {
                0 => act.with_one(result, other[0]),
                _ => {
                    let pairs = result.iter_mut().zip(other);
                    pairs.for_each(|(result, &other)| *result = act.of(*result, other));
                }
            }
        }
    }
}

struct ByRows<'a, T, U, F> {
    /// Loops over the elements of each source, one for each dim.
    nests: &'a [Nest; 2],
    inputs: [&'a [T]; 2],
    result: &'a mut [U],
    act: F,
}

impl<T: Element, U: Element, F: Pairwise<T, U>> Job for ByRows<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { nests: [left, right], inputs, result, act } = self;
        let [own, other] = [left.row(), right.row()];
        let mut firsts = left.starts();
        let mut seconds = right.starts();
        for result in result.chunks_exact_mut(own.elements) {
            let a = &inputs[0][firsts.next()..];
            let b = &inputs[1][seconds.next()..];
            match (own.stride, other.stride) {
                (0, 0) => result.fill(act.of(a[0], b[0])),
                (0, _) => {
                    let a = a[0];
                    result.iter_mut().zip(b).for_each(|(result, &b)| *result = act.of(a, b));
                }
                (_, 0) => {
                    let b = b[0];
                    result.iter_mut().zip(a).for_each(|(result, &a)| *result = act.of(a, b));
                }
                _ => {
                    let pairs = result.iter_mut().zip(a).zip(b);
                    pairs.for_each(|((result, &a), &b)| *result = act.of(a, b));
                }
            }
        }
    }
}
