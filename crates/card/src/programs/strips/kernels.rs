//! StripLoops over the lines of a strip.
#![allow(unsafe_code, reason = "tiles and device memory are known by address")]

use spyre_artifact::{BinaryOp, ReduceOp};
use spyre_layout::store_stick_past_cache;

use crate::programs::execute::extremes::NanWins;
use crate::programs::execute::quotient;
use crate::programs::execute::vector::LANES;
use crate::programs::execute::vector::{Job, run_best};
use crate::programs::strips::lines::{Form, LINE, StripLines};
use crate::programs::strips::prefetch::{self, FetchedLines};

/// Operation that reads its operands where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZipOp {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

impl ZipOp {
    pub(super) fn of(op: BinaryOp) -> Option<Self> {
        Some(match op {
            BinaryOp::Add => Self::Add,
            BinaryOp::Sub => Self::Sub,
            BinaryOp::Mul => Self::Mul,
            BinaryOp::Div => Self::Div,
            BinaryOp::Min => Self::Min,
            BinaryOp::Max => Self::Max,
            _ => return None,
        })
    }
}

/// TileLines in two loops, each of so many elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripLoops<'a> {
    pub(super) outer: usize,
    pub(super) inner: usize,
    pub(super) elements: usize,
    /// Lines of a later strip, each of which the cache is to fetch while one of this strip is worked on.
    pub(super) fetched: &'a [FetchedLines],
}

/// Copies lines; one number becomes a line of it.
///
/// # Safety
/// All lines are there, and those of `to` are no others'.
pub(super) unsafe fn copy(loops: &StripLoops<'_>, from: &StripLines, to: &StripLines) {
    // SAFETY: as the caller promises.
    unsafe {
        if loops.elements < LINE {
            copy_short(loops, from, to);
        } else {
            let args = &ZipArgs { loops, from: [from; 2], to };
            run_best(CopyLines(args));
        }
    }
}

/// Copies bytes of truth values.
///
/// # Safety
/// As [`copy`].
pub(super) unsafe fn copy_bools(loops: &StripLoops<'_>, from: &StripLines, to: &StripLines) {
    for outer in 0..loops.outer {
        for inner in 0..loops.inner {
            // SAFETY: as the caller promises.
            unsafe {
                let source = from.at(outer, inner);
                let target = to.at(outer, inner);
                if from.form == Form::One {
                    std::ptr::write_bytes(target, *source, loops.elements);
                } else {
                    std::ptr::copy(source, target, loops.elements);
                }
            }
        }
    }
}

/// Makes each number of two.
///
/// # Safety
/// All lines are there and whole, and those of `to` are no others', or the same as a source's.
pub(super) unsafe fn zip(
    op: ZipOp,
    loops: &StripLoops<'_>,
    from: [&StripLines; 2],
    to: &StripLines,
) {
    run_best(Zip(op, &ZipArgs { loops, from, to }));
}

/// Combines lines with the lanes of their rows.
///
/// # Safety
/// All lines are there; each of `lanes` is an array of partial results.
pub(super) unsafe fn reduce_rows(
    op: ReduceOp,
    loops: &StripLoops<'_>,
    from: &StripLines,
    lanes: &StripLines,
) {
    run_best(ReduceRows(op, &LineArgs { loops, from, to: lanes }));
}

/// Combines lines with a line for each column.
///
/// # Safety
/// All lines are there.
pub(super) unsafe fn reduce_columns(
    op: ReduceOp,
    loops: &StripLoops<'_>,
    from: &StripLines,
    to: &StripLines,
) {
    run_best(ReduceColumns(op, &LineArgs { loops, from, to }));
}

impl StripLoops<'_> {
    /// Has the cache fetch the lines of a step: hints are spread over the loops, as memory takes few at a time.
    #[inline(always)]
    pub(super) fn fetch(&self, outer: usize, inner: usize) {
        match self.fetched {
            [] => {}
            [only] => only.fetch(outer, inner),
            [first, second] => {
                first.fetch(outer, inner);
                second.fetch(outer, inner);
            }
            many => prefetch::fetch_each(many, outer, inner),
        }
    }

    /// Has the cache fetch all of them, for an operation that goes over lines in a loop of its own.
    pub(super) fn fetch_all(&self) {
        for outer in 0..self.outer {
            for inner in 0..self.inner {
                self.fetch(outer, inner);
            }
        }
    }
}

/// Combination of two numbers by a reduction.
#[inline(always)]
pub(super) fn combined(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Product => a * b,
        ReduceOp::Max => a.larger(b),
        ReduceOp::Min => a.smaller(b),
        _ => a + b,
    }
}

/// Number that leaves every other as it is.
pub(super) fn neutral(op: ReduceOp) -> f32 {
    match op {
        ReduceOp::Product => 1.0,
        ReduceOp::Max => f32::NEG_INFINITY,
        ReduceOp::Min => f32::INFINITY,
        // -0 leaves every number as it is, 0 does not.
        _ => -0.0,
    }
}

/// # Safety
/// As [`copy`].
unsafe fn copy_short(loops: &StripLoops<'_>, from: &StripLines, to: &StripLines) {
    for outer in 0..loops.outer {
        for inner in 0..loops.inner {
            let source = from.at(outer, inner).cast::<f32>();
            let target = to.at(outer, inner).cast::<f32>();
            for at in 0..loops.elements {
                let place = if from.form == Form::One { 0 } else { at };
                // SAFETY: as the caller promises.
                unsafe { target.add(at).write_unaligned(source.add(place).read_unaligned()) };
            }
        }
    }
}

/// Elements of a line.
pub(super) type Line = [f32; LINE];

/// # Safety
/// The line is there.
#[inline(always)]
pub(super) unsafe fn line<const ONE: bool>(address: *const u8) -> Line {
    // SAFETY: as the caller promises.
    unsafe {
        if ONE {
            [address.cast::<f32>().read_unaligned(); LINE]
        } else {
            address.cast::<Line>().read_unaligned()
        }
    }
}

/// # Safety
/// The line is there, and in whole lines of memory if it is stored past the cache; the CPU has the tier.
#[inline(always)]
pub(super) unsafe fn put<const TIER: u8, const PAST_CACHE: bool>(address: *mut u8, line: &Line) {
    // SAFETY: as the caller promises.
    unsafe {
        if PAST_CACHE {
            store_stick_past_cache::<TIER>(line, address);
        } else {
            address.cast::<Line>().write_unaligned(*line);
        }
    }
}

// Jobs are two words, and loops keep what they read of their arguments in registers: what has just been stored
// field by field is not read whole without waiting for all stores before.

struct ZipArgs<'a> {
    loops: &'a StripLoops<'a>,
    from: [&'a StripLines; 2],
    to: &'a StripLines,
}

/// Lines that are read, and lines that are made of them.
pub(super) struct LineArgs<'a> {
    pub(super) loops: &'a StripLoops<'a>,
    pub(super) from: &'a StripLines,
    pub(super) to: &'a StripLines,
}

/// Addresses of lines that are gone over.
#[derive(Clone, Copy)]
struct LineCursor {
    first: *mut u8,
    outer: usize,
    inner: usize,
}

impl LineCursor {
    #[inline(always)]
    fn of(lines: &StripLines) -> Self {
        Self { first: lines.first, outer: lines.outer, inner: lines.inner }
    }

    /// First line of a step of the outer loop.
    #[inline(always)]
    fn row(self, outer: usize) -> *mut u8 {
        self.first.wrapping_add(outer * self.outer)
    }
}

struct CopyLines<'a>(&'a ZipArgs<'a>);

impl Job for CopyLines<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let same = |a, _| a;
        match self.0.from[0].form {
            Form::One => each::<TIER, true, true>(self.0, same),
            _ => each::<TIER, false, false>(self.0, same),
        }
    }
}

struct Zip<'a>(ZipOp, &'a ZipArgs<'a>);

impl Job for Zip<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self(op, args) = self;
        match op {
            ZipOp::Add => forms::<TIER>(args, |a, b| a + b),
            ZipOp::Sub => forms::<TIER>(args, |a, b| a - b),
            ZipOp::Mul => forms::<TIER>(args, |a, b| a * b),
            ZipOp::Div if args.from[0].form != Form::One && args.from[1].form == Form::One => {
                lines_over_one::<TIER>(args);
            }
            ZipOp::Div => forms::<TIER>(args, |a, b| a / b),
            ZipOp::Min => forms::<TIER>(args, f32::smaller),
            ZipOp::Max => forms::<TIER>(args, f32::larger),
        }
    }
}

/// Chooses the loop for the forms of both sources.
#[inline(always)]
fn forms<const TIER: u8>(args: &ZipArgs<'_>, act: impl Fn(f32, f32) -> f32) {
    match args.from.map(|lines| lines.form == Form::One) {
        [false, false] => each::<TIER, false, false>(args, act),
        [true, false] => each::<TIER, true, false>(args, act),
        [false, true] => each::<TIER, false, true>(args, act),
        [true, true] => each::<TIER, true, true>(args, act),
    }
}

#[inline(always)]
fn each<const TIER: u8, const ONE_LEFT: bool, const ONE_RIGHT: bool>(
    args: &ZipArgs<'_>,
    act: impl Fn(f32, f32) -> f32,
) {
    if args.to.form == Form::PastCache {
        each_to::<TIER, ONE_LEFT, ONE_RIGHT, true>(args, act);
    } else {
        each_to::<TIER, ONE_LEFT, ONE_RIGHT, false>(args, act);
    }
}

#[inline(always)]
fn each_to<const TIER: u8, const ONE_LEFT: bool, const ONE_RIGHT: bool, const PAST_CACHE: bool>(
    args: &ZipArgs<'_>,
    act: impl Fn(f32, f32) -> f32,
) {
    let StripLoops { outer: outers, inner: inners, .. } = *args.loops;
    let left = LineCursor::of(args.from[0]);
    let right = LineCursor::of(args.from[1]);
    let to = LineCursor::of(args.to);
    for outer in 0..outers {
        let mut a_at = left.row(outer);
        let mut b_at = right.row(outer);
        let mut to_at = to.row(outer);
        for inner in 0..inners {
            args.loops.fetch(outer, inner);
            // SAFETY: the makers of jobs promise that all lines are there.
            unsafe {
                let a = line::<ONE_LEFT>(a_at);
                let b = line::<ONE_RIGHT>(b_at);
                let mut made = [0.0; LINE];
                for at in 0..LINE {
                    made[at] = act(a[at], b[at]);
                }
                put::<TIER, PAST_CACHE>(to_at, &made);
            }
            a_at = a_at.wrapping_add(left.inner);
            b_at = b_at.wrapping_add(right.inner);
            to_at = to_at.wrapping_add(to.inner);
        }
    }
}

/// Divides lines by one number each, which is cheaper than by many: see `quotient`.
#[inline(always)]
fn lines_over_one<const TIER: u8>(args: &ZipArgs<'_>) {
    let StripLoops { outer: outers, inner: inners, .. } = *args.loops;
    let left = LineCursor::of(args.from[0]);
    let right = LineCursor::of(args.from[1]);
    let to = LineCursor::of(args.to);
    let is_past_cache = args.to.form == Form::PastCache;
    for outer in 0..outers {
        let mut left_at = left.row(outer);
        let mut by_at = right.row(outer);
        let mut to_at = to.row(outer);
        for inner in 0..inners {
            args.loops.fetch(outer, inner);
            // SAFETY: the makers of jobs promise that all lines are there.
            unsafe {
                let over = line::<false>(left_at);
                let by = by_at.cast::<f32>().read_unaligned();
                let made = line_over(&over, by);
                if is_past_cache {
                    put::<TIER, true>(to_at, &made);
                } else {
                    put::<TIER, false>(to_at, &made);
                }
            }
            left_at = left_at.wrapping_add(left.inner);
            by_at = by_at.wrapping_add(right.inner);
            to_at = to_at.wrapping_add(to.inner);
        }
    }
}

/// The quotients are made before it is known if all numbers are near: the compiler keeps to whole vectors then.
#[inline(always)]
fn line_over(over: &Line, by: f32) -> Line {
    let mut made = [0.0; LINE];
    let mut are_near = quotient::can_invert(by);
    for at in 0..LINE {
        are_near &= quotient::is_near(over[at]);
        made[at] = quotient::divided_near(over[at], by);
    }
    if !are_near {
        for at in 0..LINE {
            made[at] = over[at] / by;
        }
    }
    made
}

struct ReduceRows<'a>(ReduceOp, &'a LineArgs<'a>);

impl Job for ReduceRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self(op, args) = self;
        match op {
            ReduceOp::Product => reduce_lanes(args, |a, b| a * b),
            ReduceOp::Max => reduce_lanes(args, f32::larger),
            ReduceOp::Min => reduce_lanes(args, f32::smaller),
            _ => reduce_lanes(args, |a, b| a + b),
        }
    }
}

#[inline(always)]
fn reduce_lanes(args: &LineArgs<'_>, act: impl Fn(f32, f32) -> f32) {
    let StripLoops { outer: outers, inner: inners, elements, .. } = *args.loops;
    if elements < LINE {
        return reduce_short_lanes(args, &act);
    }
    let from = LineCursor::of(args.from);
    let lanes = LineCursor::of(args.to);
    for outer in 0..outers {
        for inner in 0..inners {
            args.loops.fetch(outer, inner);
            let place = lanes.row(outer).wrapping_add(inner * lanes.inner).cast::<[f32; LANES]>();
            let source = from.row(outer).wrapping_add(inner * from.inner);
            // SAFETY: the makers of jobs promise that all lines are there.
            let mut held = unsafe { place.read_unaligned() };
            // SAFETY: as above.
            let line = unsafe { source.cast::<Line>().read_unaligned() };
            for lane in 0..LANES {
                held[lane] = act(held[lane], line[lane]);
            }
            for lane in 0..LANES {
                held[lane] = act(held[lane], line[LANES + lane]);
            }
            // SAFETY: as above.
            unsafe { place.write_unaligned(held) };
        }
    }
}

/// Combines short lines with lanes. Not inlined: the compiler would take the lanes apart for it, in the loop
/// over whole lines, too.
#[inline(never)]
fn reduce_short_lanes(args: &LineArgs<'_>, act: &impl Fn(f32, f32) -> f32) {
    let StripLoops { outer: outers, inner: inners, elements, .. } = *args.loops;
    for outer in 0..outers {
        for inner in 0..inners {
            let lanes = args.to.at(outer, inner).cast::<f32>();
            let source = args.from.at(outer, inner).cast::<f32>();
            for at in 0..elements {
                // SAFETY: the makers of jobs promise that so many elements and all lanes are there.
                unsafe {
                    let held = lanes.add(at % LANES);
                    let value = source.add(at).read_unaligned();
                    held.write_unaligned(act(held.read_unaligned(), value));
                }
            }
        }
    }
}

struct ReduceColumns<'a>(ReduceOp, &'a LineArgs<'a>);

impl Job for ReduceColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self(op, args) = self;
        match op {
            ReduceOp::Product => reduce_lines(args, |a, b| a * b),
            ReduceOp::Max => reduce_lines(args, f32::larger),
            ReduceOp::Min => reduce_lines(args, f32::smaller),
            _ => reduce_lines(args, |a, b| a + b),
        }
    }
}

#[inline(always)]
fn reduce_lines(args: &LineArgs<'_>, act: impl Fn(f32, f32) -> f32) {
    let StripLoops { outer: outers, inner: inners, elements, .. } = *args.loops;
    let from = LineCursor::of(args.from);
    let to = LineCursor::of(args.to);
    for outer in 0..outers {
        for inner in 0..inners {
            args.loops.fetch(outer, inner);
            let target = to.row(outer).wrapping_add(inner * to.inner);
            let source = from.row(outer).wrapping_add(inner * from.inner);
            // SAFETY: the makers of jobs promise that all lines are there.
            unsafe {
                if elements == LINE {
                    let mut held = target.cast::<Line>().read_unaligned();
                    let line = source.cast::<Line>().read_unaligned();
                    for at in 0..LINE {
                        held[at] = act(held[at], line[at]);
                    }
                    target.cast::<Line>().write_unaligned(held);
                } else {
                    let target = target.cast::<f32>();
                    let source = source.cast::<f32>();
                    for at in 0..elements {
                        let value = source.add(at).read_unaligned();
                        let held = target.add(at).read_unaligned();
                        target.add(at).write_unaligned(act(held, value));
                    }
                }
            }
        }
    }
}
