use crate::digits::Digit;
use crate::{DeviceRun, SpyreTensorLayout};

/// Offsets on the device of the steps along one axis of a view, in device elements.
///
/// ```
/// use spyre_layout::{AxisOffsets, SpyreTensorLayout};
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
/// let axes = layout.axis_offsets(0, &[(512, 240), (240, 1)]).expect("rows do not move columns");
/// assert_eq!(axes[0], AxisOffsets::Even { start: 0, step: 64 });
/// assert_eq!(axes[1].offset(&layout, 65), 512 * 64 + 1);
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisOffsets {
    /// All steps are alike.
    Even {
        /// Device elements before the first.
        start: usize,
        /// Device elements per step.
        step: usize,
    },
    /// Runs of steps that are alike: an axis along sticks.
    Sticks {
        /// Device elements before the first.
        start: usize,
        /// Device elements per step inside a run.
        step: usize,
        /// Steps of a run; the last one may be shorter.
        run: usize,
        /// Device elements from one run to the next.
        across: usize,
    },
    /// Each coordinate's.
    Listed(Vec<usize>),
    /// Offsets of an axis too long for a list, computed when they are asked for.
    Located {
        /// Host elements before the first.
        start: usize,
        /// Host elements per step.
        stride: usize,
    },
}

/// Longer lists are not worth their memory.
const MOST_LISTED: usize = 1 << 16;

impl AxisOffsets {
    /// Offset of a coordinate of the axis.
    #[inline]
    pub fn offset(&self, layout: &SpyreTensorLayout, coordinate: usize) -> usize {
        match self {
            Self::Even { start, step } => start + step * coordinate,
            Self::Sticks { start, step, run, across } => {
                start + coordinate / run * across + coordinate % run * step
            }
            Self::Listed(offsets) => offsets[coordinate],
            Self::Located { start, stride } => {
                layout.digits().locate(start + stride * coordinate).unwrap_or(0)
            }
        }
    }
}

impl SpyreTensorLayout {
    /// Offsets along each axis, which is given as its length and its stride in host elements.
    ///
    /// `None` unless the place of every element is the sum of its offsets: no digit of the sum carries,
    /// and all elements have a place. `None` also if an axis goes backwards or is empty, and if there is
    /// no axis.
    pub fn axis_offsets(&self, offset: usize, axes: &[(usize, i64)]) -> Option<Vec<AxisOffsets>> {
        let levels = self.digits().levels().ok()?;
        let mut steps = Vec::new();
        for &(length, stride) in axes {
            let step = usize::try_from(stride).ok()?;
            steps.push(Reach { last: length.checked_sub(1)?.checked_mul(step)?, step });
        }
        let last = steps.iter().try_fold(offset, |last, axis| last.checked_add(axis.last))?;
        if self.storage_elements().is_some_and(|elements| last >= elements) {
            return None;
        }
        // The offset goes with one of the axes: inside a stick, only with the one along sticks.
        let with = (0..axes.len()).rev().find(|&with| {
            let mut parts = steps.clone();
            let Reach { last, step } = parts[with];
            let last = last.checked_add(offset);
            parts[with] = Reach { last: last.unwrap_or(usize::MAX), step: divisor(step, offset) };
            last.is_some() && adds_up(levels, parts)
        })?;
        let start = |axis: usize| if axis == with { offset } else { 0 };
        let along = |axis: usize| self.along(start(axis), axes[axis].0, steps[axis].step);
        Some((0..axes.len()).map(along).collect())
    }

    fn along(&self, start: usize, length: usize, stride: usize) -> AxisOffsets {
        let run = self.run_from(start, stride as i64);
        if let Some(run) = run.filter(|run| run.elements >= length) {
            return AxisOffsets::Even { start: run.start, step: run.stride };
        }
        if let Some(sticks) = run.and_then(|run| self.sticks_along(run, start, length, stride)) {
            return sticks;
        }
        if length > MOST_LISTED {
            return AxisOffsets::Located { start, stride };
        }
        let place = |at: usize| self.digits().locate(start + at * stride).unwrap_or(0);
        AxisOffsets::Listed((0..length).map(place).collect())
    }

    /// The axis as runs like the first one, if its steps move a larger digit only: then the smaller digits
    /// are as they are at the start of the first one, and each run is as long.
    fn sticks_along(
        &self,
        first: DeviceRun,
        start: usize,
        length: usize,
        stride: usize,
    ) -> Option<AxisOffsets> {
        let DeviceRun { start: first, stride: step, elements: run } = first;
        let hop = i64::try_from(stride.checked_mul(run)?).ok()?;
        let runs = self.run_from(start, hop)?;
        (run > 1 && runs.elements >= length.div_ceil(run)).then_some(AxisOffsets::Sticks {
            start: first,
            step,
            run,
            across: runs.stride,
        })
    }
}

/// Multiples of a step, up to a last one.
#[derive(Clone, Copy, Debug)]
struct Reach {
    last: usize,
    step: usize,
}

impl Reach {
    /// Remainders of them by a digit's radix: multiples of the new step, up to the new last one.
    fn rest(self, radix: usize) -> Self {
        if self.last < radix {
            return self;
        }
        let step = divisor(self.step, radix);
        Self { last: radix - step, step }
    }
}

/// Returns true if the digits of these add up to the digits of their sums: the remainders behind each
/// digit add up to less than its radix, and each digit has room for the largest sum.
fn adds_up(levels: &[Digit], mut parts: Vec<Reach>) -> bool {
    for digit in levels {
        let largest: Option<usize> =
            parts.iter().try_fold(0_usize, |all, part| all.checked_add(part.last / digit.radix));
        parts.iter_mut().for_each(|part| *part = part.rest(digit.radix));
        let rest: Option<usize> =
            parts.iter().try_fold(0_usize, |all, part| all.checked_add(part.last));
        let has_room = largest.is_some_and(|largest| largest < digit.extent);
        if !has_room || rest.is_none_or(|rest| rest >= digit.radix) {
            return false;
        }
    }
    parts.iter().all(|part| part.last == 0)
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};

    use super::*;
    use crate::{ElementArrangement, Error};

    /// Every element of the view lies where the sum says; whether there is one.
    fn check(layout: &SpyreTensorLayout, offset: usize, axes: [(usize, i64); 2]) -> bool {
        let Some(offsets) = layout.axis_offsets(offset, &axes) else { return false };
        for i in 0..axes[0].0 {
            for j in 0..axes[1].0 {
                let element = offset + i * axes[0].1 as usize + j * axes[1].1 as usize;
                let sum = offsets[0].offset(layout, i) + offsets[1].offset(layout, j);
                assert_eq!(layout.device_element(element), Some(sum), "{layout} {offset} {axes:?}");
            }
        }
        true
    }

    #[test]
    fn sums_are_where_elements_lie() -> Result<(), Error> {
        let plain = SpyreTensorLayout::contiguous(&[5, 200], IeeeFp16)?;
        let transposed =
            SpyreTensorLayout::with_dim_order(&[7, 100], &[100, 1], IeeeFp16, &[1, 0])?;
        let pairs = SpyreTensorLayout::explicit(&[4, 3, 32], &[32, 128, 1], IeeeFp32)?;
        let pairs = pairs.with_element_arrangement(ElementArrangement::Dl16ToFp32);
        let mut found = 0;
        for layout in [&plain, &transposed, &pairs] {
            for offset in [0, 1, 3, 64, 100, 128, 199, 200, 261] {
                for strides in [(200, 1), (1, 200), (100, 1), (128, 1), (400, 2), (0, 3), (1, 1)] {
                    for lengths in [(2, 200), (5, 200), (3, 64), (1, 7), (4, 1)] {
                        let axes = [(lengths.0, strides.0), (lengths.1, strides.1)];
                        found += usize::from(check(layout, offset, axes));
                    }
                }
            }
        }
        assert!(found > 100, "{found}");
        Ok(())
    }

    #[test]
    fn default_layouts_add_up_and_what_carries_does_not() -> Result<(), Error> {
        let layout = SpyreTensorLayout::contiguous(&[5, 200], IeeeFp16)?;
        assert!(check(&layout, 0, [(5, 200), (200, 1)]));
        assert!(check(&layout, 400, [(3, 200), (200, 1)]));
        assert!(check(&layout, 64, [(5, 200), (128, 1)]), "a slice of whole sticks");
        assert!(check(&layout, 261, [(4, 200), (128, 1)]), "a slice from inside a stick");
        assert!(!check(&layout, 0, [(100, 2), (2, 150)]), "columns that begin a new row");
        assert!(!check(&layout, 0, [(5, 200), (201, 1)]), "past the end");
        assert!(!check(&layout, 0, [(5, -200), (1, 1)]));
        Ok(())
    }
}
