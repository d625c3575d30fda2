//! Boxes that fill the same sticks from two sides, as one.
//!
//! A view that is shifted against the sticks of its target fills each of them from two: the end of
//! one, then the start of the next. That is two boxes, each of which writes a part of every stick.
//! Joined, they write whole sticks, once.

use smallvec::SmallVec;

use super::{DmaBox, DmaLoop};

/// The second part of every run of a box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    /// Source elements before the second part of the first run.
    pub(crate) source_offset: usize,
    /// Number of elements of a second part.
    pub(crate) elements: usize,
}

/// Boxes of the same copies with two of them joined, if any two can be; runs then fill `whole`
/// elements.
pub(crate) fn join(boxes: &[DmaBox], whole: usize) -> Option<Vec<DmaBox>> {
    /// More boxes are not two sides of the same sticks.
    const MAX_BOXES: usize = 8;
    if boxes.len() > MAX_BOXES {
        return None;
    }
    let pairs = (0..boxes.len()).flat_map(|a| (0..boxes.len()).map(move |b| (a, b)));
    pairs.filter(|(a, b)| a != b).find_map(|(a, b)| {
        let mut joined = join_pair(&boxes[a], &boxes[b], whole)?;
        let others = boxes.iter().enumerate().filter(|(at, _)| *at != a && *at != b);
        joined.extend(others.map(|(_, dma_box)| dma_box.clone()));
        Some(joined)
    })
}

/// The joined box and what is left of both, if `second` continues the runs of `first`.
fn join_pair(first: &DmaBox, second: &DmaBox, whole: usize) -> Option<Vec<DmaBox>> {
    let (lane, outer) = run_and_others(first)?;
    let (second_lane, second_outer) = run_and_others(second)?;
    if outer != second_outer || lane + second_lane != whole {
        return None;
    }
    let distance = (first.target_offset() + lane) as isize - second.target_offset() as isize;
    let (at, steps) = steps_along(first.loops(), distance)?;
    let range = first.loops().get(at).map_or(1, |l| l.range);
    let (skip_first, skip_second) = if distance < 0 { (steps, 0) } else { (0, steps) };
    let shared = range - steps;

    let mut joined = first.sliced(at, skip_first, shared);
    if !joined.target_offset().is_multiple_of(whole) {
        return None;
    }
    let continued = second.sliced(at, skip_second, shared);
    joined.joined =
        Some(Joined { source_offset: continued.source_offset(), elements: second_lane });
    let mut boxes = vec![joined];
    if steps > 0 {
        let is_ahead = distance < 0;
        boxes.push(first.sliced(at, if is_ahead { 0 } else { shared }, steps));
        boxes.push(second.sliced(at, if is_ahead { shared } else { 0 }, steps));
    }
    Some(boxes)
}

/// The length of a box's runs, and its other loops.
fn run_and_others(dma_box: &DmaBox) -> Option<(usize, SmallVec<[DmaLoop; 6]>)> {
    let is_run = |l: &DmaLoop| l.source_stride == 1 && l.target_stride == 1;
    let run = dma_box.loops().iter().find(|l| is_run(l))?;
    let others = dma_box.loops().iter().copied().filter(|l| !is_run(l)).collect();
    Some((run.range, others))
}

/// The loop along which a distance at the target is a number of steps, and that number.
fn steps_along(loops: &[DmaLoop], distance: isize) -> Option<(usize, usize)> {
    let distance = distance.unsigned_abs();
    if distance == 0 {
        return Some((0, 0));
    }
    let steps = |l: &DmaLoop| distance.checked_div(l.target_stride).unwrap_or(0);
    let fits = |l: &&DmaLoop| {
        l.target_stride > 1 && steps(l) * l.target_stride == distance && steps(l) < l.range
    };
    let (at, found) = loops.iter().enumerate().find(|(_, l)| fits(l))?;
    Some((at, steps(found)))
}
