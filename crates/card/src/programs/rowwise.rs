//! Two registers of which one repeats: the commonest operations take its elements from where they are,
//! row by row, instead of from a copy that is as wide as the result.

use spyre_artifact::{BinaryOp, CompareOp, MAX_DIMS, Register};
use spyre_numerics::Tier;

use super::buffer::Element;
use super::elementwise::NanWins;
use super::machine::Machine;
use super::nest::{Nest, Row};
use super::tiles::dims;
use super::vector::{Job, run};

/// Shorter rows than this are better copied together.
const LEAST_ROW: usize = 32;

/// What is done with each pair.
trait Pairwise<T, U>: Copy {
    fn of(self, left: T, right: T) -> U;
}

impl<T, U, F: Fn(T, T) -> U + Copy> Pairwise<T, U> for F {
    #[inline(always)]
    fn of(self, left: T, right: T) -> U {
        self(left, right)
    }
}

impl Machine<'_> {
    /// Does it row by row, if it is one of these operations and the rows are long.
    pub(super) fn binary_by_rows(
        &mut self,
        op: BinaryOp,
        target: Register,
        sources: [Register; 2],
    ) -> bool {
        match op {
            BinaryOp::Add => self.by_rows::<f32, f32>(target, sources, |a, b| a + b),
            BinaryOp::Sub => self.by_rows::<f32, f32>(target, sources, |a, b| a - b),
            BinaryOp::Mul => self.by_rows::<f32, f32>(target, sources, |a, b| a * b),
            BinaryOp::Div => self.by_rows::<f32, f32>(target, sources, |a, b| a / b),
            BinaryOp::Max => self.by_rows::<f32, f32>(target, sources, f32::larger),
            _ => false,
        }
    }

    /// The same of whole numbers, such as places.
    pub(super) fn compare_by_rows(
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
        act: impl Fn(T, T) -> U + Copy,
    ) -> bool {
        let spans = sources.map(|source| self.registers.type_of(source).span);
        let span = self.registers.type_of(target).span;
        let length = |dim: &spyre_artifact::Dim| self.tiles.elements[dim.index()];
        let row = dims(span).filter(|dim| length(dim) > 1).last().map_or(0, |dim| length(&dim));
        if spans == [span; 2] || row < LEAST_ROW {
            return false;
        }
        let nests = spans.map(|own| self.tiles.nest_apart(own, dims(span)));
        let mut result = self.registers.take::<U>();
        result.resize(self.tiles.elements_of(span), U::default());
        let inputs = sources.map(|source| T::of(self.registers.tile(source)));
        run(Tier::detected(), ByRows { nests, inputs, result: &mut result, act });
        self.registers.put(target, result);
        true
    }
}

struct ByRows<'a, T, U, F> {
    /// How the elements of each source are met, dim by dim.
    nests: [Nest; 2],
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
        let mut places = Places { index: [0; MAX_DIMS], starts: [0; 2] };
        for result in result.chunks_exact_mut(own.elements) {
            let [first, second] = places.starts;
            let (a, b) = (&inputs[0][first..], &inputs[1][second..]);
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
            places.next(left.outer(), right.outer());
        }
    }
}

/// Where the rows of both sources begin.
struct Places {
    index: [usize; MAX_DIMS],
    starts: [usize; 2],
}

impl Places {
    #[inline(always)]
    fn next(&mut self, left: &[Row], right: &[Row]) {
        for (at, (a, b)) in left.iter().zip(right).enumerate().rev() {
            let steps = [a.stride as usize, b.stride as usize];
            self.index[at] += 1;
            (0..2).for_each(|side| self.starts[side] += steps[side]);
            if self.index[at] < a.elements {
                return;
            }
            (0..2).for_each(|side| self.starts[side] -= self.index[at] * steps[side]);
            self.index[at] = 0;
        }
    }
}
