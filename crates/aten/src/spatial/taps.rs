//! Windows one place at a time: what all windows see at one of their places is a view of the image. Brought
//! together in memory, it is worked on row by row, which is far faster than to look every element up.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use super::channels::launch;
use super::steps::{Block, Steps, lane_of, rows_of};
use super::windows::Windows;
use crate::Decline;
use crate::generated::{Generated, Text};
use crate::recipe::OperandView;
use crate::views::Numbers;

/// Most places of windows that are taken one by one. Those of larger windows are looked up by one kernel.
const MOST_TAPS: usize = 128;

/// Windows on an image that has all of their places.
#[derive(Debug)]
pub(super) struct Taps {
    windows: Windows,
    image: Block,
    /// The shape of the result.
    size: Numbers,
    /// Room for what windows see at one of their places.
    seen: Block,
}

/// Returns true if windows have few enough places to be taken place by place.
pub(super) fn are_few(windows: &Windows) -> bool {
    windows.iter().map(|window| window.size).product::<usize>() <= MOST_TAPS
}

impl Taps {
    /// Windows on an image, which is framed by `nothing` as far as they look beyond it.
    pub(super) fn of(
        steps: &mut Steps,
        windows: &Windows,
        image: Block,
        size: &[usize],
        nothing: Nothing,
    ) -> Result<Self, Decline> {
        let seen = make_row(steps, image.dtype, size);
        let image = framed(steps, windows, image, size, nothing)?;
        Ok(Self { windows: windows.clone(), image, size: size.into(), seen })
    }

    /// Calls `take` with each place of the windows, in the order of rows: its number, and what windows see
    /// there, all in a row.
    pub(super) fn each(
        &self,
        steps: &mut Steps,
        mut take: impl FnMut(&mut Steps, usize, Block) -> Result<(), Decline>,
    ) -> Result<(), Decline> {
        for nth in 0..self.windows.iter().map(|window| window.size).product() {
            steps.copy(&self.view(nth), &self.seen.seen_as(rows_of(&self.size)))?;
            take(steps, nth, self.seen.clone())?;
        }
        Ok(())
    }

    /// Returns a view of what windows see at the `nth` of their places.
    fn view(&self, nth: usize) -> Block {
        let leading = self.size.len() - self.windows.len();
        let mut stride = Numbers::from(&self.image.view.stride[..]);
        let mut rest = nth;
        let mut first = 0;
        for (dim, window) in self.windows.iter().enumerate().rev() {
            let own = &mut stride[leading + dim];
            first += rest % window.size * window.dilation * *own;
            *own *= window.step;
            rest /= window.size;
        }
        self.image.seen_as(self.size.iter().copied().zip(stride)).from(first)
    }
}

/// Value of the places outside of an image.
#[derive(Clone, Copy, Debug)]
pub(super) enum Nothing {
    Zero,
    Least,
}

/// An image with a frame where windows look beyond it.
fn framed(
    steps: &mut Steps,
    windows: &Windows,
    image: Block,
    size: &[usize],
    nothing: Nothing,
) -> Result<Block, Decline> {
    let leading = size.len() - windows.len();
    let mut whole = Numbers::from(&image.view.size[..]);
    let mut before = 0;
    for (dim, window) in windows.iter().enumerate().map(|(dim, window)| (leading + dim, window)) {
        let reach = (size[dim] - 1) * window.step + window.reach();
        whole[dim] = reach.max(image.view.size[dim] + window.padding);
    }
    if whole[..] == image.view.size[..] {
        return Ok(image);
    }
    let row = make_row(steps, image.dtype, &whole);
    let frame = row.seen_as(rows_of(&whole));
    for (dim, window) in windows.iter().enumerate() {
        before += window.padding * frame.view.stride[leading + dim];
    }
    let numbers = smallvec![nothing as u32];
    steps.push(launch("pool_frame", write_frame, numbers, smallvec![row.operand()])?);
    let strides = frame.view.stride.iter().copied();
    let inside = frame.seen_as(image.view.size.iter().copied().zip(strides)).from(before);
    steps.copy(&image, &inside)?;
    Ok(frame)
}

/// Makes room for a tensor of this shape, without gaps between its rows: kernels go over it at once.
pub(super) fn make_row(steps: &mut Steps, dtype: DType, size: &[usize]) -> Block {
    steps.make(dtype, &[size.iter().product()])
}

/// The least number of a dtype, as it is computed with.
fn least(dtype: DType) -> &'static str {
    match dtype {
        DType::Int8 => "-128",
        DType::Int16 => "-32768",
        DType::Int32 => "-2147483648",
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => "0",
        _ => "-inf",
    }
}

fn write_frame(kernel: &Generated) -> String {
    let mut text = Text::default();
    let own = text.dims("i", 1);
    text.operand("out", "y", kernel.dtypes[0], &own);
    let is_least = kernel.numbers[0] == Nothing::Least as u32;
    let nothing = if is_least { least(kernel.dtypes[0]) } else { "0" };
    text.line(format_args!("y = {}({nothing})", lane_of(kernel.dtypes[0])));
    text.kernel(kernel.name)
}

/// Operands of one launch.
pub(super) fn operands<const N: usize>(blocks: [&Block; N]) -> SmallVec<[(DType, OperandView); 8]> {
    blocks.into_iter().map(Block::operand).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorView;
    use crate::recipe::TensorRef;
    use crate::spatial::windows::Window;
    use spyre_numerics::DType::Float32;

    #[test]
    fn windows_that_look_beyond_an_image_are_given_a_frame() {
        let window = Window { size: 3, step: 2, padding: 1, dilation: 1 };
        let windows: Windows = smallvec![window; 2];
        let x = TensorView { dtype: Float32, size: &[2, 8, 8], stride: &[64, 8, 1], offset: 0 };
        let image = Block::of(TensorRef::Argument(0), &x);
        let mut steps = Steps::default();
        let taps = Taps::of(&mut steps, &windows, image, &[2, 4, 4], Nothing::Zero).expect("views");
        assert_eq!(taps.image.view.size[..], [2, 9, 9]);
        let last = taps.view(8).view;
        assert_eq!((&last.stride[..], last.offset), (&[81, 18, 2][..], 20));
        assert!(are_few(&windows));
    }
}
