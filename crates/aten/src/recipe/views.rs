//! Tensors of one shape as operands of one loop nest.

use smallvec::{SmallVec, smallvec};

use crate::{Decline, TensorView};

pub(crate) type Numbers = SmallVec<[usize; 6]>;

/// Dims that a kernel can have.
pub(crate) const MOST_DIMS: usize = 8;

/// A last dim this long has rows that are worth a loop of their own.
const LONG_ROW: usize = 64;

/// The shape that all of these can be repeated to; `None` if there is none.
pub(crate) fn broadcast<'a>(sizes: impl IntoIterator<Item = &'a [usize]>) -> Option<Numbers> {
    let mut shape = Numbers::new();
    for size in sizes {
        while shape.len() < size.len() {
            shape.insert(0, 1);
        }
        let offset = shape.len() - size.len();
        for (known, &given) in shape[offset..].iter_mut().zip(size) {
            match (*known, given) {
                (1, given) => *known = given,
                (known, given) if given == 1 || given == known => {}
                _ => return None,
            }
        }
    }
    Some(shape)
}

/// A tensor's strides when it is repeated to `shape`; `None` if it cannot be.
pub(crate) fn expanded(tensor: &TensorView<'_>, shape: &[usize]) -> Option<Numbers> {
    let missing = shape.len().checked_sub(tensor.size.len())?;
    let mut strides: Numbers = smallvec![0; shape.len()];
    for (at, (&size, &stride)) in tensor.size.iter().zip(tensor.stride).enumerate() {
        match size {
            size if size == shape[missing + at] => strides[missing + at] = stride,
            1 => {}
            _ => return None,
        }
    }
    Some(strides)
}

/// The loops over some operands of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loops {
    pub(crate) size: Numbers,
    /// Per operand.
    pub(crate) strides: SmallVec<[Numbers; 4]>,
}

impl Loops {
    /// Loops over `shape`, whose last operand says what lies beside what: in the order of its memory,
    /// without dims of one element, and with dims that continue each other as one. Rows stay rows.
    pub(crate) fn over(shape: &[usize], strides: SmallVec<[Numbers; 4]>) -> Result<Self, Decline> {
        let mut loops = Self { size: shape.into(), strides };
        loops.drop_single();
        loops.sort();
        loops.merge();
        match loops.size.len() {
            0 => Ok(Self {
                size: smallvec![1],
                strides: smallvec![smallvec![1]; loops.strides.len()],
            }),
            1..=MOST_DIMS => Ok(loops),
            dims => Err(Decline::Rank { dims }),
        }
    }

    fn drop_single(&mut self) {
        for dim in (0..self.size.len()).rev() {
            if self.size[dim] == 1 {
                self.remove(dim);
            }
        }
    }

    fn remove(&mut self, dim: usize) {
        self.size.remove(dim);
        for strides in &mut self.strides {
            strides.remove(dim);
        }
    }

    fn sort(&mut self) {
        let Some(last) = self.strides.last() else { return };
        if last.windows(2).all(|pair| pair[0] >= pair[1]) {
            return;
        }
        let mut order: Numbers = (0..self.size.len()).collect();
        order.sort_by_key(|&dim| std::cmp::Reverse(last[dim]));
        for numbers in self.strides.iter_mut().chain([&mut self.size]) {
            *numbers = order.iter().map(|&dim| numbers[dim]).collect();
        }
    }

    fn merge(&mut self) {
        for inner in (1..self.size.len()).rev() {
            let is_row = inner + 1 == self.size.len() && self.size[inner] >= LONG_ROW;
            if !is_row && self.continues(inner) {
                self.size[inner - 1] *= self.size[inner];
                self.strides.iter_mut().for_each(|strides| strides[inner - 1] = strides[inner]);
                self.remove(inner);
            }
        }
    }

    /// Returns true if a dim is the rows of which the next outer one is the list, in every operand:
    /// both can be one.
    fn continues(&self, inner: usize) -> bool {
        let size = self.size[inner];
        self.strides.iter().all(|strides| strides[inner - 1] == strides[inner] * size)
    }
}

/// Strides of a new tensor of `shape` that lies as its sources do, as PyTorch chooses them: the order
/// of dims is that of the first source that has one.
pub(crate) fn like(shape: &[usize], sources: &[Numbers]) -> Numbers {
    let rank = shape.len();
    let mut order: Numbers = (0..rank).rev().collect();
    for at in 1..rank {
        let mut place = at;
        for other in (0..at).rev() {
            match is_inner(shape, sources, order[other], order[place]) {
                Some(true) => break,
                Some(false) => {
                    order.swap(other, place);
                    place = other;
                }
                None => {}
            }
        }
    }
    let mut strides: Numbers = smallvec![1; rank];
    let mut step = 1;
    for dim in order {
        strides[dim] = step;
        step *= shape[dim].max(1);
    }
    strides
}

/// Strides of a new tensor that is like another one: the same, if that one has neither gaps nor elements
/// twice.
pub(crate) fn preserved(shape: &[usize], stride: &[usize]) -> Numbers {
    if is_dense(shape, stride) { stride.into() } else { like(shape, &[stride.into()]) }
}

/// Strides of a new image that lies as another one does: its channels come last if theirs do.
pub(crate) fn image_like(size: &[usize], sources: &[&TensorView<'_>]) -> Numbers {
    if size.len() >= 4 && sources.iter().any(|x| has_channels_last(x.size, x.stride)) {
        channels_last(size)
    } else {
        like(size, &[])
    }
}

fn channels_last(size: &[usize]) -> Numbers {
    let mut strides: Numbers = smallvec![1; size.len()];
    let mut step = size[1].max(1);
    for dim in (2..size.len()).rev().chain([0]) {
        strides[dim] = step;
        step *= size[dim].max(1);
    }
    strides
}

/// Returns true if an image lies with its channels last, by PyTorch's rule for sizes and strides.
fn has_channels_last(size: &[usize], stride: &[usize]) -> bool {
    let order: &[usize] = match size.len() {
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    let mut least = 0;
    for &dim in order {
        // An image of one place, whose strides say nothing, is one that lies in rows.
        let says_nothing = dim == 0 && least == stride[1];
        if size[dim] == 0 || stride[dim] < least.max(usize::from(dim == 1)) || says_nothing {
            return false;
        }
        least = stride[dim] * size[dim];
    }
    true
}

/// Returns true if a tensor is dense, by PyTorch's rule: dims of less than two elements do not count.
fn is_dense(shape: &[usize], stride: &[usize]) -> bool {
    let mut dims: SmallVec<[(usize, usize); 8]> =
        stride.iter().copied().zip(shape.iter().copied()).filter(|dim| dim.1 > 1).collect();
    dims.sort_unstable();
    let mut expected = 1;
    shape.contains(&0)
        || dims.iter().all(|&(stride, size)| {
            let is_next = stride == expected;
            expected *= size;
            is_next
        })
}

/// Returns true if `one` steps less far than `other`; `None` if no source decides.
fn is_inner(shape: &[usize], sources: &[Numbers], one: usize, other: usize) -> Option<bool> {
    for strides in sources {
        let near = strides[one];
        let far = strides[other];
        if near == 0 || far == 0 {
            continue;
        }
        if near != far {
            return Some(near < far);
        }
        if shape[one] > shape[other] {
            return Some(false);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &[usize]) -> Numbers {
        list.into()
    }

    #[test]
    fn shapes_are_repeated_to_one() {
        let both: [&[usize]; 2] = [&[3, 1], &[2, 1, 4]];
        assert_eq!(broadcast(both), Some(numbers(&[2, 3, 4])));
        let clash: [&[usize]; 2] = [&[3], &[4]];
        assert_eq!(broadcast(clash), None);
    }

    #[test]
    fn short_rows_become_one_and_long_ones_stay() -> Result<(), Decline> {
        let of = |shape: &[usize]| Loops::over(shape, smallvec![like(shape, &[])]);
        assert_eq!(of(&[5, 1, 3])?.size, numbers(&[15]));
        assert_eq!(of(&[5, 7, 64])?.size, numbers(&[35, 64]));
        assert_eq!(of(&[])?.size, numbers(&[1]));
        Ok(())
    }

    #[test]
    fn loops_follow_the_memory_of_the_result() -> Result<(), Decline> {
        let loops = Loops::over(&[4, 100], smallvec![numbers(&[0, 1]), numbers(&[1, 4])])?;
        assert_eq!((loops.size, loops.strides[0].clone()), (numbers(&[100, 4]), numbers(&[1, 0])));
        Ok(())
    }

    #[test]
    fn a_new_image_lies_as_its_source_does() {
        let image = |size, stride| TensorView {
            dtype: spyre_numerics::DType::Float32,
            size,
            stride,
            offset: 0,
        };
        let last = image(&[2, 8, 5, 7], &[280, 1, 56, 8]);
        assert_eq!(image_like(&[2, 6, 3, 1], &[&last]), numbers(&[18, 1, 6, 6]));
        let rows = image(&[2, 8, 5, 7], &[280, 35, 7, 1]);
        assert_eq!(image_like(&[2, 6, 3, 2], &[&rows]), numbers(&[36, 6, 2, 1]));
        let single = image(&[2, 1, 1, 1], &[1, 1, 1, 1]);
        assert_eq!(image_like(&[2, 1, 3, 3], &[&single]), numbers(&[9, 9, 3, 1]));
        assert_eq!(image_like(&[2, 6, 3, 2], &[&rows, &last]), numbers(&[36, 1, 12, 6]));
    }

    #[test]
    fn a_new_tensor_lies_as_its_source_does() {
        assert_eq!(like(&[2, 3], &[numbers(&[1, 2])]), numbers(&[1, 2]));
        assert_eq!(like(&[2, 3], &[numbers(&[0, 1])]), numbers(&[3, 1]));
        assert_eq!(like(&[2, 1, 3], &[numbers(&[3, 3, 1])]), numbers(&[3, 3, 1]));
        assert_eq!(like(&[2, 3, 4], &[numbers(&[12, 1, 3])]), numbers(&[12, 1, 3]));
    }
}
