//! A kernel that needs more registers than a program has is computed in parts: a value in the middle is
//! kept in memory, and what comes after it is computed from there.

use crate::{Expression, Kernel, ValueId};

/// The most values that are kept for want of registers.
const MOST_KEPT: usize = 32;

/// Returns the value that cuts the longest stretch of work between values that are kept.
pub(super) fn value_to_keep(kernel: &Kernel, keep: &[ValueId]) -> Option<ValueId> {
    let work = work(kernel);
    let is_inside = |value: &&ValueId, from: u32, to: u32| from < value.0 && value.0 < to;
    let starts = std::iter::once(0).chain(keep.iter().map(|kept| kept.0));
    let ends = keep.iter().map(|kept| kept.0).chain([u32::MAX]);
    let stretches = starts.zip(ends).map(|(from, to)| {
        work.iter().filter(|value| is_inside(value, from, to)).copied().collect::<Vec<_>>()
    });
    let longest = stretches.max_by_key(Vec::len)?;
    let is_worth_it = keep.len() < MOST_KEPT && longest.len() > 2;
    is_worth_it.then(|| longest[longest.len() / 2])
}

/// Values that a store needs and that are computed from others, along as many dims as any.
fn work(kernel: &Kernel) -> Vec<ValueId> {
    let mut is_used = vec![false; kernel.values().len()];
    for store in kernel.stores() {
        let sources = store.axes.iter().chain([&store.value]).chain(&store.condition);
        sources.for_each(|source| is_used[source.0 as usize] = true);
    }
    for (at, value) in kernel.values().iter().enumerate().rev() {
        if is_used[at] {
            value.expression.sources().iter().for_each(|source| is_used[source.0 as usize] = true);
        }
    }
    let is_work = |expression: &Expression| {
        matches!(
            expression,
            Expression::Binary(..) | Expression::Select(..) | Expression::Unary(..)
        )
    };
    let used = kernel.values().iter().enumerate().filter(|&(at, _)| is_used[at]);
    let used: Vec<_> = used.filter(|(_, value)| is_work(&value.expression)).collect();
    let widest = used.iter().map(|(_, value)| value.span.iter().count()).max().unwrap_or(0);
    let is_widest = |&(_, value): &(usize, &crate::Value)| value.span.iter().count() == widest;
    used.into_iter().filter(is_widest).map(|(at, _)| ValueId(at as u32)).collect()
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
