use crate::{SpyreTensorLayout, View};

/// Arrangement of the elements of a view in the sticks of its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewStick {
    /// Neighbours along this dim lie side by side.
    Along(usize),
    /// They do so within this dim, from one run of so many elements to the next: the dim is several of the
    /// storage's in one.
    Inside {
        /// Index of the dim.
        dim: usize,
        /// Number of elements of a run.
        run: usize,
    },
    /// One element in each stick.
    Sparse,
}

impl SpyreTensorLayout {
    /// Returns how a view of a storage with this layout fills its sticks; `None` if no dim of it can
    /// say.
    ///
    /// ```
    /// use spyre_layout::{SpyreTensorLayout, View, ViewStick};
    /// use spyre_numerics::DataFormat::IeeeFp16;
    ///
    /// let rows = SpyreTensorLayout::contiguous(&[128, 256], IeeeFp16)?;
    /// let transposed = View::new(&[256, 128], &[1, 256], 0)?;
    /// assert_eq!(rows.view_stick(&transposed), Some(ViewStick::Along(0)));
    /// let column = View::new(&[128], &[256], 0)?;
    /// assert_eq!(rows.view_stick(&column), Some(ViewStick::Sparse));
    ///
    /// let columns = SpyreTensorLayout::with_stick_dims(&[128, 256], &[256, 1], IeeeFp16, &[0])?;
    /// let flat = View::new(&[128 * 256], &[1], 0)?;
    /// assert_eq!(columns.view_stick(&flat), Some(ViewStick::Inside { dim: 0, run: 256 }));
    /// # Ok::<(), spyre_layout::Error>(())
    /// ```
    pub fn view_stick(&self, view: &View) -> Option<ViewStick> {
        let lane = self.stride_map().last().copied().and_then(|lane| usize::try_from(lane).ok());
        let Some(lane) = lane.filter(|&lane| lane > 0) else { return Some(ViewStick::Sparse) };
        let host = || self.dma_sizes().iter().zip(self.dma_strides());
        let length = host().filter(|&(_, &stride)| stride == lane).map(|(&size, _)| size).max()?;
        let dims = || {
            let all = view.size().iter().zip(view.stride()).enumerate();
            all.filter(|(_, (size, stride))| **size > 1 && **stride > 0)
        };
        let is_along = |stride: usize| stride.is_multiple_of(lane) && stride < lane * length;
        let along = dims().filter(|(_, (_, stride))| is_along(**stride));
        if let Some((dim, _)) = along.min_by_key(|(_, (_, stride))| **stride) {
            return Some(ViewStick::Along(dim));
        }
        let inside =
            dims().find(|(_, (size, stride))| **stride < lane && *stride * (*size - 1) >= lane);
        match inside {
            None => Some(ViewStick::Sparse),
            Some((dim, (&size, &stride))) => {
                let run = lane / stride;
                let is_whole = lane.is_multiple_of(stride) && size.is_multiple_of(run);
                is_whole.then_some(ViewStick::Inside { dim, run })
            }
        }
    }
}
