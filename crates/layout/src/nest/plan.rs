//! In which order a box's loops are run, and by which kind of inner loop.

use smallvec::SmallVec;

use super::DmaLoop;

/// A loop that runs once.
const ONCE: DmaLoop = DmaLoop { range: 1, source_stride: 0, target_stride: 0 };

/// How the innermost elements move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Contiguous runs at both ends: `lane` is the run.
    Rows,
    /// Contiguous at the target along `lane`, at the source along `near`.
    Transpose,
    /// Element by element along `lane`.
    Scatter,
}

/// A box's loops by the part they play.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// The innermost loop.
    pub(crate) lane: DmaLoop,
    /// The loop whose steps lie closest together at the target (`Rows`), or at the source.
    pub(crate) near: DmaLoop,
    /// The loop whose steps lie closest together at the source, if that is another one.
    pub(crate) far: DmaLoop,
    /// All others, outermost first.
    pub(crate) outer: SmallVec<[DmaLoop; 3]>,
}

impl Plan {
    pub(crate) fn new(loops: &[DmaLoop]) -> Self {
        let mut rest: SmallVec<[DmaLoop; 6]> = loops.into();
        let run = rest.iter().position(|l| l.source_stride == 1 && l.target_stride == 1);
        let target = rest.iter().position(|l| l.target_stride == 1);
        let source = rest.iter().position(|l| l.source_stride == 1);
        match (run, target, source) {
            (Some(run), ..) => Self::rows(rest.remove(run), rest),
            (None, Some(target), Some(_)) => Self::transpose(rest.remove(target), rest),
            _ => Self::scatter(rest),
        }
    }

    fn rows(lane: DmaLoop, mut rest: SmallVec<[DmaLoop; 6]>) -> Self {
        let near = take_min(&mut rest, |l| l.target_stride);
        let closest = rest.iter().map(|l| l.source_stride).min();
        let far = match closest {
            Some(stride) if stride < near.source_stride => take_min(&mut rest, |l| l.source_stride),
            _ => ONCE,
        };
        Self { kind: Kind::Rows, lane, near, far, outer: by_target(rest) }
    }

    fn transpose(lane: DmaLoop, mut rest: SmallVec<[DmaLoop; 6]>) -> Self {
        let near = take_min(&mut rest, |l| if l.source_stride == 1 { 0 } else { 1 });
        Self { kind: Kind::Transpose, lane, near, far: ONCE, outer: by_target(rest) }
    }

    fn scatter(mut rest: SmallVec<[DmaLoop; 6]>) -> Self {
        let lane = take_min(&mut rest, |l| l.target_stride);
        let kind = if lane == ONCE { Kind::Rows } else { Kind::Scatter };
        Self { kind, lane, near: ONCE, far: ONCE, outer: by_target(rest) }
    }
}

fn take_min(loops: &mut SmallVec<[DmaLoop; 6]>, key: impl Fn(&DmaLoop) -> usize) -> DmaLoop {
    match loops.iter().enumerate().min_by_key(|(_, l)| key(l)) {
        Some((at, _)) => loops.remove(at),
        None => ONCE,
    }
}

fn by_target(loops: SmallVec<[DmaLoop; 6]>) -> SmallVec<[DmaLoop; 3]> {
    let mut outer: SmallVec<[DmaLoop; 3]> = loops.into_iter().collect();
    outer.sort_by_key(|l| std::cmp::Reverse(l.target_stride));
    outer
}
