use smallvec::SmallVec;

use crate::{Dims, Error};

/// A size, a stride and an offset over a storage, in host elements.
///
/// ```
/// use spyre_layout::View;
///
/// let rows = View::contiguous(&[512, 240])?;
/// let slice = View::new(&[512, 237], &[240, 1], 3)?; // x[:, 3:]
/// assert_eq!(rows.last_element(), Some(122_879));
/// assert_eq!(slice.element(&[1, 0]), 243);
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    size: Dims,
    stride: Dims,
    offset: usize,
    elements: usize,
    last: usize,
}

/// Alignment of a view to the sticks of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A few boxes, each of whole runs that start with their stick.
    StickAligned,
    /// A few boxes, some of which start inside a stick or step over lanes.
    Shifted,
    /// No few boxes: an index walk.
    General,
}

impl View {
    /// A view; refused if its last element could not be addressed.
    pub fn new(size: &[usize], stride: &[usize], offset: usize) -> Result<Self, Error> {
        if size.len() != stride.len() {
            return Err(Error::RankMismatch { sizes: size.len(), strides: stride.len() });
        }
        let too_large = || Error::TooLarge { size: size.to_vec(), stride: stride.to_vec() };
        let elements = element_count(size).ok_or_else(too_large)?;
        let reach = size.iter().zip(stride).try_fold(offset, |reach, (&size, &stride)| {
            reach.checked_add(size.saturating_sub(1).checked_mul(stride)?)
        });
        // 16 bytes is the widest element: byte offsets then fit an isize.
        let last = reach.filter(|&last| last < isize::MAX as usize / 16).ok_or_else(too_large)?;
        Ok(Self { size: size.into(), stride: stride.into(), offset, elements, last })
    }

    /// The row-major view of a whole storage.
    pub fn contiguous(size: &[usize]) -> Result<Self, Error> {
        let too_large = || Error::TooLarge { size: size.to_vec(), stride: Vec::new() };
        let stride = row_major(size).ok_or_else(too_large)?;
        Self::new(size, &stride, 0)
    }

    /// Elements along each dimension.
    pub fn size(&self) -> &[usize] {
        &self.size
    }

    /// Host elements between neighbours along each dimension.
    pub fn stride(&self) -> &[usize] {
        &self.stride
    }

    /// Host elements before the first.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of elements it shows.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The largest host element it reaches; `None` if it is empty.
    pub fn last_element(&self) -> Option<usize> {
        (self.elements > 0).then_some(self.last)
    }

    /// Returns true if no two elements of it are the same: each step of a dimension lies past
    /// everything that smaller steps reach. A layout then gives them different places too.
    pub(crate) fn is_disjoint(&self) -> bool {
        let dims = self.size.iter().zip(&self.stride);
        let mut steps: SmallVec<[(usize, usize); 8]> =
            dims.filter(|(size, _)| **size > 1).map(|(&size, &stride)| (stride, size)).collect();
        steps.sort_unstable();
        let mut reach = 0;
        steps.iter().all(|&(stride, size)| {
            let is_past = stride > reach;
            reach += stride * (size - 1);
            is_past
        })
    }

    /// The host element at `index`; an index outside the view gives an element outside it.
    pub fn element(&self, index: &[usize]) -> usize {
        debug_assert_eq!(index.len(), self.size.len());
        let steps = index.iter().zip(&self.stride).map(|(i, stride)| i.saturating_mul(*stride));
        steps.fold(self.offset, usize::saturating_add)
    }
}

fn element_count(size: &[usize]) -> Option<usize> {
    if size.contains(&0) {
        return Some(0);
    }
    size.iter().try_fold(1, |count: usize, &size| count.checked_mul(size))
}

/// PyTorch's contiguous strides: an empty dimension counts as one.
pub(crate) fn row_major(size: &[usize]) -> Option<Dims> {
    let mut stride: Dims = smallvec::smallvec![1; size.len()];
    for dim in (1..size.len()).rev() {
        stride[dim - 1] = stride[dim].checked_mul(size[dim].max(1))?;
    }
    Some(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_view_is_refused() {
        let error = View::new(&[2, 2], &[1 << 62, 1 << 62], 0).expect_err("too large");
        assert!(matches!(error, Error::TooLarge { .. }));
        assert!(View::contiguous(&[1 << 40, 1 << 40]).is_err());
        assert!(View::new(&[3], &[1, 2], 0).is_err());
    }

    #[test]
    fn an_index_outside_the_view_does_not_wrap_into_it() -> Result<(), Error> {
        let view = View::new(&[2], &[1 << 50], 0)?;
        assert_eq!(view.element(&[1]), 1 << 50);
        assert_eq!(view.element(&[1 << 20]), usize::MAX);
        Ok(())
    }

    #[test]
    fn empty_and_scalar_views_count_their_elements() -> Result<(), Error> {
        assert_eq!(View::contiguous(&[])?.elements(), 1);
        assert_eq!(View::contiguous(&[])?.last_element(), Some(0));
        assert_eq!(View::contiguous(&[5, 0, 3])?.elements(), 0);
        assert_eq!(View::contiguous(&[5, 0, 3])?.last_element(), None);
        assert_eq!(View::contiguous(&[5, 0])?.stride(), [1, 1]);
        Ok(())
    }
}
