//! Copies by index: each run of elements is looked up at both ends.

use smallvec::SmallVec;

use super::Mover;
use crate::DmaLoop;
use crate::digits::Digits;
use crate::nest::Walk;
use crate::nest::split::{Axis, Step};

impl Mover<'_> {
    /// Carries everything that the walk visits.
    ///
    /// # Safety
    /// The walk's layouts and views lie inside both buffers.
    pub(super) unsafe fn walk(&self, walk: &Walk) {
        let replicas = walk.target.as_ref().map_or(&[][..], Digits::replicas);
        let copies = replicas.iter().map(|replica| replica.extent).product::<usize>();
        for copy in 0..copies {
            let mut rest = copy;
            let offset = replicas.iter().fold(0, |offset, replica| {
                let coordinate = rest % replica.extent;
                rest /= replica.extent;
                offset + coordinate * replica.stride
            });
            // SAFETY: the replica lies inside the target.
            unsafe { self.walk_once(walk, offset) };
        }
    }

    unsafe fn walk_once(&self, walk: &Walk, replica: usize) {
        let axes = &walk.piece.axes;
        let (lane, outer) = match axes.split_last() {
            Some((lane, outer)) => (*lane, outer),
            None => (Axis { range: 1, ends: [Step::default(); 2] }, &[][..]),
        };
        let mut index: SmallVec<[usize; 8]> = smallvec::smallvec![0; outer.len()];
        loop {
            let element = |end: usize| {
                let steps = outer.iter().zip(&index).map(|(axis, i)| i * axis.ends[end].rest);
                walk.piece.origin[end].rest + steps.sum::<usize>()
            };
            // SAFETY: the view's elements have places at both ends.
            unsafe { self.walk_lane(walk, replica, [element(0), element(1)], lane) };
            let Some(at) = (0..outer.len()).rev().find(|&at| index[at] + 1 < outer[at].range)
            else {
                return;
            };
            index[at] += 1;
            index[at + 1..].fill(0);
        }
    }

    unsafe fn walk_lane(&self, walk: &Walk, replica: usize, start: [usize; 2], lane: Axis) {
        let mut done = 0;
        while done < lane.range {
            let [from, to] = [(0, &walk.source), (1, &walk.target)].map(|(end, digits)| {
                let step = lane.ends[end].rest;
                Run::at(digits.as_ref(), start[end] + done * step, step)
            });
            let range = from.length.min(to.length).min(lane.range - done);
            let run = DmaLoop { range, source_stride: from.stride, target_stride: to.stride };
            // SAFETY: both runs lie inside their buffers.
            unsafe {
                let source = self.source.add(from.start * self.source_bytes);
                let target = self.target.add((to.start + replica) * self.target_bytes);
                if from.stride == 1 && to.stride == 1 {
                    self.convert(source, target, range);
                } else {
                    self.strided(source, target, run);
                }
            }
            done += range;
        }
    }
}

/// Elements of memory that follow each other at one stride.
struct Run {
    start: usize,
    stride: usize,
    length: usize,
}

impl Run {
    /// The run from a host element on, `step` host elements at a time, up to where a digit
    /// would carry.
    fn at(digits: Option<&Digits>, element: usize, step: usize) -> Self {
        let Some(digits) = digits else {
            return Self { start: element, stride: step, length: usize::MAX };
        };
        let levels = digits.levels().unwrap_or(&[]);
        let Some((inner, outer)) = levels.split_last() else {
            return Self { start: 0, stride: 0, length: usize::MAX };
        };
        let mut start = 0;
        let mut rest = element;
        let mut room = usize::MAX;
        for digit in outer {
            start += rest / digit.radix * digit.stride;
            rest %= digit.radix;
            room = room.min(digit.radix - rest); // the last block of a larger one may be short
        }
        let length = if step == 0 { usize::MAX } else { room.div_ceil(step) };
        start += rest / inner.radix * inner.stride;
        Self { start, stride: step / inner.radix * inner.stride, length }
    }
}
