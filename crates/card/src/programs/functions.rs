//! Which loop computes which function of floats.

use spyre_artifact::{BinaryOp, UnaryOp};

use super::Stop;
use super::elementwise::{both, each, unknown};
use super::math::{angle, error, exponential, gate, hyperbolic, logarithm, power, scalar, wave};

/// A lane of floats.
pub(super) trait Functions: Sized {
    /// A function of one number.
    fn function(op: UnaryOp, source: &[Self], target: &mut [Self]) -> Result<(), Stop>;

    /// A function of two numbers.
    fn function_of_two(
        op: BinaryOp,
        sources: [&[Self]; 2],
        target: &mut [Self],
    ) -> Result<(), Stop>;
}

impl Functions for f32 {
    #[inline(always)]
    fn function(op: UnaryOp, source: &[Self], target: &mut [Self]) -> Result<(), Stop> {
        match op {
            UnaryOp::Exp => each(source, target, exponential::exp),
            UnaryOp::Exp2 => each(source, target, exponential::exp2),
            UnaryOp::Expm1 => each(source, target, exponential::expm1),
            UnaryOp::Log => each(source, target, logarithm::log),
            UnaryOp::Log2 => each(source, target, logarithm::log2),
            UnaryOp::Log10 => each(source, target, logarithm::log10),
            UnaryOp::Log1p => each(source, target, logarithm::log1p),
            UnaryOp::Softplus => each(source, target, logarithm::softplus),
            UnaryOp::Sin => turned(source, target, wave::sin, libm::sin),
            UnaryOp::Cos => turned(source, target, wave::cos, libm::cos),
            UnaryOp::Tan => turned(source, target, wave::tan, libm::tan),
            UnaryOp::Asin => each(source, target, angle::asin),
            UnaryOp::Acos => each(source, target, angle::acos),
            UnaryOp::Atan => each(source, target, angle::atan),
            UnaryOp::Tanh => each(source, target, hyperbolic::tanh),
            UnaryOp::Sinh => each(source, target, hyperbolic::sinh),
            UnaryOp::Cosh => each(source, target, hyperbolic::cosh),
            UnaryOp::Asinh => each(source, target, hyperbolic::asinh),
            UnaryOp::Acosh => each(source, target, hyperbolic::acosh),
            UnaryOp::Atanh => each(source, target, hyperbolic::atanh),
            UnaryOp::Erf => each(source, target, error::erf),
            UnaryOp::Erfc => each(source, target, error::erfc),
            UnaryOp::Sigmoid => each(source, target, gate::sigmoid),
            UnaryOp::Silu => each(source, target, gate::silu),
            UnaryOp::Gelu => each(source, target, gate::gelu),
            UnaryOp::GeluTanh => each(source, target, gate::gelu_tanh),
            _ => {
                let function = scalar::rare(op).ok_or_else(|| unknown(op.name()))?;
                each(source, target, |x| function(x.into()) as Self)
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
    fn function(op: UnaryOp, source: &[Self], target: &mut [Self]) -> Result<(), Stop> {
        each(source, target, scalar::unary(op).ok_or_else(|| unknown(op.name()))?)
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

/// A function of an angle; of very large ones with the scalar function, one by one.
#[inline(always)]
fn turned(
    source: &[f32],
    target: &mut [f32],
    near: impl Fn(f32) -> f32,
    far: fn(f64) -> f64,
) -> Result<(), Stop> {
    each(source, target, near)?;
    // Not `any`, which would stop to look at each one.
    if source.iter().fold(false, |is_far, &x| is_far | wave::is_far(x)) {
        for (&x, result) in source.iter().zip(target).filter(|(x, _)| wave::is_far(**x)) {
            *result = far(x.into()) as f32;
        }
    }
    Ok(())
}
