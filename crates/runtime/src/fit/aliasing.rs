//! Checks the memory that a launch writes for overlaps, with its other tensors and within one.

use smallvec::SmallVec;
use spyre_artifact::Binding;
use spyre_layout::View;

use crate::cpu_tensor::element_bytes;
use crate::plan::definition::Definition;
use crate::plan::recipe::OperandRecipe;
use crate::{Error, SpyreTensor};

/// Refuses results that share memory with another tensor, or whose elements do with each other. A
/// result may be exactly an argument where programs read and write the same element.
#[inline]
pub(crate) fn check(definition: &Definition, tensors: &[SpyreTensor]) -> Result<(), Error> {
    let expected = &definition.output().tensor_input_metadata;
    for (at, tensor) in tensors.iter().enumerate() {
        if !expected[at].role.is_written() {
            continue;
        }
        check_elements(tensor, &expected[at].name)?;
        for (other_at, other) in tensors.iter().enumerate() {
            if other_at == at || other.device_handle() != tensor.device_handle() {
                continue;
            }
            let is_same = tensor.view() == other.view();
            let is_allowed = if is_same {
                moves_alike(definition, at, other_at)
            } else {
                are_disjoint(tensor.view(), other.view())
            };
            if !is_allowed {
                let written = expected[at].name.clone();
                let other = expected[other_at].name.clone();
                return Err(Error::Aliased { written, other });
            }
        }
    }
    Ok(())
}

/// Returns true if programs walk over two tensors alike, and access neither at indices that they compute.
fn moves_alike(definition: &Definition, one: usize, other: usize) -> bool {
    let binding = |at: usize| Binding::Tensor(at as u32);
    definition.recipes().iter().all(|recipe| {
        let of = |at| recipe.operands.iter().filter(move |operand| operand.binding == binding(at));
        let is_alike = |left: &OperandRecipe, right: &OperandRecipe| {
            left.moves == right.moves && !left.is_indexed && !right.is_indexed
        };
        of(one).all(|left| of(other).all(|right| is_alike(left, right)))
    })
}

/// Refuses a result some of whose elements may be the same.
#[inline]
fn check_elements(tensor: &SpyreTensor, name: &str) -> Result<(), Error> {
    let view = tensor.view();
    let mut reach = 0;
    let is_row_major = view.size().iter().zip(view.stride()).rev().all(|(&size, &stride)| {
        let is_past = size <= 1 || stride > reach;
        reach += size.saturating_sub(1) * stride;
        is_past
    });
    if is_row_major { Ok(()) } else { check_any_order(tensor, name) }
}

#[cold]
fn check_any_order(tensor: &SpyreTensor, name: &str) -> Result<(), Error> {
    let view = tensor.view();
    let mut dims: SmallVec<[(usize, usize, usize); 8]> = (0..view.size().len())
        .map(|dim| (view.stride()[dim], view.size()[dim], dim))
        .filter(|&(_, size, _)| size > 1)
        .collect();
    dims.sort_unstable();
    let mut reach = 0;
    for (stride, size, dim) in dims {
        if stride <= reach && view.elements() > 0 {
            let stride_bytes = (stride * element_bytes(tensor.data_type())) as u64;
            return Err(Error::SharedElements { tensor: name.to_owned(), dim, stride_bytes });
        }
        reach += (size - 1) * stride;
    }
    Ok(())
}

/// Number of sums that are tried before two views count as overlapping.
const MOST_STEPS: u32 = 20_000;

/// Returns true if two views of a storage have no element in common; false if that is too hard to tell.
fn are_disjoint(left: &View, right: &View) -> bool {
    let (Some(left_last), Some(right_last)) = (left.last_element(), right.last_element()) else {
        return true;
    };
    if left_last < right.offset() || right_last < left.offset() {
        return true;
    }
    // left.offset + sum(x * stride) = right.offset + sum(y * stride), for some x and y?
    let terms = |view: &View, sign: i64| -> SmallVec<[Term; 8]> {
        // An element that is repeated is one, and may be repeated more often than numbers go.
        let dims = view.size().iter().zip(view.stride());
        let dims = dims.filter(|(size, stride)| **size > 1 && **stride > 0);
        dims.map(|(&size, &stride)| Term::new(stride as i64, (size as i64 - 1) * sign)).collect()
    };
    let mut all = terms(left, 1);
    all.extend(terms(right, -1));
    all.sort_unstable_by_key(|term| std::cmp::Reverse(term.stride));
    let wanted = right.offset() as i64 - left.offset() as i64;
    // As of the parts of complex numbers: no sum of even strides is odd.
    let divisor = all.iter().fold(0, |divisor, term| greatest_common_divisor(divisor, term.stride));
    if divisor > 0 && wanted % divisor != 0 {
        return true;
    }
    let mut steps = MOST_STEPS;
    !may_sum_to(&all, wanted, &mut steps)
}

fn greatest_common_divisor(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// A stride, and how often it may be taken.
#[derive(Clone, Copy, Debug)]
struct Term {
    stride: i64,
    least: i64,
    most: i64,
}

impl Term {
    fn new(stride: i64, last: i64) -> Self {
        Self { stride, least: last.min(0), most: last.max(0) }
    }
}

/// Returns true if the terms may sum to `wanted`, or if the steps run out.
fn may_sum_to(terms: &[Term], wanted: i64, steps: &mut u32) -> bool {
    let Some((first, rest)) = terms.split_first() else { return wanted == 0 };
    let low: i64 = rest.iter().map(|term| term.least * term.stride).sum();
    let high: i64 = rest.iter().map(|term| term.most * term.stride).sum();
    // What is left must lie between what the rest can be.
    let least = first.least.max((wanted - high).div_euclid(first.stride));
    let most = first.most.min((wanted - low).div_euclid(first.stride));
    for times in least..=most {
        *steps = steps.saturating_sub(1);
        if *steps == 0 || may_sum_to(rest, wanted - times * first.stride, steps) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(size: [usize; 2], stride: [usize; 2], offset: usize) -> View {
        View::new(&size, &stride, offset).expect("a small view")
    }

    #[test]
    fn columns_of_one_storage_are_disjoint_until_they_meet() {
        let left = view([512, 64], [240, 1], 0);
        for offset in 64..=176 {
            assert!(are_disjoint(&left, &view([512, 64], [240, 1], offset)), "{offset}");
        }
        for offset in (0..64).chain(177..240) {
            assert!(!are_disjoint(&left, &view([512, 64], [240, 1], offset)), "{offset}");
        }
    }

    #[test]
    fn even_and_odd_elements_are_disjoint() {
        let even = view([10, 5], [10, 2], 0);
        assert!(are_disjoint(&even, &view([10, 5], [10, 2], 1)));
        assert!(!are_disjoint(&even, &view([10, 5], [10, 2], 2)));
        let long = view([1_000_000, 5], [10, 2], 0);
        assert!(are_disjoint(&long, &view([1_000_000, 5], [10, 2], 1)));
    }

    #[test]
    fn an_element_that_is_repeated_is_one_however_often() {
        let left = view([2, 2], [2, 1], 0);
        for size in [1 << 63, usize::MAX] {
            let repeated = |offset| View::new(&[size], &[0], offset).expect("one element");
            assert!(!are_disjoint(&left, &repeated(2)));
            assert!(!are_disjoint(&repeated(2), &left));
        }
        let even = view([10, 5], [10, 2], 0);
        assert!(are_disjoint(&even, &View::new(&[1 << 63], &[0], 3).expect("one element")));
    }

    #[test]
    fn disjoint_means_no_element_in_common() {
        let mut seed = 1_u64;
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) % bound
        };
        let mut disjoint = 0;
        for _ in 0..20_000 {
            let [left, right] = [(); 2].map(|()| {
                let size = [below(5) as usize, 1 + below(4) as usize];
                view(size, [below(8) as usize, below(8) as usize], below(20) as usize)
            });
            let elements = |view: &View| -> Vec<usize> {
                let [rows, columns] = [view.size()[0], view.size()[1]];
                (0..rows).flat_map(|i| (0..columns).map(move |j| view.element(&[i, j]))).collect()
            };
            let right_elements = elements(&right);
            let share = elements(&left).iter().any(|element| right_elements.contains(element));
            assert_eq!(are_disjoint(&left, &right), !share, "{left:?} {right:?}");
            disjoint += u32::from(!share);
        }
        assert!((5_000..15_000).contains(&disjoint), "{disjoint}");
    }
}
