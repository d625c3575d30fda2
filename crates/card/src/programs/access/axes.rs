use spyre_artifact::{Dim, MAX_DIMS, Span};
use spyre_layout::{AxisOffsets, SpyreTensorLayout};

/// Axes by which a tensor's elements are found at any coordinates: each dim adds its step, and the sum says
/// where the element lies.
#[derive(Debug)]
pub(in crate::programs) enum Axes {
    /// Steps are device elements: no digit of the sum carries, and all of them are inside.
    Apart(Box<[Option<AxisOffsets>; MAX_DIMS]>),
    /// Steps are host elements, whose sum is to be located.
    Joined,
}

/// Step of a coordinate outside of its axis: with it, no sum is a place.
pub(in crate::programs) const OUTSIDE: i64 = i64::MIN / 16;

impl Axes {
    /// Those of a view that spans some dims. What lies in the layout must be inside of the tensor.
    pub(in crate::programs) fn of(
        layout: &SpyreTensorLayout,
        offset: i64,
        strides: &[i64; MAX_DIMS],
        span: Span,
        extents: &[usize; MAX_DIMS],
    ) -> Self {
        let dims: Vec<Dim> = span.dims().collect();
        let axes: Vec<(usize, i64)> =
            dims.iter().map(|dim| (extents[dim.index()], strides[dim.index()])).collect();
        let offset = usize::try_from(offset).ok();
        let Some(offsets) = offset.and_then(|offset| layout.axis_offsets(offset, &axes)) else {
            return Self::Joined;
        };
        let mut by_dim = [const { None }; MAX_DIMS];
        dims.iter().zip(offsets).for_each(|(dim, axis)| by_dim[dim.index()] = Some(axis));
        Self::Apart(Box::new(by_dim))
    }
}
