//! Cutting a view into boxes in which the device address is a sum of strides.
//!
//! A view's dimensions step by host strides; the layout writes the sum of those steps in mixed
//! radix ([`crate::digits`]). Where no digit carries, the address is linear in every dimension.
//! Where one does, the dimension that causes it is cut: at the first carry (a view that starts
//! inside a stick), into blocks of a whole radix (tiles), and at the last whole block (a remainder).

use smallvec::SmallVec;

use super::DmaLoop;
use crate::digits::Digit;
use crate::{Access, Error, SpyreTensorLayout, View};

/// More boxes than this, and walking by index is the better plan.
const MAX_BOXES: usize = 64;

/// More irregular carries than this along one dimension, and the view is walked by index.
const MAX_WRAPS: usize = 16;

/// A stride, or an offset, at one end of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Host elements that no digit has taken yet.
    pub(crate) rest: usize,
    /// Elements of memory, from the digits that have.
    pub(crate) memory: usize,
}

/// A dimension of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) range: usize,
    pub(crate) ends: [Step; 2],
}

/// A box of a view, on its way to being linear at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) axes: SmallVec<[Axis; 4]>,
    pub(crate) origin: [Step; 2],
}

/// The boxes of two views, linear at both ends; `None` if they would be too many.
pub(crate) fn resolve(
    views: [&View; 2],
    layouts: [Option<&SpyreTensorLayout>; 2],
) -> Result<Option<Vec<Piece>>, Error> {
    let mut pieces = vec![Piece::between(views[0], views[1])];
    for (end, layout) in layouts.into_iter().enumerate() {
        let Some(layout) = layout else {
            pieces.iter_mut().for_each(|piece| piece.take_as_memory(end));
            continue;
        };
        if !place(&mut pieces, end, layout)? {
            let piece = Piece::between(views[0], views[1]);
            return check_ends(&piece, layouts).map(|()| None);
        }
    }
    pieces.iter_mut().for_each(Piece::simplify);
    Ok(Some(pieces))
}

/// Checks that every element of a host shape has a place in `layout`.
pub(crate) fn check_covered(host: &View, layout: &SpyreTensorLayout) -> Result<(), Error> {
    if host.elements() == 0 {
        return Ok(());
    }
    let piece = Piece::between(host, host);
    if place(&mut vec![piece.clone()], 0, layout)? { Ok(()) } else { check_end(&piece, 0, layout) }
}

/// Classifies how a view lies over the sticks of a layout.
pub(crate) fn classify(view: &View, layout: &SpyreTensorLayout) -> Result<Access, Error> {
    if view.elements() == 0 {
        return Ok(Access::StickAligned);
    }
    let per_stick = layout.elements_per_stick();
    let keeps_sticks = |stride: usize| stride.is_multiple_of(per_stick) || stride == 1;
    let mut pieces = vec![Piece::between(view, view)];
    if !place(&mut pieces, 0, layout)? {
        return Ok(Access::General);
    }
    let is_aligned = pieces.iter().all(|piece| {
        piece.origin[0].memory.is_multiple_of(per_stick)
            && piece.axes.iter().all(|axis| axis.range == 1 || keeps_sticks(axis.ends[0].memory))
    });
    Ok(if is_aligned { Access::StickAligned } else { Access::Shifted })
}

/// Takes every digit of `layout` at one end of every piece, cutting pieces where digits carry;
/// `false` if that makes too many.
///
/// What is cut off starts again with the first digit: those taken already are zero by now.
fn place(pieces: &mut Vec<Piece>, end: usize, layout: &SpyreTensorLayout) -> Result<bool, Error> {
    let digits = layout.digits().levels()?;
    let mut at = 0;
    while at < pieces.len() {
        let mut level = 0;
        while let Some(digit) = digits.get(level) {
            let piece = &mut pieces[at];
            let (axis, head) = match piece.carry(end, digit) {
                Carry::None => {
                    piece.take(end, digit)?;
                    level += 1;
                    continue;
                }
                Carry::At { axis, head } => (axis, head),
                Carry::Blocks { axis, block } => {
                    let range = piece.axes[axis].range;
                    let rest = range % block;
                    if rest == 0 {
                        piece.block(axis, block);
                        continue;
                    }
                    (axis, range - rest)
                }
                Carry::Many => return Ok(false),
            };
            let others = piece.cut_off(axis, head);
            pieces.push(others);
            if pieces.len() > MAX_BOXES {
                return Ok(false);
            }
        }
        pieces[at].check_taken(end, layout)?;
        at += 1;
    }
    Ok(true)
}

/// Steps at which a digit carries.
enum Carry {
    /// Nowhere.
    None,
    /// After the first `head` steps along `axis`.
    At { axis: usize, head: usize },
    /// Every `block` steps along `axis`, from its start.
    Blocks { axis: usize, block: usize },
    /// All over.
    Many,
}

impl Piece {
    /// The views of both ends, as one piece with as few axes as they allow.
    pub(crate) fn between(source: &View, target: &View) -> Self {
        let step = |rest: usize| Step { rest, memory: 0 };
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        let strides = source.stride().iter().zip(target.stride());
        for (&range, (&from, &to)) in source.size().iter().zip(strides) {
            if range == 1 {
                continue;
            }
            match axes.last_mut() {
                Some(outer)
                    if outer.ends[0].rest == from * range && outer.ends[1].rest == to * range =>
                {
                    *outer = Axis { range: outer.range * range, ends: [step(from), step(to)] };
                }
                _ => axes.push(Axis { range, ends: [step(from), step(to)] }),
            }
        }
        Self { axes, origin: [step(source.offset()), step(target.offset())] }
    }

    /// Memory elements before the first, at both ends.
    pub(crate) fn offsets(&self) -> [usize; 2] {
        self.origin.map(|step| step.memory)
    }

    /// Its axes as loops, by decreasing stride at the `device` end.
    pub(crate) fn loops(&mut self, device: usize) -> SmallVec<[DmaLoop; 6]> {
        self.axes.sort_by_key(|axis| std::cmp::Reverse(axis.ends[device].memory));
        let into_loop = |axis: &Axis| DmaLoop {
            range: axis.range,
            source_stride: axis.ends[0].memory,
            target_stride: axis.ends[1].memory,
        };
        self.axes.iter().map(into_loop).collect()
    }

    /// A host end: its strides are memory strides already.
    fn take_as_memory(&mut self, end: usize) {
        let take = |step: &mut Step| *step = Step { rest: 0, memory: step.rest };
        self.axes.iter_mut().for_each(|axis| take(&mut axis.ends[end]));
        take(&mut self.origin[end]);
    }

    /// Takes one digit, which must not carry.
    fn take(&mut self, end: usize, digit: &Digit) -> Result<(), Error> {
        let mut largest = self.origin[end].take(digit);
        for axis in &mut self.axes {
            let steps = (axis.range - 1).saturating_mul(axis.ends[end].take(digit));
            largest = largest.saturating_add(steps);
        }
        if largest >= digit.extent {
            let dim = digit.dim;
            let size = digit.extent;
            let radix = digit.radix;
            return Err(Error::NotCovered { dim, size, radix, needed: largest + 1 });
        }
        Ok(())
    }

    fn carry(&self, end: usize, digit: &Digit) -> Carry {
        let radix = digit.radix;
        let rest = |axis: &Axis| divide(axis.ends[end].rest, radix).1;
        let base = divide(self.origin[end].rest, radix).1;
        let span = |axis: &Axis| (axis.range - 1) * rest(axis);
        let reach: usize = base + self.axes.iter().map(span).sum::<usize>();
        if reach < radix {
            return Carry::None;
        }
        let moving = self.axes.iter().enumerate().filter(|(_, axis)| axis.range > 1);
        let Some((at, axis)) = moving.max_by_key(|(_, axis)| rest(axis)) else {
            return Carry::None;
        };
        let step = rest(axis);
        let others = reach - span(axis) - base;
        if radix.is_multiple_of(step) && base % step + others < step {
            let block = radix / step;
            let phase = base / step;
            return match phase {
                0 => Carry::Blocks { axis: at, block },
                _ => Carry::At { axis: at, head: block - phase },
            };
        }
        if reach / radix > MAX_WRAPS {
            return Carry::Many;
        }
        let room = radix.saturating_sub(base + others).div_ceil(step);
        Carry::At { axis: at, head: room.clamp(1, axis.range - 1) }
    }

    /// Keeps the first `head` steps along an axis, and returns the others.
    fn cut_off(&mut self, at: usize, head: usize) -> Self {
        let mut others = self.clone();
        others.axes[at].range -= head;
        for (origin, step) in others.origin.iter_mut().zip(self.axes[at].ends) {
            origin.rest += head * step.rest;
            origin.memory += head * step.memory;
        }
        self.axes[at].range = head;
        others
    }

    /// Makes an axis two: blocks, and the steps in a block.
    fn block(&mut self, at: usize, block: usize) {
        let inner = self.axes[at];
        let blocks = inner.range / block;
        self.axes[at].range = block;
        if blocks > 1 {
            let ends = inner
                .ends
                .map(|step| Step { rest: step.rest * block, memory: step.memory * block });
            self.axes.insert(at, Axis { range: blocks, ends });
        }
    }

    /// The host elements at one end that no digit was taken from yet.
    fn elements_at(&self, end: usize) -> impl Iterator<Item = usize> + '_ {
        let count: usize = self.axes.iter().map(|axis| axis.range).product();
        (0..count).map(move |mut index| {
            let steps = self.axes.iter().rev().map(|axis| {
                let step = index % axis.range;
                index /= axis.range;
                step * axis.ends[end].rest
            });
            self.origin[end].rest + steps.sum::<usize>()
        })
    }

    /// Drops axes of one step and joins axes that follow each other at both ends.
    fn simplify(&mut self) {
        self.axes.retain(|axis| axis.range > 1);
        while let Some((outer, inner)) = self.joinable() {
            let range = self.axes[outer].range * self.axes[inner].range;
            self.axes[inner].range = range;
            self.axes.remove(outer);
        }
    }

    fn joinable(&self) -> Option<(usize, usize)> {
        let follows = |outer: &Axis, inner: &Axis| {
            (0..2).all(|end| outer.ends[end].memory == inner.ends[end].memory * inner.range)
        };
        let axes = self.axes.iter().enumerate();
        axes.clone().find_map(|(at, outer)| {
            let inner = axes.clone().find(|(inner, axis)| *inner != at && follows(outer, axis));
            inner.map(|(inner, _)| (at, inner))
        })
    }

    fn check_taken(&self, end: usize, layout: &SpyreTensorLayout) -> Result<(), Error> {
        let moving = self.axes.iter().filter(|axis| axis.range > 1).map(|axis| axis.ends[end].rest);
        match moving.chain([self.origin[end].rest]).find(|&rest| rest > 0) {
            Some(rest) => Err(Error::Tiling { rest, stride_map: layout.stride_map().to_vec() }),
            None => Ok(()),
        }
    }
}

impl Step {
    /// Takes one digit, and returns it.
    fn take(&mut self, digit: &Digit) -> usize {
        let (quotient, rest) = divide(self.rest, digit.radix);
        // Past the device it is refused by its size; the product is of no use then.
        self.memory = self.memory.saturating_add(quotient.saturating_mul(digit.stride));
        self.rest = rest;
        quotient
    }
}

/// Quotient and remainder; most numbers here are smaller than the radix or equal to it.
#[inline]
fn divide(number: usize, radix: usize) -> (usize, usize) {
    match number.cmp(&radix) {
        std::cmp::Ordering::Less => (0, number),
        std::cmp::Ordering::Equal => (1, 0),
        std::cmp::Ordering::Greater => (number / radix, number % radix),
    }
}

fn check_ends(piece: &Piece, layouts: [Option<&SpyreTensorLayout>; 2]) -> Result<(), Error> {
    let ends = layouts.into_iter().enumerate();
    ends.filter_map(|(end, layout)| Some((end, layout?)))
        .try_for_each(|(end, layout)| check_end(piece, end, layout))
}

/// Checks that a layout has a place for every element of a piece: for all up to the last if it has
/// no gaps, else one by one, if they are not too many for that.
fn check_end(piece: &Piece, end: usize, layout: &SpyreTensorLayout) -> Result<(), Error> {
    const ONE_BY_ONE: usize = 1 << 24;
    check_whole(piece, end, layout).or_else(|error| {
        let mut piece = piece.clone();
        piece.axes.retain(|axis| axis.ends[end].rest > 0);
        let count = piece.axes.iter().try_fold(1, |n: usize, axis| n.checked_mul(axis.range));
        let is_placed = |element| layout.digits().locate(element).is_some();
        match count {
            Some(..=ONE_BY_ONE) if piece.elements_at(end).all(is_placed) => Ok(()),
            _ => Err(error),
        }
    })
}

/// Checks that a layout has a place for every host element up to the last of a piece.
fn check_whole(piece: &Piece, end: usize, layout: &SpyreTensorLayout) -> Result<(), Error> {
    let reach = piece.axes.iter().map(|axis| (axis.range - 1) * axis.ends[end].rest);
    let mut elements = piece.origin[end].rest + reach.sum::<usize>() + 1;
    for digit in layout.digits().levels()? {
        let needed = elements.div_ceil(digit.radix);
        if needed > digit.extent {
            let dim = digit.dim;
            let size = digit.extent;
            let radix = digit.radix;
            return Err(Error::NotCovered { dim, size, radix, needed });
        }
        elements = elements.min(digit.radix);
    }
    match elements {
        0 | 1 => Ok(()),
        rest => Err(Error::Tiling { rest: rest - 1, stride_map: layout.stride_map().to_vec() }),
    }
}
