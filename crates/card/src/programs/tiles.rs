use spyre_artifact::{Dim, MAX_DIMS, Span};

use super::nest::Nest;

/// The tile of each dim that the open loops are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) starts: [usize; MAX_DIMS],
    /// The last tile of a dim is as long as what is left of it: padding is in no tile.
    pub(super) elements: [usize; MAX_DIMS],
}

impl Tiles {
    /// Elements of a register that spans these dims.
    pub(super) fn elements_of(&self, span: Span) -> usize {
        span.dims().map(|dim| self.elements[dim.index()]).product()
    }

    /// How the elements of a register that spans `span` are met along `dims`, outermost first; it
    /// repeats along dims that it does not span.
    pub(super) fn nest(&self, span: Span, dims: impl IntoIterator<Item = Dim>) -> Nest {
        let mut strides = [0; MAX_DIMS];
        let mut stride = 1;
        for at in (0..MAX_DIMS).rev() {
            if span.contains(Dim(at as u8)) {
                strides[at] = stride;
                stride *= self.elements[at] as i64;
            }
        }
        Nest::over(dims.into_iter().map(|dim| (self.elements[dim.index()], strides[dim.index()])))
    }
}
