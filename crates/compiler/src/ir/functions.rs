//! Functions that are neither arithmetic nor in every library, in f64.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use spyre_artifact::{BinaryOp, UnaryOp};
use spyre_numerics::special;

pub(super) fn unary(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Asinh => f64::asinh,
        UnaryOp::Acosh => f64::acosh,
        UnaryOp::Atanh => f64::atanh,
        UnaryOp::Erfc => libm::erfc,
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
        UnaryOp::Silu => |x| x / (1.0 + (-x).exp()),
        UnaryOp::Gelu => |x| x * (0.5 * libm::erfc(-x * FRAC_1_SQRT_2)),
        UnaryOp::GeluTanh => |x| {
            let grown = FRAC_2_SQRT_PI * SQRT_2 * (x + 0.044_715 * x.powi(3));
            x / (1.0 + (-grown).exp())
        },
        UnaryOp::Softplus => |x| (-x.abs()).exp().ln_1p() + if x < 0.0 { 0.0 } else { x },
        UnaryOp::Mantissa => |x| libm::frexp(x).0,
        UnaryOp::Exponent => |x| if x.is_finite() { libm::frexp(x).1.into() } else { 0.0 },
        _ => return None,
    })
}

pub(super) fn binary(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Hypot => f64::hypot,
        BinaryOp::NextAfter => libm::nextafter,
        BinaryOp::LogAddExp => |a, b| log_add(a, b, |d| d.exp().ln_1p()),
        BinaryOp::LogAddExp2 => |a, b| log_add(a, b, |d| d.exp2().ln_1p() / 2_f64.ln()),
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

/// The larger one and what the other one adds, which depends on how far they are apart.
fn log_add(a: f64, b: f64, added: fn(f64) -> f64) -> f64 {
    if a == b && a.is_infinite() || a.is_nan() || b.is_nan() {
        a + b
    } else {
        a.max(b) + added(-(a - b).abs())
    }
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.wrapping_abs() } else { gcd(b, a.wrapping_rem(b)) }
}
