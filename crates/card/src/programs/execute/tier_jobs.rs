//! Operations on whole tiles as jobs. A closure would do, but for one thing: those that hold a loop
//! for each of many operations are too large for the compiler to move them into the function that
//! has a tier's instructions, and a job must be there.

use spyre_artifact::{BinaryOp, CompareOp, UnaryOp};
use spyre_numerics::Tier;

use crate::programs::execute::buffer::Element;
use crate::programs::execute::elementwise::{Arithmetic, compare};
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::stop::Stop;

/// One value in, one out, in its place.
pub(in crate::programs) fn unary<T: Arithmetic>(
    op: UnaryOp,
) -> impl FnOnce(&mut [T]) -> Result<(), Stop> {
    move |values| run(Tier::detected(), Unary { op, values })
}

/// Two values in, one out.
pub(in crate::programs) fn binary<T: Arithmetic>(
    op: BinaryOp,
) -> impl FnMut([&[T]; 2], &mut [T]) -> Result<(), Stop> {
    move |sources, target| run(Tier::detected(), Binary { op, sources, target })
}

/// Two values in, a truth value out.
pub(in crate::programs) fn comparison<T: Element>(
    op: CompareOp,
) -> impl FnMut([&[T]; 2], &mut [u8]) -> Result<(), Stop> {
    move |sources, target| run(Tier::detected(), Compare { op, sources, target })
}

struct Unary<'a, T> {
    op: UnaryOp,
    values: &'a mut [T],
}

struct Binary<'a, T> {
    op: BinaryOp,
    sources: [&'a [T]; 2],
    target: &'a mut [T],
}

struct Compare<'a, T> {
    op: CompareOp,
    sources: [&'a [T]; 2],
    target: &'a mut [u8],
}

impl<T: Arithmetic> Job for Unary<'_, T> {
    type Output = Result<(), Stop>;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> Result<(), Stop> {
        T::unary(self.op, self.values)
    }
}

impl<T: Arithmetic> Job for Binary<'_, T> {
    type Output = Result<(), Stop>;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> Result<(), Stop> {
        T::binary(self.op, self.sources, self.target)
    }
}

impl<T: Element> Job for Compare<'_, T> {
    type Output = Result<(), Stop>;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> Result<(), Stop> {
        compare::<T>(self.op, self.sources, self.target)
    }
}
