//! A kernel that needs more registers than a program has is computed in parts: a value in the middle is
//! kept in memory, and what comes after it is computed from there.

use std::collections::HashSet;

use crate::{Expression, Kernel, ValueId};

/// The most values that are kept for want of registers.
const MOST_KEPT: usize = 12;

/// The most values that are compared to find one.
const MOST_COMPARED: usize = 64;

/// Returns the value that cuts the largest part in two: about half of what the part computes is for it.
pub(super) fn value_to_keep(kernel: &Kernel, keep: &[ValueId]) -> Option<ValueId> {
    if keep.len() >= MOST_KEPT {
        return None;
    }
    let stored = kernel.stores().iter().flat_map(|store| {
        store.axes.iter().chain([&store.value]).chain(&store.condition).copied().collect::<Vec<_>>()
    });
    let parts = keep.iter().map(|&kept| KernelPart::of(kernel, &[kept], keep));
    let parts = parts.chain([KernelPart::of(kernel, &stored.collect::<Vec<_>>(), keep)]);
    let largest = parts.max_by_key(|part| part.values.len())?;
    let half = largest.values.len() / 2;
    let widest = largest.work(kernel).map(|value| width(kernel, value)).max()?;
    let is_candidate =
        |value: &ValueId| width(kernel, *value) == widest && !largest.roots.contains(value);
    let mut candidates: Vec<_> = largest.work(kernel).filter(is_candidate).collect();
    candidates.sort_unstable();
    let step = candidates.len() / MOST_COMPARED + 1;
    let distance = |value| KernelPart::of(kernel, &[value], keep).values.len().abs_diff(half);
    candidates.into_iter().step_by(step).min_by_key(|&value| (distance(value), value))
}

/// A part of a kernel: values, and all that they are computed from, up to values that are kept.
struct KernelPart {
    roots: Vec<ValueId>,
    values: HashSet<ValueId>,
}

impl KernelPart {
    fn of(kernel: &Kernel, roots: &[ValueId], keep: &[ValueId]) -> Self {
        let mut values = HashSet::new();
        let mut open = roots.to_vec();
        while let Some(value) = open.pop() {
            let is_given = keep.contains(&value) && !roots.contains(&value);
            if !is_given && values.insert(value) {
                open.extend(kernel.value(value).expression.sources());
            }
        }
        Self { roots: roots.to_vec(), values }
    }

    /// Values that are computed from others.
    fn work<'a>(&'a self, kernel: &'a Kernel) -> impl Iterator<Item = ValueId> + 'a {
        let is_work = |value: &ValueId| {
            let expression = &kernel.value(*value).expression;
            matches!(
                expression,
                Expression::Binary(..) | Expression::Select(..) | Expression::Unary(..)
            )
        };
        self.values.iter().copied().filter(is_work)
    }
}

fn width(kernel: &Kernel, value: ValueId) -> usize {
    kernel.value(value).span.iter().count()
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, Kernel};

    /// A sum of many loads that nothing lets it do one by one: each of them is needed twice.
    fn crowded(loads: usize) -> Kernel {
        let mut text = "kernel crowded(i) {\n in x: float32[i]\n out y: float32[i]\n".to_owned();
        for at in 0..loads {
            text += &format!(" a{at} = exp(x[i - {at}] else 0)\n");
        }
        let sum = |sign: &str| (0..loads).map(|at| format!("a{at}")).collect::<Vec<_>>().join(sign);
        text += &format!(" s = {}\n p = {}\n y = s * p\n}}", sum(" + "), sum(" * "));
        text.parse().expect("a kernel")
    }

    #[test]
    fn a_kernel_with_more_values_than_registers_is_computed_in_parts() {
        let plan = crowded(70).compile(&CompileOptions::default()).expect("it has a plan");
        assert!(!plan.intermediates.is_empty(), "something is kept in memory");
        let plan = crowded(4).compile(&CompileOptions::default()).expect("it has a plan");
        assert!(plan.intermediates.is_empty());
    }
}
