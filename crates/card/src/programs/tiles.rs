use spyre_artifact::{Dim, MAX_DIMS, Span};

use super::nest::Nest;

/// The tile of each dim that the open loops are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) starts: [usize; MAX_DIMS],
    /// The last tile of a dim is as long as what is left of it: padding is in no tile.
    pub(super) elements: [usize; MAX_DIMS],
}

/// The dims of a span, lowest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dims(u16);

pub(super) fn dims(span: Span) -> Dims {
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
    pub(super) fn elements_of(&self, span: Span) -> usize {
        dims(span).map(|dim| self.elements[dim.index()]).product()
    }

    /// How the elements of a register that spans `span` are met `along` some, outermost first; it
    /// repeats along dims that it does not span.
    pub(super) fn nest(&self, span: Span, along: impl IntoIterator<Item = Dim>) -> Nest {
        Nest::over(self.steps(span, along))
    }

    /// The same, with a loop for each dim that is longer than one.
    pub(super) fn nest_apart(&self, span: Span, along: impl IntoIterator<Item = Dim>) -> Nest {
        Nest::joined_where(self.steps(span, along), |_, _| false)
    }

    fn steps(
        &self,
        span: Span,
        along: impl IntoIterator<Item = Dim>,
    ) -> impl Iterator<Item = (usize, i64)> {
        let stride = move |dim: Dim| match span.contains(dim) {
            true => self.elements_of(after(span, dim)) as i64,
            false => 0,
        };
        along.into_iter().map(move |dim| (self.elements[dim.index()], stride(dim)))
    }
}

/// Those dims of a span that come after one of them.
fn after(span: Span, dim: Dim) -> Span {
    Span::from_bits(span.bits() & (!1 << dim.index()))
}
