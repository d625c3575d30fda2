//! Functions that are called for each element: the f64 lane, and what few kernels use.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LOG2_E, SQRT_2};

use spyre_artifact::{BinaryOp, UnaryOp};
use spyre_numerics::special;

/// The function of f64 that an operation is; `None` if it is not computed so.
pub(in super::super) fn unary(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Exp => libm::exp,
        UnaryOp::Log => libm::log,
        UnaryOp::Tanh => libm::tanh,
        UnaryOp::Sin => libm::sin,
        UnaryOp::Cos => libm::cos,
        UnaryOp::Erf => libm::erf,
        UnaryOp::Exp2 => libm::exp2,
        UnaryOp::Expm1 => libm::expm1,
        UnaryOp::Log2 => libm::log2,
        UnaryOp::Log10 => libm::log10,
        UnaryOp::Log1p => libm::log1p,
        UnaryOp::Tan => libm::tan,
        UnaryOp::Asin => libm::asin,
        UnaryOp::Acos => libm::acos,
        UnaryOp::Atan => libm::atan,
        UnaryOp::Sinh => libm::sinh,
        UnaryOp::Cosh => libm::cosh,
        UnaryOp::Asinh => libm::asinh,
        // Theirs has values below one.
        UnaryOp::Acosh => |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
        UnaryOp::Atanh => libm::atanh,
        UnaryOp::Sigmoid => |x| 1.0 / (1.0 + libm::exp(-x)),
        UnaryOp::Silu => |x| x / (1.0 + libm::exp(-x)),
        UnaryOp::Gelu => |x| x * (0.5 * libm::erfc(-x * FRAC_1_SQRT_2)),
        UnaryOp::GeluTanh => gelu_tanh,
        UnaryOp::Softplus => |x| libm::log1p(libm::exp(-x.abs())) + if x < 0.0 { 0.0 } else { x },
        UnaryOp::Erfc => libm::erfc,
        _ => return rare(op),
    })
}

/// The function of f64 that an operation is also for f32, there rounded.
pub(in super::super) fn rare(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Erfinv => special::erfinv,
        UnaryOp::Erfcx => special::erfcx,
        UnaryOp::Lgamma => special::lgamma,
        UnaryOp::Digamma => special::digamma,
        UnaryOp::BesselI0 => special::bessel_i0,
        UnaryOp::BesselI0e => special::bessel_i0e,
        UnaryOp::BesselI1 => special::bessel_i1,
        UnaryOp::BesselI1e => special::bessel_i1e,
        UnaryOp::BesselJ0 => special::bessel_j0,
        UnaryOp::BesselJ1 => special::bessel_j1,
        UnaryOp::BesselY0 => special::bessel_y0,
        UnaryOp::BesselY1 => special::bessel_y1,
        UnaryOp::BesselK0 => special::bessel_k0,
        UnaryOp::BesselK0e => special::bessel_k0e,
        UnaryOp::BesselK1 => special::bessel_k1,
        UnaryOp::BesselK1e => special::bessel_k1e,
        UnaryOp::AiryAi => special::airy_ai,
        UnaryOp::Ndtri => special::ndtri,
        UnaryOp::LogNdtr => special::log_ndtr,
        UnaryOp::Mantissa => |x| libm::frexp(x).0,
        UnaryOp::Exponent => |x| if x.is_finite() { libm::frexp(x).1.into() } else { 0.0 },
        _ => return None,
    })
}

/// The function of two f64 that an operation is; `None` if it is not computed so.
pub(in super::super) fn binary(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Pow => libm::pow,
        BinaryOp::Atan2 => libm::atan2,
        BinaryOp::Hypot => libm::hypot,
        BinaryOp::NextAfter => libm::nextafter,
        BinaryOp::LogAddExp => |a, b| log_of_sum(a, b, || libm::log1p(libm::exp(-(a - b).abs()))),
        BinaryOp::LogAddExp2 => {
            |a, b| log_of_sum(a, b, || libm::log1p(libm::exp2(-(a - b).abs())) * LOG2_E)
        }
        _ => return rare_binary(op),
    })
}

/// The function of two f64 that an operation is also for f32, there rounded.
pub(in super::super) fn rare_binary(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Zeta => special::zeta,
        BinaryOp::Igamma => special::igamma,
        BinaryOp::Igammac => special::igammac,
        BinaryOp::ChebyshevT => special::chebyshev_t,
        BinaryOp::ChebyshevU => special::chebyshev_u,
        BinaryOp::ChebyshevV => special::chebyshev_v,
        BinaryOp::ChebyshevW => special::chebyshev_w,
        BinaryOp::HermiteH => special::hermite_h,
        BinaryOp::HermiteHe => special::hermite_he,
        BinaryOp::LaguerreL => special::laguerre_l,
        BinaryOp::LegendreP => special::legendre_p,
        _ => return None,
    })
}

fn gelu_tanh(x: f64) -> f64 {
    const SCALE: f64 = -2.0 * 0.5 * SQRT_2 * FRAC_2_SQRT_PI;
    x / (1.0 + libm::exp(SCALE * (x * (1.0 + 0.044_715 * x * x))))
}

/// The larger one, and what the other adds to it. Two equal infinities have no difference.
fn log_of_sum(a: f64, b: f64, added: impl Fn() -> f64) -> f64 {
    if a == b && a.is_infinite() { a } else { added() + if a > b { a } else { b } }
}
