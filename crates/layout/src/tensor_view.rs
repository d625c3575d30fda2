use spyre_numerics::DType;

use crate::{Error, View};

/// A tensor as a framework describes it: elements of a dtype, by place, from the start of a storage or of a buffer.
///
/// It borrows its numbers, and nothing about them was checked: [`TensorView::view`] does.
///
/// ```
/// use spyre_layout::TensorView;
/// use spyre_numerics::DType;
///
/// // x[:, 1:] of a tensor of 2 x 3
/// let part = TensorView { dtype: DType::Float32, size: &[2, 2], stride: &[3, 1], offset: 1 };
/// assert_eq!(part.view()?.last_element(), Some(5));
/// assert_eq!(part.reach(), 5);
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorView<'a> {
    /// Data type of the elements.
    pub dtype: DType,
    /// Number of elements along each dimension.
    pub size: &'a [usize],
    /// Elements between neighbours along each dimension.
    pub stride: &'a [usize],
    /// Elements before the first.
    pub offset: usize,
}

impl TensorView<'_> {
    /// Its size, stride and offset, checked.
    pub fn view(&self) -> Result<View, Error> {
        View::new(self.size, self.stride, self.offset)
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// Elements from the first to the last, both included.
    pub fn reach(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let steps = self.size.iter().zip(self.stride);
        steps.map(|(size, stride)| (size - 1) * stride).sum::<usize>() + 1
    }

    /// Host bytes from the first element to the end of the last.
    pub fn reach_bytes(&self) -> usize {
        self.reach() * self.dtype.host_format().element_bytes().unwrap_or(1)
    }
}
