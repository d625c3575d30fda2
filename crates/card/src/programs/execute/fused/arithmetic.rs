//! Sums, differences and products that replace each other in one register, as `x * scale * weight +
//! bias` does: up to three are one pass.
//!
//! With one number for a whole row, all of them are `v * m + a` with one rounding, where m is one or a is
//! -0: the bits are those of the operation. So there are few forms of a link, and a loop for every three.

use smallvec::SmallVec;
use spyre_numerics::Tier;

use crate::programs::access::nest::{Nest, Starts};
use crate::programs::execute::buffer::Element;
use crate::programs::execute::fused::link_op::{LinkOp, MOST_LINKS};
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;

impl Machine<'_> {
    /// Does so many links from a place on, if rows are long and the CPU has what it takes.
    pub(in crate::programs) fn link(&mut self, at: usize, count: usize) -> bool {
        let instructions = &self.code.program().instructions()[at..at + count];
        let Some((target, ..)) = instructions.first().and_then(LinkOp::of) else { return false };
        if Tier::detected() == Tier::Portable || !self.has_long_rows(target) {
            return false;
        }
        let mut values = self.registers.take_from::<f32>(target);
        let links = instructions.iter().filter_map(LinkOp::of).map(|(_, op, other)| {
            let nest = self.nest_of(other, target);
            Link { op, nest, other: f32::of(self.registers.tile(other)) }
        });
        run(Tier::detected(), Pass { links: links.collect(), values: &mut values });
        *f32::of_mut(self.registers.tile_mut(target)) = values;
        true
    }
}

struct Link<'a> {
    op: LinkOp,
    /// Loops over the others.
    nest: Nest,
    other: &'a [f32],
}

impl<'a> Link<'a> {
    /// Form of the link at the next row.
    #[inline(always)]
    fn at_row(&self, starts: &mut Starts<'_>) -> Form<'a> {
        let others = &self.other[starts.next()..];
        match (self.nest.row().stride, self.op) {
            (0, LinkOp::Plus) => Form::Same([1.0, others[0]]),
            (0, LinkOp::Minus) => Form::Same([1.0, -others[0]]),
            (0, LinkOp::Times) => Form::Same([others[0], -0.0]),
            (_, LinkOp::Plus) => Form::Plus(others),
            (_, LinkOp::Minus) => Form::Minus(others),
            (_, LinkOp::Times) => Form::Times(others),
        }
    }
}

/// A link at one row.
#[derive(Clone, Copy)]
enum Form<'a> {
    Same([f32; 2]),
    Plus(&'a [f32]),
    Minus(&'a [f32]),
    Times(&'a [f32]),
}

/// Form that leaves every number as it is.
const IDLE: Form<'static> = Form::Same([1.0, -0.0]);

struct Pass<'a> {
    links: SmallVec<[Link<'a>; MOST_LINKS]>,
    values: &'a mut [f32],
}

impl Job for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { links, values } = self;
        let Some(row) = links.first().map(|link| link.nest.row().elements) else { return };
        let mut starts: SmallVec<[_; MOST_LINKS]> =
            links.iter().map(|link| link.nest.starts()).collect();
        for values in values.chunks_exact_mut(row) {
            let mut forms = [IDLE; MOST_LINKS];
            for ((form, link), starts) in forms.iter_mut().zip(&links).zip(&mut starts) {
                *form = link.at_row(starts);
            }
            link_row(values, forms);
        }
    }
}

/// One link as a type of its own: the loop over a row of so many is compiled for each.
macro_rules! with_form {
    ($form:expr, $elements:expr, |$link:ident| $then:expr) => {
        match $form {
            Form::Same([m, a]) => {
                let $link = |_: usize, v: f32| v.mul_add(m, a);
                $then
            }
            Form::Plus(others) => {
                let others = &others[..$elements];
                let $link = |at: usize, v: f32| v + others[at];
                $then
            }
            Form::Minus(others) => {
                let others = &others[..$elements];
                let $link = |at: usize, v: f32| v - others[at];
                $then
            }
            Form::Times(others) => {
                let others = &others[..$elements];
                let $link = |at: usize, v: f32| v * others[at];
                $then
            }
        }
    };
}

/// Written with indices, which are the same for all that is met.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "an iterator's end is another one to the compiler")]
fn link_row(values: &mut [f32], [first, second, third]: [Form<'_>; MOST_LINKS]) {
    let elements = values.len();
    with_form!(first, elements, |first| with_form!(second, elements, |second| {
        with_form!(third, elements, |third| {
            for at in 0..elements {
                values[at] = third(at, second(at, first(at, values[at])));
            }
        });
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::execute::vector;

    const NUMBERS: [f32; 14] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        -3.3,
        7e-39,
        -1e-45,
        1e-30,
        -2e30,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];

    /// Result of one link for a number.
    fn linked(op: LinkOp, value: f32, other: f32) -> f32 {
        match op {
            LinkOp::Plus => value + other,
            LinkOp::Minus => value - other,
            LinkOp::Times => value * other,
        }
    }

    #[test]
    fn links_leave_the_bits_of_their_operations() {
        let tiers = Tier::ALL.into_iter().filter(|tier| *tier > Tier::Portable);
        for tier in tiers.filter(|tier| tier.is_available()) {
            for other in NUMBERS {
                for op in [LinkOp::Plus, LinkOp::Minus, LinkOp::Times] {
                    let expected = NUMBERS.map(|value| linked(op, value, other));
                    for (others, steps) in [(vec![other], 0), (vec![other; NUMBERS.len()], 1)] {
                        let nest = Nest::over([(NUMBERS.len(), steps)]);
                        let link = Link { op, nest, other: &others };
                        let form = link.at_row(&mut link.nest.starts());
                        for forms in [[form, IDLE, IDLE], [IDLE, form, IDLE], [IDLE, IDLE, form]] {
                            let mut values = NUMBERS;
                            vector::at(
                                tier,
                                #[inline(always)]
                                || link_row(&mut values, forms),
                            );
                            let is_same = |(a, b): (&f32, &f32)| {
                                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                            };
                            let are_same = values.iter().zip(&expected).all(is_same);
                            assert!(are_same, "{tier}, {op:?} {other}: {values:?} {expected:?}");
                        }
                    }
                }
            }
        }
    }
}
