//! Functions of single numbers on the lines of a strip.
#![allow(unsafe_code, reason = "tiles and device memory are known by address")]

use spyre_artifact::UnaryOp;

use crate::programs::execute::elementwise::{Arithmetic, Numbers};
use crate::programs::execute::vector::{Job, run_best};
use crate::programs::schedule::stop::Stop;
use crate::programs::strips::kernels::{Line, LineArgs, StripLoops, line, put};
use crate::programs::strips::lines::{Form, LINE, StripLines};

/// Makes a function of each number.
///
/// # Safety
/// All lines are there and whole, and those of `to` are no others', or the same as the source's.
pub(super) unsafe fn map(
    op: UnaryOp,
    loops: &StripLoops<'_>,
    from: &StripLines,
    to: &StripLines,
) -> Result<(), Stop> {
    run_best(Map(op, &LineArgs { loops, from, to }))
}

struct Map<'a>(UnaryOp, &'a LineArgs<'a>);

impl Job for Map<'_> {
    type Output = Result<(), Stop>;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> Result<(), Stop> {
        let Self(op, args) = self;
        f32::unary(op, LineNumbers::<TIER>(args))
    }
}

/// Numbers of lines, each of which is read once.
struct LineNumbers<'a, const TIER: u8>(&'a LineArgs<'a>);

impl<const TIER: u8> LineNumbers<'_, TIER> {
    #[inline(always)]
    fn each(self, act: impl Fn(&Line) -> Line) {
        let LineArgs { loops, from, to } = *self.0;
        let is_one = from.form == Form::One;
        let is_past_cache = to.form == Form::PastCache;
        for outer in 0..loops.outer {
            for inner in 0..loops.inner {
                loops.fetch(outer, inner);
                let [source, target] = [from, to].map(|lines| lines.at(outer, inner));
                // SAFETY: the makers of jobs promise that all lines are there.
                unsafe {
                    let line = if is_one { line::<true>(source) } else { line::<false>(source) };
                    let made = act(&line);
                    if is_past_cache {
                        put::<TIER, true>(target, &made);
                    } else {
                        put::<TIER, false>(target, &made);
                    }
                }
            }
        }
    }
}

impl<const TIER: u8> Numbers<f32> for LineNumbers<'_, TIER> {
    #[inline(always)]
    fn change(self, act: impl Fn(f32) -> f32) {
        self.each(
            #[inline(always)]
            |line| {
                let mut made = [0.0; LINE];
                for at in 0..LINE {
                    made[at] = act(line[at]);
                }
                made
            },
        );
    }

    /// Most lines are near: their results are made before that is known.
    #[inline(always)]
    fn change_in_pieces(
        self,
        is_near: impl Fn(f32) -> bool,
        near: impl Fn(f32) -> f32,
        any: impl Fn(f32) -> f32,
    ) {
        self.each(
            #[inline(always)]
            |line| {
                let mut made = [0.0; LINE];
                let mut are_near = true;
                for at in 0..LINE {
                    are_near &= is_near(line[at]);
                    made[at] = near(line[at]);
                }
                if !are_near {
                    for at in 0..LINE {
                        made[at] = any(line[at]);
                    }
                }
                made
            },
        );
    }
}
