//! Constants as the card has them.
//!
//! A kernel of the card's 16-bit floats has its constants in that format. One that is infinite is
//! 65504 there, which is rounded to 65536: what an infinity of the host arrives as. One that is too
//! large is the largest number. With these a mask hides what it should, and a row of which all is
//! hidden is no row of NaN. Kernels with operands of 32 bits have their constants in 32 bits.

use spyre_artifact::{Constant, Lane};
use spyre_numerics::{DType, Sen169};

use super::{Expression, Kernel, Value, ValueId};

/// An infinite constant.
pub(crate) const INFINITE: f64 = Sen169::from_f32(65504.0).to_f32() as f64;
/// The largest constant.
pub(crate) const LARGEST: f64 = Sen169::MAX.to_f32() as f64;

impl Kernel {
    /// Tells if a number that is known at launch is in the card's 16-bit float, and is more than compared
    /// with: an infinity that something is compared with is the special.
    pub(crate) fn is_short(&self, number: ValueId) -> bool {
        let is_needed = |value: &Value| {
            let is_compared = matches!(value.expression, Expression::Compare(..));
            !is_compared && value.expression.sources().contains(&number)
        };
        let is_stored = self.stores().iter().any(|store| store.value == number);
        self.has_short_constants() && (is_stored || self.values().iter().any(is_needed))
    }

    /// Tells if its constants are in the card's 16-bit float.
    fn has_short_constants(&self) -> bool {
        let has = |dtype| self.operands().iter().any(|operand| operand.dtype == dtype);
        (has(DType::Float16) || has(DType::BFloat16)) && !has(DType::Float32)
    }

    /// Copies the kernel: its constants are as the card has them wherever they are chosen or stored.
    /// Others are of the kernel's own making, such as what a score is compared with.
    pub(crate) fn with_card_constants(&self) -> Self {
        let mut kernel = self.clone();
        if !self.has_short_constants() {
            return kernel;
        }
        let mut is_data = vec![true; self.values().len()];
        let computed_from = self.values().iter().flat_map(|value| computed_from(&value.expression));
        computed_from.for_each(|source| is_data[source.0 as usize] = false);
        for (value, is_data) in kernel.values.iter_mut().zip(is_data) {
            match &mut value.expression {
                Expression::Constant(Constant::Float(number))
                    if value.lane == Lane::F32 && is_data =>
                {
                    *number = short(*number);
                }
                _ => {}
            }
        }
        kernel
    }
}

/// The values that an expression computes something from; those of which it chooses one are none.
fn computed_from(expression: &Expression) -> Vec<ValueId> {
    match *expression {
        Expression::Select(condition, ..) => vec![condition],
        _ => expression.sources(),
    }
}

/// A constant as the card has it, but for rounding.
fn short(number: f64) -> f64 {
    if number.is_infinite() { INFINITE.copysign(number) } else { number.clamp(-LARGEST, LARGEST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants(text: &str) -> Vec<f64> {
        let kernel: Kernel = text.parse().expect("a kernel");
        let number = |value: &Value| match value.expression {
            Expression::Constant(Constant::Float(number)) => Some(number),
            _ => None,
        };
        kernel.with_card_constants().values().iter().filter_map(number).collect()
    }

    #[test]
    fn infinite_constants_are_the_cards_largest_mask_value() {
        let text = |dtype| {
            format!(
                "kernel k(i) {{\n in x: {dtype}[i]\n out y: {dtype}[i]\n \
                 y = where(x == inf, -inf, where(x > 0, x, -3e38))\n}}"
            )
        };
        let inf = f64::INFINITY;
        assert_eq!(constants(&text("float16")), [inf, 0.0, -8_573_157_376.0, -65536.0]);
        assert_eq!(constants(&text("bfloat16")), [inf, 0.0, -8_573_157_376.0, -65536.0]);
        assert_eq!(constants(&text("float32")), [inf, 0.0, -3e38, -inf]);
    }

    #[test]
    fn a_constant_that_is_stored_as_it_is_is_limited_too() {
        assert_eq!(constants("kernel k(i) {\n out y: float16[i]\n y = inf\n}"), [65536.0]);
    }
}
