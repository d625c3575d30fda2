//! Code that all pools of images share: windows that slide, or that share all places between them.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::channels::launch;
use super::windows::{Window, Windows, each, ints, windows};
use crate::dtypes::{Category, lane};
use crate::generated::{Generated, Text};
use crate::recipe::{Launch, OperandView, TensorRef};
use crate::views::Numbers;
use crate::{Call, Decline, TensorView};

/// The windows of a pool, on the last dims of an image.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    /// Windows of one size.
    Sliding(Windows),
    /// Number of windows along each dim, each of as many places as there are for it. They may overlap.
    Shared(Numbers),
}

/// Pools of whole numbers are the host's to refuse, or to compute.
pub(super) fn check_float(dtype: DType) -> Result<(), Decline> {
    if Category::of(dtype) == Category::Float { Ok(()) } else { Err(Decline::DType { dtype }) }
}

impl Pool {
    /// One whose size, step, padding and dilation are arguments of a call.
    pub(super) fn sliding(
        call: &Call<'_>,
        dims: usize,
        at: usize,
        has_dilation: bool,
    ) -> Result<Self, Decline> {
        let dilations = if has_dilation { ints(call, at + 3)? } else { &[1] };
        let [sizes, steps, paddings] = [at, at + 1, at + 2].map(|at| ints(call, at));
        let windows = windows(dims, [sizes?, steps?, paddings?, dilations]);
        let windows = windows.ok_or(Decline::Shapes)?;
        let is_sound = |window: &Window| 2 * window.padding <= window.size;
        if windows.iter().all(is_sound) { Ok(Self::Sliding(windows)) } else { Err(Decline::Shapes) }
    }

    /// One with so many windows along each dim.
    pub(super) fn shared(call: &Call<'_>, dims: usize, at: usize) -> Result<Self, Decline> {
        let counts = each(ints(call, at)?, dims).ok_or(Decline::Shapes)?;
        Ok(Self::Shared(counts.iter().copied().collect()))
    }

    pub(super) fn dims(&self) -> usize {
        match self {
            Self::Sliding(windows) => windows.len(),
            Self::Shared(counts) => counts.len(),
        }
    }

    /// Its windows if they are of one size: also those of places that are shared evenly.
    pub(super) fn even(&self, places: &[usize]) -> Option<Windows> {
        let counts = match self {
            Self::Sliding(windows) => return Some(windows.clone()),
            Self::Shared(counts) => counts,
        };
        let window = |(&places, &count): (&usize, &usize)| {
            let size = places.checked_div(count).filter(|size| size * count == places)?;
            Some(Window { size, step: size, padding: 0, dilation: 1 })
        };
        places.iter().zip(counts).map(window).collect()
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// The shape of the result for an image of this one; `ceils` if the last window may be cut off.
    pub(super) fn result_size(&self, x: &TensorView<'_>, ceils: bool) -> Result<Numbers, Decline> {
        let leading = leading(x, self.dims())?;
        let mut size = Numbers::from(&x.size[..leading]);
        match self {
            Self::Shared(counts) => size.extend(counts.iter().copied()),
            Self::Sliding(windows) => {
                for (window, &places) in windows.iter().zip(&x.size[leading..]) {
                    let count =
                        if ceils { window.count_of_begun(places) } else { window.count(places) };
                    size.push(count.ok_or(Decline::Shapes)?);
                }
            }
        }
        Ok(size)
    }

    /// Places of the largest window along each dim of an image.
    pub(super) fn sizes(&self, places: &[usize]) -> Numbers {
        match self {
            Self::Sliding(windows) => windows.iter().map(|window| window.size).collect(),
            Self::Shared(counts) => {
                places.iter().zip(counts).map(|(&places, &count)| longest(places, count)).collect()
            }
        }
    }

    /// The numbers that a kernel is given for windows of these sizes, as [`write_scalars`] has them.
    pub(super) fn words(&self, sizes: &[usize]) -> SmallVec<[u64; 4]> {
        let mut words = smallvec![];
        for (dim, &size) in sizes.iter().enumerate() {
            words.push(size as u64);
            if let Self::Sliding(windows) = self {
                let Window { step, padding, dilation, .. } = windows[dim];
                words.extend([step, padding, dilation].map(|number| number as u64));
            }
        }
        words
    }
}

/// Returns the number of dims of an image before those of a pool.
pub(super) fn leading(x: &TensorView<'_>, dims: usize) -> Result<usize, Decline> {
    lane(x.dtype)?;
    let leading = x.size.len().checked_sub(dims).filter(|leading| (1..=2).contains(leading));
    match leading {
        _ if Category::of(x.dtype) == Category::Bool => Err(Decline::DType { dtype: x.dtype }),
        Some(leading) if !x.size[leading - 1..].contains(&0) => Ok(leading),
        _ => Err(Decline::Shapes),
    }
}

/// The most places that one of `count` windows has, which share `places`.
pub(super) fn longest(places: usize, count: usize) -> usize {
    let length = |at: usize| ((at + 1) * places).div_ceil(count) - at * places / count;
    (0..count).map(length).max().unwrap_or(1)
}

/// A launch on tensors, and on a window of these sizes, which a kernel has as its second operand: it
/// is there for its extents and never read.
pub(super) fn pool_launch(
    name: &'static str,
    write: fn(&Generated) -> String,
    numbers: SmallVec<[u32; 8]>,
    tensors: &[(TensorRef, TensorView<'_>)],
    sizes: &[usize],
) -> Result<Launch, Decline> {
    let mut operands: SmallVec<[(DType, OperandView); 8]> = tensors
        .iter()
        .map(|&(place, tensor)| {
            let size = tensor.size.into();
            let stride = tensor.stride.into();
            (tensor.dtype, OperandView { place, size, stride, offset: 0 })
        })
        .collect();
    let (place, first) = tensors[0];
    let window =
        OperandView { place, size: sizes.into(), stride: smallvec![0; sizes.len()], offset: 0 };
    operands.insert(1, (first.dtype, window));
    launch(name, write, numbers, operands)
}

/// The scalars of a pool: sizes `z0_`, and for windows that slide steps, paddings and dilations.
pub(super) fn write_scalars(text: &mut Text, dims: usize, is_shared: bool) {
    for dim in 0..dims {
        let letters: &[&str] = if is_shared { &["z"] } else { &["z", "s", "p", "d"] };
        for letter in letters {
            text.line(format_args!("scalar {letter}{dim}_: i64"));
        }
    }
}

/// Writes the begin of the window of `o` along a dim, as `b{dim}`. If windows share places, also writes
/// its end, as `e{dim}`.
pub(super) fn write_begin(text: &mut Text, dim: usize, is_shared: bool, o: &str) {
    if is_shared {
        text.line(format_args!("b{dim} = {o} * size(x{dim}) // size(o{dim})"));
        text.line(format_args!(
            "e{dim} = (({o} + 1) * size(x{dim}) + size(o{dim}) - 1) // size(o{dim})"
        ));
    } else {
        text.line(format_args!("b{dim} = {o} * s{dim}_ - p{dim}_"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_share_places_are_as_long_as_needed() {
        assert_eq!(longest(10, 5), 2);
        assert_eq!(longest(7, 3), 3);
        assert_eq!(longest(3, 7), 2);
        assert_eq!(longest(5, 1), 5);
    }
}
