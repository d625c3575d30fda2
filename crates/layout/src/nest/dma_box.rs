use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use super::join::Joined;
use super::plan::Plan;

/// One loop of a nest; strides are in elements of each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaLoop {
    /// Number of iterations.
    pub range: usize,
    /// Elements between neighbours at the source.
    pub source_stride: usize,
    /// Elements between neighbours at the target.
    pub target_stride: usize,
}

/// A loop nest over one box of elements: the three tuples of the stick layout proposal.
#[derive(Clone, Debug)]
pub struct DmaBox {
    loops: SmallVec<[DmaLoop; 6]>,
    source_offset: usize,
    target_offset: usize,
    plan: Plan,
    pub(super) joined: Option<Joined>,
}

impl DmaBox {
    pub(super) fn new(
        loops: SmallVec<[DmaLoop; 6]>,
        source_offset: usize,
        target_offset: usize,
    ) -> Self {
        let plan = Plan::new(&loops);
        Self { loops, source_offset, target_offset, plan, joined: None }
    }

    /// Its loops, outermost first.
    pub fn loops(&self) -> &[DmaLoop] {
        &self.loops
    }

    /// Number of iterations of each loop: the first tuple.
    pub fn ranges(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.range).collect()
    }

    /// The source's stride of each loop, in elements.
    pub fn source_strides(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.source_stride).collect()
    }

    /// The target's stride of each loop, in elements.
    pub fn target_strides(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.target_stride).collect()
    }

    /// Elements before the box at the source.
    pub fn source_offset(&self) -> usize {
        self.source_offset
    }

    /// Elements before the box at the target.
    pub fn target_offset(&self) -> usize {
        self.target_offset
    }

    /// Elements in the box.
    pub fn elements(&self) -> usize {
        let runs: usize = self.loops.iter().map(|l| l.range).product();
        let lane = self.loops.iter().find(|l| l.target_stride == 1).map_or(1, |l| l.range);
        runs + self.joined.map_or(0, |joined| runs / lane * joined.elements)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The box as a single short run, if it is one.
    pub(super) fn as_run(&self) -> Option<OnlyRun> {
        let elements = match self.loops[..] {
            [] => 1,
            [DmaLoop { range, source_stride: 1, target_stride: 1 }] => range,
            _ => return None,
        };
        let source = self.source_offset;
        let target = self.target_offset;
        (elements <= OnlyRun::MAX_ELEMENTS).then_some(OnlyRun { source, target, elements })
    }

    /// The part of the box that is carried as one of `parts`: some steps of the loop that has the
    /// most of them to share out.
    pub(crate) fn part(&self, part: usize, parts: usize) -> Option<Self> {
        let is_whole = |l: &DmaLoop| self.joined.is_none() || l.target_stride > 1;
        let loops = self.loops.iter().enumerate().filter(|(_, l)| is_whole(l));
        let graded = loops.map(|(at, l)| (at, l.range, self.plan.grain(at)));
        let Some((at, range, grain)) =
            graded.max_by_key(|(_, range, grain)| range.div_ceil(*grain))
        else {
            return (part == 0).then(|| self.clone());
        };
        let share = range.div_ceil(grain).div_ceil(parts) * grain;
        let start = (part * share).min(range);
        let range = share.min(range - start);
        (range > 0).then(|| self.sliced(at, start, range))
    }

    /// The box with only some steps of one loop.
    pub(super) fn sliced(&self, at: usize, start: usize, range: usize) -> Self {
        let mut sliced = self.clone();
        if let Some(l) = sliced.loops.get_mut(at) {
            l.range = range;
            sliced.source_offset += start * l.source_stride;
            sliced.target_offset += start * l.target_stride;
            if let Some(joined) = &mut sliced.joined {
                joined.source_offset += start * l.source_stride;
            }
        }
        sliced
    }

    /// Second part of each of its runs, if it is two boxes.
    pub(crate) fn joined(&self) -> Option<Joined> {
        self.joined
    }

    pub(super) fn reach(&self, stride: impl Fn(&DmaLoop) -> usize, offset: usize) -> usize {
        self.loops.iter().map(|l| (l.range - 1) * stride(l)).sum::<usize>() + offset + 1
    }
}

impl fmt::Display for DmaBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = |values: Vec<usize>| {
            let numbers: Vec<String> = values.iter().map(usize::to_string).collect();
            format!("({})", numbers.join(", "))
        };
        if self.source_offset > 0 || self.target_offset > 0 {
            write!(f, "+{} +{} ", self.source_offset, self.target_offset)?;
        }
        let source = self.source_strides();
        let target = self.target_strides();
        write!(f, "{}, {}, {}", tuple(self.ranges()), tuple(source), tuple(target))
    }
}

/// One run of neighbouring elements at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnlyRun {
    source: usize,
    target: usize,
    elements: usize,
}

impl OnlyRun {
    /// Longer ones are worth a plan.
    const MAX_ELEMENTS: usize = 4096;

    pub(crate) fn source(self, bytes: usize) -> Range<usize> {
        self.source * bytes..(self.source + self.elements) * bytes
    }

    pub(crate) fn target(self, bytes: usize) -> Range<usize> {
        self.target * bytes..(self.target + self.elements) * bytes
    }
}
