use spyre_artifact::{Dim, MAX_DIMS, Span};

use crate::programs::access::nest::Nest;

/// The tile of each dim that the open loops are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct Tiles {
    pub(in crate::programs) starts: [usize; MAX_DIMS],
    /// The last tile of a dim is as long as what is left of it: padding is in no tile.
    pub(in crate::programs) elements: [usize; MAX_DIMS],
}

/// The dims of a span, lowest first.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Dims(u16);

pub(in crate::programs) fn dims(span: Span) -> Dims {
    Dims(span.bits())
}

impl Iterator for Dims {
    type Item = Dim;

    #[inline]
    fn next(&mut self) -> Option<Dim> {
        let next = self.0.trailing_zeros() as u8;
        self.0 &= self.0.wrapping_sub(1);
        (next < MAX_DIMS as u8).then_some(Dim(next))
    }
}

impl Tiles {
    /// Elements of a register that spans these dims.
    pub(in crate::programs) fn elements_of(&self, span: Span) -> usize {
        dims(span).map(|dim| self.elements[dim.index()]).product()
    }

    /// Loops over the elements of a register that spans `span`, `along` some dims, outermost first. It
    /// repeats along dims that it does not span.
    pub(in crate::programs) fn nest(
        &self,
        span: Span,
        along: impl IntoIterator<Item = Dim>,
    ) -> Nest {
        Nest::over(self.steps(span, along))
    }

    /// Like [`nest`](Self::nest), with a loop for each dim that is longer than one.
    pub(in crate::programs) fn nest_apart(
        &self,
        span: Span,
        along: impl IntoIterator<Item = Dim>,
    ) -> Nest {
        Nest::joined_where(self.steps(span, along), |_, _| false)
    }

    fn steps(
        &self,
        span: Span,
        along: impl IntoIterator<Item = Dim>,
    ) -> impl Iterator<Item = (usize, i64)> {
        let stride = move |dim: Dim| {
            if span.contains(dim) { self.elements_of(after(span, dim)) as i64 } else { 0 }
        };
        along.into_iter().map(move |dim| (self.elements[dim.index()], stride(dim)))
    }
}

/// Those dims of a span that come after one of them.
fn after(span: Span, dim: Dim) -> Span {
    Span::from_bits(span.bits() & (!1 << dim.index()))
}
