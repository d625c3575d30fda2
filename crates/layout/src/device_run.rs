use crate::SpyreTensorLayout;
use crate::digits::Digits;

/// Elements of device memory that follow each other at one stride.
///
/// ```
/// use spyre_layout::{DeviceRun, SpyreTensorLayout};
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
/// let rest_of_a_stick = DeviceRun { start: 60, stride: 1, elements: 4 };
/// assert_eq!(layout.run_from(60, 1), Some(rest_of_a_stick));
/// let down_a_column = DeviceRun { start: 0, stride: 64, elements: 512 };
/// assert_eq!(layout.run_from(0, 240), Some(down_a_column));
/// assert_eq!(layout.run_from(512 * 240, 1), None);
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRun {
    /// The first device element.
    pub start: usize,
    /// Device elements from one to the next.
    pub stride: usize,
    /// Number of elements, at least one; `usize::MAX` for a run that stays where it is.
    pub elements: usize,
}

impl SpyreTensorLayout {
    /// The run from a host element on, `step` host elements at a time: all of its elements have a
    /// place. `None` if the first one has none.
    pub fn run_from(&self, element: usize, step: i64) -> Option<DeviceRun> {
        let start = self.device_element(element)?;
        let (stride, elements) = match usize::try_from(step) {
            Ok(0) => (0, usize::MAX),
            Ok(step) => reach(self.digits(), element, step),
            Err(_) => (0, 1),
        };
        let in_storage = match (self.storage_elements(), usize::try_from(step)) {
            (Some(storage), Ok(1..)) => (storage - element).div_ceil(step as usize),
            _ => usize::MAX,
        };
        Some(DeviceRun { start, stride, elements: elements.min(in_storage) })
    }

    /// Returns true if some of its dimensions repeat what the others hold.
    pub fn has_replicas(&self) -> bool {
        !self.digits().replicas().is_empty()
    }
}

/// The device stride and the length of a run whose first element has a place. The largest digit that
/// counts whole steps moves, the smaller ones stay: up to where it carries, or has no more room.
fn reach(digits: &Digits, element: usize, step: usize) -> (usize, usize) {
    let mut rest = element;
    let mut room = usize::MAX;
    for digit in digits.levels().unwrap_or(&[]) {
        if step.is_multiple_of(digit.radix) {
            let coordinates = step / digit.radix;
            let in_digit = (digit.extent - rest / digit.radix).div_ceil(coordinates);
            return match in_digit.min(room.div_ceil(step)) {
                0 | 1 => (0, 1),
                elements => (coordinates * digit.stride, elements),
            };
        }
        rest %= digit.radix;
        room = room.min(digit.radix - rest);
    }
    (0, 1)
}

#[cfg(test)]
mod tests {
    use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};

    use super::*;
    use crate::{ElementArrangement, Error};

    /// Every element of every run is where the layout says that it is.
    fn check(layout: &SpyreTensorLayout, elements: usize) {
        for start in 0..elements {
            for step in [-1, 0, 1, 2, 3, 7, 63, 64, 65, 100, 128, 200] {
                let Some(run) = layout.run_from(start, step) else {
                    assert_eq!(layout.device_element(start), None);
                    continue;
                };
                assert!(run.elements > 0);
                for nth in 0..run.elements.min(300) {
                    let element = start + nth * usize::try_from(step).unwrap_or(0);
                    let expected = Some(run.start + nth * run.stride);
                    assert_eq!(layout.device_element(element), expected, "{layout} {start} {step}");
                }
            }
        }
    }

    #[test]
    fn runs_lie_where_their_elements_do() -> Result<(), Error> {
        check(&SpyreTensorLayout::contiguous(&[5, 200], IeeeFp16)?, 1200);
        check(&SpyreTensorLayout::contiguous(&[3, 4, 100], IeeeFp32)?, 1300);
        check(&SpyreTensorLayout::contiguous(&[], IeeeFp32)?, 3);
        check(&SpyreTensorLayout::with_dim_order(&[7, 100], &[100, 1], IeeeFp16, &[1, 0])?, 800);
        let pairs = SpyreTensorLayout::explicit(&[4, 3, 32], &[32, 128, 1], IeeeFp32)?;
        check(&pairs.clone().with_element_arrangement(ElementArrangement::Dl16ToFp32), 400);
        check(&pairs.with_element_arrangement(ElementArrangement::Exx2), 400);
        check(&SpyreTensorLayout::explicit(&[2, 64], &[-1, 1], IeeeFp16)?, 100);
        check(&SpyreTensorLayout::explicit(&[0, 64], &[64, 1], IeeeFp16)?, 100);
        Ok(())
    }
}
