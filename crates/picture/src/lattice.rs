//! The host elements of a tensor, in the order of memory.

/// Places of host memory that hold an element, and the index of each element.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    rank: usize,
    is_empty: bool,
    /// The dimensions that step through memory, largest stride first.
    axes: Vec<Axis>,
    /// The last place.
    last: usize,
}

#[derive(Clone, Copy, Debug)]
struct Axis {
    dim: usize,
    size: usize,
    stride: usize,
    /// Distance between the first and the last place of the axes inside this one.
    inside: usize,
}

impl Lattice {
    pub(super) fn new(size: &[usize], stride: &[usize]) -> Self {
        let dims = size.iter().zip(stride).enumerate();
        let mut axes: Vec<Axis> = dims
            .filter(|(_, (size, stride))| **size > 1 && **stride > 0)
            .map(|(dim, (&size, &stride))| Axis { dim, size, stride, inside: 0 })
            .collect();
        axes.sort_by_key(|axis| axis.stride);
        let mut last = 0;
        for axis in &mut axes {
            axis.inside = last;
            last += (axis.size - 1) * axis.stride;
        }
        axes.reverse();
        Self { rank: size.len(), is_empty: size.contains(&0), axes, last }
    }

    /// The last place that holds an element.
    pub(super) fn last(&self) -> Option<usize> {
        (!self.is_empty).then_some(self.last)
    }

    /// Start of a row along the innermost dimension of memory.
    pub(super) fn row(&self, number: usize) -> usize {
        let outer = self.axes.iter().rev().skip(1);
        let step = |(place, rest): (usize, usize), axis: &Axis| {
            (place + rest % axis.size * axis.stride, rest / axis.size)
        };
        outer.fold((0, number), step).0
    }

    /// Number of these rows, and the places that one spans; `None` if they interleave.
    pub(super) fn rows(&self) -> Option<(usize, usize)> {
        let (row, outer) = self.axes.split_last()?;
        let is_nested = self.last().is_some() && outer.iter().all(|axis| axis.stride > axis.inside);
        is_nested.then(|| (self.elements() / row.size, (row.size - 1) * row.stride + 1))
    }

    /// Elements that have a place of their own.
    pub(super) fn elements(&self) -> usize {
        if self.is_empty { 0 } else { self.axes.iter().map(|axis| axis.size).product() }
    }

    /// The index of the element at a place of memory; the first if several share it.
    pub(super) fn index(&self, place: usize) -> Option<Vec<usize>> {
        let mut index = vec![0; self.rank];
        let found = self.last().and_then(|_| seek(&self.axes, place, &mut index));
        (found == Some(place)).then_some(index)
    }

    /// The first place from `place` on that holds an element.
    pub(super) fn at_or_after(&self, place: usize) -> Option<usize> {
        self.last().and_then(|_| seek(&self.axes, place, &mut vec![0; self.rank]))
    }

    /// The last place up to `place` that holds one.
    pub(super) fn at_or_before(&self, place: usize) -> Option<usize> {
        // Every index has its mirror image.
        let mirrored = self.last()?.checked_sub(place)?;
        self.at_or_after(mirrored).map(|found| self.last - found)
    }
}

/// The first place from `target` on that the axes reach, and its index.
fn seek(axes: &[Axis], target: usize, index: &mut [usize]) -> Option<usize> {
    let Some((axis, inner)) = axes.split_first() else {
        return (target == 0).then_some(0);
    };
    let first = target.saturating_sub(axis.inside).div_ceil(axis.stride);
    let mut best = None;
    let mut best_index = Vec::new();
    for step in first..axis.size {
        let start = step * axis.stride;
        if best.is_some_and(|best| best == target || start >= best) {
            break;
        }
        index[axis.dim] = step;
        let found = seek(inner, target.saturating_sub(start), index).map(|place| start + place);
        if found.is_some_and(|found| best.is_none_or(|best| found < best)) {
            best = found;
            best_index = index.to_vec();
        }
    }
    if best.is_some() {
        index.copy_from_slice(&best_index);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_rows_hold_nothing() {
        let rows = Lattice::new(&[3, 60], &[64, 1]);
        assert_eq!(rows.index(64 + 59), Some(vec![1, 59]));
        assert_eq!(rows.index(60), None);
        assert_eq!(rows.at_or_after(60), Some(64));
        assert_eq!(rows.at_or_before(63), Some(59));
        assert_eq!(rows.at_or_after(188), None);
    }

    #[test]
    fn strides_that_interleave_are_found_too() {
        let lattice = Lattice::new(&[3, 2], &[2, 3]);
        let places: Vec<usize> = (0..8).filter(|&place| lattice.index(place).is_some()).collect();
        assert_eq!(places, [0, 2, 3, 4, 5, 7]);
        assert_eq!(lattice.index(4), Some(vec![2, 0]));
        assert_eq!(lattice.at_or_after(6), Some(7));
    }

    #[test]
    fn a_scalar_has_one_place_and_an_empty_tensor_none() {
        assert_eq!(Lattice::new(&[], &[]).index(0), Some(vec![]));
        assert_eq!(Lattice::new(&[3, 0], &[1, 1]).at_or_after(0), None);
        assert_eq!(Lattice::new(&[4, 2], &[0, 1]).elements(), 2);
    }
}
