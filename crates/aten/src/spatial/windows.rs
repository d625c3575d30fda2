//! Windows that move over the places of images.

use smallvec::SmallVec;

use crate::{Call, Decline};

/// Window that moves along one dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Places that it looks at.
    pub(super) size: usize,
    /// Places from one window to the next.
    pub(super) step: usize,
    /// Places before the first and behind the last that are nothing.
    pub(super) padding: usize,
    /// Distance from one place of a window to the next.
    pub(super) dilation: usize,
}

/// One along each dim of places.
pub(super) type Windows = SmallVec<[Window; 3]>;

impl Window {
    /// Places from its first to its last.
    pub(super) fn reach(&self) -> usize {
        self.dilation * (self.size - 1) + 1
    }

    /// Returns the number of windows on so many places.
    pub(super) fn count(&self, places: usize) -> Option<usize> {
        let room = (places + 2 * self.padding).checked_sub(self.reach())?;
        Some(room / self.step + 1)
    }

    /// Returns the number of places that have so many windows, with `more` places behind the last one.
    pub(super) fn places(&self, count: usize, more: usize) -> Option<usize> {
        ((count - 1) * self.step + self.reach() + more).checked_sub(2 * self.padding)
    }

    /// Returns the number of windows if the last one may reach behind the end, as long as it begins before.
    pub(super) fn count_of_begun(&self, places: usize) -> Option<usize> {
        let room = (places + 2 * self.padding + self.step - 1).checked_sub(self.reach())?;
        let count = room / self.step + 1;
        let is_behind = (count - 1) * self.step >= places + self.padding;
        Some(count - usize::from(is_behind))
    }
}

/// A number for each of so many dims, of a list that has one for each or one for all.
pub(super) fn each(list: &[i64], dims: usize) -> Option<SmallVec<[usize; 3]>> {
    let of = |dim: usize| list.get(if list.len() == 1 { 0 } else { dim });
    if list.len() > 1 && list.len() != dims {
        return None;
    }
    (0..dims).map(|dim| of(dim).and_then(|&number| usize::try_from(number).ok())).collect()
}

/// The windows that lists of sizes, steps, paddings and dilations describe; without steps, windows
/// lie beside each other.
pub(super) fn windows(dims: usize, lists: [&[i64]; 4]) -> Option<Windows> {
    let [sizes, steps, paddings, dilations] = lists;
    let sizes = each(sizes, dims)?;
    let steps = if steps.is_empty() { sizes.clone() } else { each(steps, dims)? };
    let paddings = each(paddings, dims)?;
    let dilations = each(dilations, dims)?;
    let window = |dim: usize| Window {
        size: sizes[dim],
        step: steps[dim],
        padding: paddings[dim],
        dilation: dilations[dim],
    };
    let all: Windows = (0..dims).map(window).collect();
    let is_sound = |window: &Window| window.size > 0 && window.step > 0 && window.dilation > 0;
    all.iter().all(is_sound).then_some(all)
}

/// A list of whole numbers that a call is given.
pub(super) fn ints<'a>(call: &Call<'a>, argument: usize) -> Result<&'a [i64], Decline> {
    call.ints(argument).ok_or(Decline::Argument { argument, expected: "a list of numbers" })
}

/// The first of `count` numbers `i`, and how many there are, with `i * step + offset` inside of `size`.
pub(super) fn inside(step: usize, offset: i64, count: usize, size: usize) -> (usize, usize) {
    let first = usize::try_from(-offset).unwrap_or(0).div_ceil(step);
    let end = usize::try_from(size as i64 - offset).unwrap_or(0).div_ceil(step).min(count);
    (first.min(count), end.saturating_sub(first))
}

/// Returns what one place of a window sees along one dim: the first place of the image, the first
/// window, and the number of windows.
pub(super) fn met(
    window: &Window,
    tap: usize,
    places: usize,
    count: usize,
) -> (usize, usize, usize) {
    let offset = (tap * window.dilation) as i64 - window.padding as i64;
    let (first, count) = inside(window.step, offset, count, places);
    let at = if count == 0 { 0 } else { (first * window.step) as i64 + offset };
    (at as usize, first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(size: usize, step: usize, padding: usize, dilation: usize) -> Window {
        Window { size, step, padding, dilation }
    }

    #[test]
    fn windows_are_counted_as_pytorch_does() {
        assert_eq!(window(3, 1, 1, 1).count(32), Some(32));
        assert_eq!(window(3, 2, 1, 1).count(32), Some(16));
        assert_eq!(window(3, 1, 0, 2).count(7), Some(3));
        assert_eq!(window(5, 1, 0, 1).count(4), None);
        assert_eq!(window(3, 2, 0, 1).count_of_begun(6), Some(3));
        assert_eq!(window(2, 3, 1, 1).count_of_begun(3), Some(2));
    }

    #[test]
    fn what_is_inside_is_counted() {
        assert_eq!(inside(1, -1, 4, 4), (1, 3));
        assert_eq!(inside(2, -1, 3, 4), (1, 2));
        assert_eq!(inside(1, 1, 4, 4), (0, 3));
        assert_eq!(inside(1, -9, 4, 4), (4, 0));
        assert_eq!(inside(1, 9, 4, 4), (0, 0));
    }

    #[test]
    fn one_number_serves_all_dims() {
        let both = windows(2, [&[3, 2], &[], &[1], &[1]]).expect("windows");
        assert_eq!(both[..], [window(3, 3, 1, 1), window(2, 2, 1, 1)]);
        assert_eq!(windows(2, [&[3, 2, 1], &[], &[1], &[1]]), None);
        assert_eq!(windows(1, [&[3], &[0], &[1], &[1]]), None);
    }
}
