use std::sync::{Arc, OnceLock};

use spyre_layout::{ElementArrangement, SpyreTensorLayout};
use spyre_numerics::{DType, DataFormat, Profile};

use crate::Error;
use crate::cpu_tensor::element_bytes;

/// Layout of a storage's elements on the device, and their dtype on the host.
///
/// Elements are known by their place in host memory. A view with elements of another width sees the
/// same bytes: [`StorageLayout::seen_as`] says how these lie, where a layout can.
#[derive(Debug)]
pub struct StorageLayout {
    layout: SpyreTensorLayout,
    dtype: DType,
    /// True if the dtype of the bytes is not known.
    is_raw: bool,
    /// Layouts of the bytes as elements of each other dtype.
    seen: [OnceLock<Option<Box<SpyreTensorLayout>>>; DType::ALL.len()],
}

impl StorageLayout {
    /// A layout of elements that the host has as `dtype`.
    pub fn new(layout: SpyreTensorLayout, dtype: DType) -> Self {
        Self { layout, dtype, is_raw: false, seen: [const { OnceLock::new() }; DType::ALL.len()] }
    }

    /// The layout of a new tensor of this shape, as `profile` has it.
    ///
    /// A shape that leaves no gaps is tiled with the last dimension along the stick. Where there are
    /// gaps, or elements share places, all that the strides reach is laid out as one dimension: each
    /// element of the storage then has a place.
    pub fn of_shape(
        profile: Profile,
        size: &[usize],
        stride: &[usize],
        dtype: DType,
    ) -> Result<Self, Error> {
        let format = profile.supported_format(dtype)?;
        SpyreTensorLayout::check_rank(profile, size.len())?;
        let layout = if is_dense(size, stride) {
            let order: Vec<i64> = (0..size.len() as i64).collect();
            SpyreTensorLayout::with_dim_order(size, stride, format, &order)?
        } else {
            let reach = spyre_layout::View::new(size, stride, 0)?.last_element();
            SpyreTensorLayout::contiguous(&[reach.map_or(0, |last| last + 1)], format)?
        };
        Ok(Self::new(layout, dtype))
    }

    /// Layout of `elements` elements in a row.
    pub fn flat(profile: Profile, elements: usize, dtype: DType) -> Result<Self, Error> {
        let layout = SpyreTensorLayout::for_dtype(profile, &[elements], dtype)?;
        Ok(Self::new(layout, dtype))
    }

    /// Layout of bytes whose dtype is not known: as they are, on every profile.
    pub fn bytes(bytes: usize) -> Result<Self, Error> {
        let layout = SpyreTensorLayout::contiguous(&[bytes], DataFormat::UInt8)?;
        Ok(Self { is_raw: true, ..Self::new(layout, DType::UInt8) })
    }

    /// Layout of elements of which the host has none: only programs see them.
    pub(crate) fn of_programs(layout: SpyreTensorLayout) -> Self {
        Self { is_raw: true, ..Self::new(layout, DType::UInt8) }
    }

    /// Bytes that the host needs for as many elements.
    pub(crate) fn host_bytes(&self) -> u64 {
        let elements = self.layout.storage_elements();
        let elements = elements.unwrap_or_else(|| self.layout.device_elements());
        (elements * element_bytes(self.dtype)) as u64
    }

    /// Places of the elements on the device.
    pub fn layout(&self) -> &SpyreTensorLayout {
        &self.layout
    }

    /// Data type of the elements on the host.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns true if the dtype of the bytes is not known.
    pub fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// Returns true if the device has the host's bits.
    pub fn is_exact(&self) -> bool {
        self.layout.device_dtype() == self.dtype.host_format()
    }

    /// Layout of the elements that a view of `dtype` sees; `None` if they do not lie in one piece, or the
    /// device has other bits than the host. Such a view goes by way of host bytes.
    ///
    /// Where `dtype` is the storage's own, the format may be one that copies convert to; otherwise it
    /// is the host's.
    #[inline]
    pub fn seen_as(&self, dtype: DType) -> Option<&SpyreTensorLayout> {
        if dtype == self.dtype {
            return Some(&self.layout);
        }
        if !self.is_exact() {
            return None;
        }
        let seen = self.seen.get(dtype as usize)?;
        seen.get_or_init(|| recast(&self.layout, self.dtype, dtype).map(Box::new)).as_deref()
    }
}

/// A layout to be shared by all storages of a shape.
pub type SharedLayout = Arc<StorageLayout>;

/// Layout of the same bytes as elements of another dtype. Elements that are cut into more than two must
/// be neighbours along the stick; elements that are joined must be so in every row.
fn recast(layout: &SpyreTensorLayout, own: DType, dtype: DType) -> Option<SpyreTensorLayout> {
    let from = element_bytes(own);
    let to = element_bytes(dtype);
    let arrangement = layout.element_arrangement();
    let format = dtype.host_format();
    let elements = layout.storage_elements()?;
    if from == to {
        let same = SpyreTensorLayout::explicit(layout.device_size(), layout.placing_map(), format);
        return same.ok()?.with_element_arrangement(arrangement).for_host(&[elements], &[1]).ok();
    }
    if elements == 1 && from > to {
        return SpyreTensorLayout::contiguous(&[from / to], format).ok();
    }
    let map = layout.placing_map();
    let is_in_rows = *map.last()? == 1;
    if arrangement != ElementArrangement::Standard || !(is_in_rows || from == 2 * to) {
        return None;
    }
    let scale = |stride: i64| match stride {
        -1 | 0 => Some(stride),
        stride if from > to => stride.checked_mul((from / to) as i64),
        stride => (stride % (to / from) as i64 == 0).then_some(stride / (to / from) as i64),
    };
    let mut size = layout.device_size().to_vec();
    let last = size.len() - 1;
    let mut strides: Vec<i64> = map[..last].iter().map(|&s| scale(s)).collect::<Option<_>>()?;
    let arrangement =
        if is_in_rows { ElementArrangement::Standard } else { ElementArrangement::Parts };
    strides.push(if is_in_rows { 1 } else { scale(map[last])? });
    size[last] = size[last] * from / to;
    let bytes = elements * from;
    let elements = bytes.is_multiple_of(to).then_some(bytes / to)?;
    let seen = SpyreTensorLayout::explicit(&size, &strides, format).ok()?;
    seen.with_element_arrangement(arrangement).for_host(&[elements], &[1]).ok()
}

/// Returns true if elements fill their reach, each place once.
fn is_dense(size: &[usize], stride: &[usize]) -> bool {
    if size.contains(&0) {
        return true;
    }
    let mut steps: smallvec::SmallVec<[(usize, usize); 8]> =
        stride.iter().copied().zip(size.iter().copied()).filter(|step| step.1 > 1).collect();
    steps.sort_unstable();
    let mut expected = 1_usize;
    steps.iter().all(|&(stride, size)| {
        let is_next = stride == expected;
        expected = expected.saturating_mul(size);
        is_next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_byte_of(seen: &StorageLayout, dtype: DType, element: usize) -> Option<usize> {
        seen.seen_as(dtype)?.device_byte(element)
    }

    #[test]
    fn every_width_sees_the_same_bytes() -> Result<(), Error> {
        let widths = [DType::UInt8, DType::Int16, DType::Int32, DType::Int64, DType::Complex128];
        for (size, stride) in [
            (vec![512, 240], vec![240, 1]),
            (vec![3, 7, 50], vec![350, 50, 1]),
            (vec![1000], vec![1]),
            (vec![16, 8], vec![8, 1]),
            (vec![], vec![]),
        ] {
            let own = StorageLayout::of_shape(Profile::Open, &size, &stride, DType::Float32)?;
            for dtype in widths {
                let bytes = element_bytes(dtype);
                let elements = size.iter().product::<usize>() * 4;
                if own.seen_as(dtype).is_none() {
                    assert!(bytes > 4, "smaller elements always lie in one piece");
                    continue;
                }
                for host_byte in 0..elements {
                    let mine = host_byte / 4;
                    let theirs = host_byte / bytes;
                    assert_eq!(
                        own.layout.device_byte(mine).map(|at| at + host_byte % 4),
                        host_byte_of(&own, dtype, theirs).map(|at| at + host_byte % bytes),
                        "byte {host_byte} of {size:?} as {dtype}"
                    );
                }
            }
        }
        Ok(())
    }

    #[test]
    fn rows_that_cut_an_element_are_not_seen() -> Result<(), Error> {
        let odd = StorageLayout::of_shape(Profile::Open, &[4, 7], &[7, 1], DType::Float32)?;
        assert!(odd.seen_as(DType::Int64).is_none());
        let card = StorageLayout::of_shape(Profile::Card, &[4, 64], &[64, 1], DType::Float16)?;
        assert!(card.seen_as(DType::Int16).is_none(), "the card has other bits");
        let by_columns =
            StorageLayout::of_shape(Profile::Open, &[64, 64], &[1, 64], DType::Float32)?;
        assert!(
            by_columns.seen_as(DType::UInt8).is_none(),
            "four neighbours lie in different sticks"
        );
        Ok(())
    }

    #[test]
    fn the_parts_of_numbers_are_seen_whatever_sticks_run_along() -> Result<(), Error> {
        let format = DType::Complex64.host_format();
        let by_columns = SpyreTensorLayout::with_stick_dims(&[3, 65], &[65, 1], format, &[0])?;
        let sparse = SpyreTensorLayout::with_stick_dims(&[70, 2], &[2, 1], format, &[])?;
        let single = SpyreTensorLayout::contiguous(&[3, 1], format)?;
        for layout in [by_columns, sparse, single] {
            let own = StorageLayout::new(layout, DType::Complex64);
            let elements = own.layout.storage_elements().unwrap_or_default();
            for part in 0..2 * elements {
                let whole = own.layout.device_byte(part / 2).map(|at| at + part % 2 * 4);
                assert_eq!(host_byte_of(&own, DType::Float32, part), whole, "part {part}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_shape_with_gaps_has_a_place_for_every_element() -> Result<(), Error> {
        let own = StorageLayout::of_shape(Profile::Open, &[2, 2], &[100, 3], DType::Float32)?;
        assert_eq!(own.layout().storage_elements(), Some(104));
        assert!((0..104).all(|element| own.layout().device_byte(element) == Some(4 * element)));
        let expanded = StorageLayout::of_shape(Profile::Open, &[5, 3], &[0, 1], DType::Float32)?;
        assert_eq!(expanded.layout().storage_elements(), Some(3));
        Ok(())
    }
}
