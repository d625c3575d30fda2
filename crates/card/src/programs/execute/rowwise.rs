//! Two registers of which one repeats: the commonest operations take its elements from where they are,
//! row by row, instead of from a copy that is as wide as the result.

use spyre_artifact::{CompareOp, Register};
use spyre_numerics::Tier;

use crate::programs::access::nest::Nest;
use crate::programs::execute::buffer::Element;
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::tiles::dims;

/// Shorter rows than this are better copied together.
const LEAST_ROW: usize = 32;

/// Operation on each pair.
pub(in crate::programs) trait Pairwise<T, U>: Copy {
    fn of(self, left: T, right: T) -> U;
}

impl<T, U, F: Fn(T, T) -> U + Copy> Pairwise<T, U> for F {
    #[inline(always)]
    fn of(self, left: T, right: T) -> U {
        self(left, right)
    }
}

impl Machine<'_> {
    /// Compares whole numbers, such as places, row by row if the rows are long.
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
