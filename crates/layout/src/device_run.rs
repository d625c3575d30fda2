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
        let storage = self.storage_elements().unwrap_or(usize::MAX);
        if element >= storage {
            return None;
        }
        match usize::try_from(step) {
            Ok(0) => DeviceRun::at_rest(self.digits().locate(element)?, usize::MAX),
            Ok(step) => {
                let run = steps(self.digits(), element, step)?;
                let elements = run.elements.min(div_ceil(storage - element, step));
                Some(DeviceRun { elements, ..run })
            }
            Err(_) => DeviceRun::at_rest(self.digits().locate(element)?, 1),
        }
    }

    /// Returns true if some of its dimensions repeat what the others hold.
    pub fn has_replicas(&self) -> bool {
        !self.digits().replicas().is_empty()
    }
}

impl DeviceRun {
    fn at_rest(start: usize, elements: usize) -> Option<Self> {
        Some(Self { start, stride: 0, elements })
    }
}

/// The run of an element, if that has a place. The largest digit that counts whole steps moves, the smaller ones
/// stay: up to where it carries, or has no more room.
fn steps(digits: &Digits, element: usize, step: usize) -> Option<DeviceRun> {
    let mut run = DeviceRun { start: 0, stride: 0, elements: 1 };
    let mut rest = element;
    let mut room = usize::MAX;
    let mut has_moved = false;
    for (digit, reciprocal) in digits.divided() {
        let coordinate = reciprocal.quotient(rest);
        if coordinate >= digit.extent {
            return None;
        }
        rest -= coordinate * digit.radix;
        run.start += coordinate * digit.stride;
        if has_moved {
            continue;
        }
        match reciprocal.whole_quotient(step) {
            Some(coordinates) => {
                has_moved = true;
                let in_digit = div_ceil(digit.extent - coordinate, coordinates);
                let elements = in_digit.min(div_ceil(room, step));
                if elements > 1 {
                    (run.stride, run.elements) = (coordinates * digit.stride, elements);
                }
            }
            None => room = room.min(digit.radix - rest),
        }
    }
    (rest == 0 && !digits.are_refused()).then_some(run)
}

/// Quotient rounded up; most steps are one.
fn div_ceil(number: usize, by: usize) -> usize {
    if by == 1 { number } else { number.div_ceil(by) }
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
