//! Choice of the loop that computes a function of floats.

use spyre_artifact::{BinaryOp, UnaryOp};

use crate::programs::execute::elementwise::{Numbers, both, change, unknown};
use crate::programs::math::{
    angle, error, exponential, gate, hyperbolic, logarithm, normal, power, scalar, wave,
};
use crate::programs::schedule::stop::Stop;

/// A lane of floats.
pub(in crate::programs) trait Functions: Sized {
    /// A function of one number.
    fn function(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop>;

    /// A function of two numbers.
    fn function_of_two(
        op: BinaryOp,
        sources: [&[Self]; 2],
        target: &mut [Self],
    ) -> Result<(), Stop>;
}

impl Functions for f32 {
    #[inline(always)]
    fn function(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop> {
        match op {
            UnaryOp::Exp => {
                in_pieces(values, exponential::is_near, exponential::exp_near, exponential::exp)
            }
            UnaryOp::Exp2 => change(values, exponential::exp2),
            UnaryOp::Expm1 => change(values, exponential::expm1),
            UnaryOp::Log => {
                in_pieces(values, logarithm::is_near, logarithm::log_near, logarithm::log)
            }
            UnaryOp::Log2 => change(values, logarithm::log2),
            UnaryOp::Log10 => change(values, logarithm::log10),
            UnaryOp::Log1p => change(values, logarithm::log1p),
            UnaryOp::Softplus => change(values, logarithm::softplus),
            UnaryOp::Sin => of_angle(values, wave::sin, libm::sin),
            UnaryOp::Cos => of_angle(values, wave::cos, libm::cos),
            UnaryOp::Tan => of_angle(values, wave::tan, libm::tan),
            UnaryOp::Asin => change(values, angle::asin),
            UnaryOp::Acos => change(values, angle::acos),
            UnaryOp::Atan => change(values, angle::atan),
            UnaryOp::Tanh => change(values, hyperbolic::tanh),
            UnaryOp::Sinh => change(values, hyperbolic::sinh),
            UnaryOp::Cosh => change(values, hyperbolic::cosh),
            UnaryOp::Asinh => change(values, hyperbolic::asinh),
            UnaryOp::Acosh => change(values, hyperbolic::acosh),
            UnaryOp::Atanh => change(values, hyperbolic::atanh),
            UnaryOp::Erf => change(values, error::erf),
            UnaryOp::Erfc => change(values, error::erfc),
            UnaryOp::Sigmoid => in_pieces(values, gate::is_near, gate::sigmoid_near, gate::sigmoid),
            UnaryOp::Silu => in_pieces(values, gate::is_near, gate::silu_near, gate::silu),
            UnaryOp::Gelu => in_pieces(values, normal::is_near, normal::gelu_near, normal::gelu),
            UnaryOp::GeluTanh => {
                in_pieces(values, gate::is_gelu_tanh_near, gate::gelu_tanh_near, gate::gelu_tanh)
            }
            _ => {
                let function = scalar::rare(op).ok_or_else(|| unknown(op.name()))?;
                change(values, |x| function(x.into()) as Self)
            }
        }
    }

    #[inline(always)]
    fn function_of_two(
        op: BinaryOp,
        sources: [&[Self]; 2],
        target: &mut [Self],
    ) -> Result<(), Stop> {
        match op {
            BinaryOp::Pow => both(sources, target, power::pow),
            BinaryOp::Atan2 => both(sources, target, angle::atan2),
            BinaryOp::Hypot => both(sources, target, power::hypot),
            BinaryOp::NextAfter => both(sources, target, libm::nextafterf),
            BinaryOp::LogAddExp => both(sources, target, logarithm::log_add_exp),
            BinaryOp::LogAddExp2 => both(sources, target, logarithm::log_add_exp2),
            _ => {
                let function = scalar::rare_binary(op).ok_or_else(|| unknown(op.name()))?;
                both(sources, target, |a, b| function(a.into(), b.into()) as Self)
            }
        }
    }
}

impl Functions for f64 {
    #[inline(always)]
    fn function(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop> {
        change(values, scalar::unary(op).ok_or_else(|| unknown(op.name()))?)
    }

    #[inline(always)]
    fn function_of_two(
        op: BinaryOp,
        sources: [&[Self]; 2],
        target: &mut [Self],
    ) -> Result<(), Stop> {
        both(sources, target, scalar::binary(op).ok_or_else(|| unknown(op.name()))?)
    }
}

/// A function in pieces: those whose numbers are all near are cheaper, and have the same bits.
#[inline(always)]
fn in_pieces(
    values: impl Numbers<f32>,
    is_near: impl Fn(f32) -> bool,
    near: impl Fn(f32) -> f32,
    any: impl Fn(f32) -> f32,
) -> Result<(), Stop> {
    values.change_in_pieces(is_near, near, any);
    Ok(())
}

/// A function of an angle; of very large ones with the scalar function, one by one.
#[inline(always)]
fn of_angle(
    values: impl Numbers<f32>,
    near: impl Fn(f32) -> f32,
    far: fn(f64) -> f64,
) -> Result<(), Stop> {
    let any = |x| if wave::is_far(x) { far(x.into()) as f32 } else { near(x) };
    in_pieces(values, |x| !wave::is_far(x), &near, any)
}
