//! Role of each of a box's loops when the box is run.

use super::DmaLoop;

/// Movement of the innermost elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Contiguous runs at both ends: `lane` is the run.
    Rows,
    /// Contiguous at the target along `lane`, at the source along `near`.
    Transpose,
    /// Element by element along `lane`.
    Scatter,
}

/// The kind of inner loop, and which loops it is made of; all others run around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// The innermost loop.
    lane: Option<u8>,
    /// The loop whose steps lie closest together at the target (`Rows`), or at the source.
    near: Option<u8>,
    /// The loop whose steps lie closest together at the source, if that is another one.
    far: Option<u8>,
}

impl Plan {
    pub(crate) fn new(loops: &[DmaLoop]) -> Self {
        let find =
            |is_it: &dyn Fn(&DmaLoop) -> bool| loops.iter().position(is_it).map(|at| at as u8);
        let run = find(&|l| l.source_stride == 1 && l.target_stride == 1);
        let target = find(&|l| l.target_stride == 1);
        let source = find(&|l| l.source_stride == 1);
        match (run, target, source) {
            (Some(_), ..) => Self::rows(loops, run),
            (None, Some(_), Some(_)) => {
                Self { kind: Kind::Transpose, lane: target, near: source, far: None }
            }
            _ if loops.is_empty() => Self { kind: Kind::Rows, lane: None, near: None, far: None },
            _ => {
                let lane = closest(loops, &[], |l| l.target_stride);
                Self { kind: Kind::Scatter, lane, near: None, far: None }
            }
        }
    }

    fn rows(loops: &[DmaLoop], lane: Option<u8>) -> Self {
        let near = closest(loops, &[lane], |l| l.target_stride);
        let far = closest(loops, &[lane, near], |l| l.source_stride);
        let stride = |at: Option<u8>| at.map(|at| loops[usize::from(at)].source_stride);
        let far = far.filter(|_| stride(far) < stride(near));
        Self { kind: Kind::Rows, lane, near, far }
    }

    /// The loops by their parts: lane, near and far, where missing ones run once.
    pub(crate) fn inner(&self, loops: &[DmaLoop]) -> [DmaLoop; 3] {
        const ONCE: DmaLoop = DmaLoop { range: 1, source_stride: 0, target_stride: 0 };
        [self.lane, self.near, self.far].map(|at| at.map_or(ONCE, |at| loops[usize::from(at)]))
    }

    /// Number of steps of a loop that are best left together when a box is shared out: a stick of
    /// the innermost ones, a few rows, one step of those around them.
    pub(crate) fn grain(&self, at: usize) -> usize {
        let at = Some(at as u8);
        match self.kind {
            _ if at == self.lane => 64,
            Kind::Transpose if at == self.near => 64,
            Kind::Rows if at == self.near => 16,
            _ => 1,
        }
    }

    /// The loops around them.
    pub(crate) fn outer<'a>(&self, loops: &'a [DmaLoop]) -> impl Iterator<Item = &'a DmaLoop> {
        let inner = [self.lane, self.near, self.far];
        let is_outer = move |at: usize| !inner.contains(&Some(at as u8));
        loops.iter().enumerate().filter(move |(at, _)| is_outer(*at)).map(|(_, l)| l)
    }
}

/// The loop with the smallest stride, but for some.
fn closest(
    loops: &[DmaLoop],
    but: &[Option<u8>],
    stride: impl Fn(&DmaLoop) -> usize,
) -> Option<u8> {
    let others = (0..loops.len() as u8).filter(|at| !but.contains(&Some(*at)));
    others.min_by_key(|&at| stride(&loops[usize::from(at)]))
}
