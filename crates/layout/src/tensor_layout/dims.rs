//! Host dimension that each device dimension belongs to, and what follows from it.

use super::SpyreTensorLayout;
use crate::Error;

impl SpyreTensorLayout {
    /// The host dimension of each device dimension; `None` for synthetic ones.
    ///
    /// A host dimension owns the device dimensions that step by at least its stride; one that does
    /// not fit the stride folds several host dimensions, and belongs to that of the stick.
    ///
    /// ```
    /// use spyre_layout::SpyreTensorLayout;
    /// use spyre_numerics::DataFormat::IeeeFp16;
    /// let layout = SpyreTensorLayout::contiguous(&[512, 8, 240], IeeeFp16)?;
    /// assert_eq!(layout.dim_map()?, [Some(1), Some(2), Some(0), Some(2)]);
    /// assert_eq!(layout.padding()?, [0, 0, 16]);
    /// # Ok::<(), spyre_layout::Error>(())
    /// ```
    pub fn dim_map(&self) -> Result<Vec<Option<usize>>, Error> {
        match &self.tiling {
            Some(tiling) => Ok(tiling.dim_map.to_vec()),
            None => self.derived_dim_map(),
        }
    }

    /// Device positions less host elements, per host dimension. Dimensions that are folded together
    /// count as the last of them.
    pub fn padding(&self) -> Result<Vec<usize>, Error> {
        let Some(tiling) = &self.tiling else { return self.derived_padding() };
        let per_stick = self.elements_per_stick();
        let sizes = self.dma_sizes.iter().enumerate();
        let pad = |(dim, &size): (usize, &usize)| {
            if tiling.stick_dims.contains(&dim) {
                size.div_ceil(per_stick) * per_stick - size
            } else {
                0
            }
        };
        Ok(sizes.map(pad).collect())
    }

    /// The host dimensions that are padded to whole sticks, the one along the stick last; none if
    /// the layout is sparse.
    pub fn stick_dims(&self) -> Result<Vec<usize>, Error> {
        match &self.tiling {
            Some(tiling) => Ok(tiling.stick_dims.to_vec()),
            None => self.derived_stick_dims(),
        }
    }

    /// Tiles the same host shape by other stick dimensions, in the standard arrangement. What the
    /// old layout held is not moved: see [`crate::restickify`].
    pub fn set_stick_dims(&mut self, stick_dims: &[usize]) -> Result<(), Error> {
        self.host_dims()?;
        let size = &self.dma_sizes;
        let stride = &self.dma_strides;
        *self = Self::with_stick_dims(size, stride, self.device_dtype, stick_dims)?;
        Ok(())
    }

    fn derived_dim_map(&self) -> Result<Vec<Option<usize>>, Error> {
        let host = self.host_dims()?;
        let lane_stride = self.stride_map[self.stride_map.len() - 1];
        let lane = owner(&host, lane_stride);
        let count_stride = lane_stride.saturating_mul(self.elements_per_stick() as i64);
        let dims = self.device_size.iter().zip(&self.stride_map);
        Ok(dims
            .map(|(&size, &stride)| match owner(&host, stride) {
                _ if stride <= 0 => None,
                _ if size == 1 && stride == count_stride => lane.map(|(dim, _)| dim),
                Some((dim, host_stride)) if (stride as usize).is_multiple_of(host_stride) => {
                    Some(dim)
                }
                _ => lane.map(|(dim, _)| dim),
            })
            .collect())
    }

    fn derived_padding(&self) -> Result<Vec<usize>, Error> {
        let dim_map = self.derived_dim_map()?;
        let slots = |dim| {
            let dims = dim_map.iter().zip(&self.device_size);
            let owned = dims.filter(|(owner, _)| **owner == Some(dim));
            owned.map(|(_, &size)| size).product::<usize>()
        };
        let mut folded: usize = 1;
        let sizes = self.dma_sizes.iter().enumerate();
        Ok(sizes
            .map(|(dim, &size)| {
                folded = size.saturating_mul(folded);
                if dim_map.contains(&Some(dim)) {
                    slots(dim).saturating_sub(std::mem::replace(&mut folded, 1))
                } else {
                    0
                }
            })
            .collect())
    }

    fn derived_stick_dims(&self) -> Result<Vec<usize>, Error> {
        let dim_map = self.derived_dim_map()?;
        let per_stick = self.elements_per_stick();
        let mut stick_dims = Vec::new();
        for at in (0..dim_map.len()).rev() {
            let Some(dim) = dim_map[at] else { break };
            let is_lane = at + 1 == dim_map.len();
            let is_block = self.device_size[at] == per_stick
                && !stick_dims.contains(&dim)
                && self.counts_blocks_of(at, &dim_map);
            if !is_lane && !is_block {
                break;
            }
            stick_dims.insert(0, dim);
        }
        Ok(stick_dims)
    }

    /// Returns true if an outer device dimension counts whole blocks of the one at `block`.
    fn counts_blocks_of(&self, block: usize, dim_map: &[Option<usize>]) -> bool {
        let span = self.stride_map[block].saturating_mul(self.elements_per_stick() as i64);
        (0..block).any(|at| self.stride_map[at] == span && dim_map[at] == dim_map[block])
    }

    /// Dimension, size and stride of the host, without those that hold one element.
    fn host_dims(&self) -> Result<Vec<(usize, usize)>, Error> {
        if self.storage_elements.is_none() {
            return Err(Error::NoHostShape);
        }
        let dims = self.dma_sizes.iter().zip(&self.dma_strides).enumerate();
        Ok(dims
            .filter(|(_, (size, stride))| **size != 1 && **stride != 0)
            .map(|(dim, (_, &stride))| (dim, stride))
            .collect())
    }
}

/// The host dimension with the largest stride that is not larger than `stride`.
fn owner(host: &[(usize, usize)], stride: i64) -> Option<(usize, usize)> {
    let fitting = host.iter().filter(|(_, host_stride)| *host_stride as i64 <= stride);
    fitting.copied().max_by_key(|(_, host_stride)| *host_stride)
}
