//! Functions of floats over special values, against the host's own library: they are rounded, so
//! results may differ a little.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use spyre_artifact::{BinaryOp, UnaryOp};
use spyre_numerics::special;

use crate::values::{F64, computed, f32_values, pairs};

/// Reference of a function of one number.
pub(crate) fn unary(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Exp => f64::exp,
        UnaryOp::Log => f64::ln,
        UnaryOp::Tanh => f64::tanh,
        UnaryOp::Sin => f64::sin,
        UnaryOp::Cos => f64::cos,
        UnaryOp::Erf => libm::erf,
        UnaryOp::Exp2 => f64::exp2,
        UnaryOp::Expm1 => f64::exp_m1,
        UnaryOp::Log2 => f64::log2,
        UnaryOp::Log10 => f64::log10,
        UnaryOp::Log1p => f64::ln_1p,
        UnaryOp::Tan => f64::tan,
        UnaryOp::Asin => f64::asin,
        UnaryOp::Acos => f64::acos,
        UnaryOp::Atan => f64::atan,
        UnaryOp::Sinh => f64::sinh,
        UnaryOp::Cosh => f64::cosh,
        UnaryOp::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
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
            let grown = SQRT_2 * FRAC_2_SQRT_PI * (x + 0.044_715 * x * x * x);
            x / (1.0 + (-grown).exp())
        },
        UnaryOp::Softplus => |x| if x > 40.0 { x } else { x.exp().ln_1p() },
        UnaryOp::Mantissa => |x| {
            let tens = exponent(x);
            // In two steps, since two to the power may be past every f64.
            x * 2_f64.powi(-tens / 2) * 2_f64.powi(-tens - -tens / 2)
        },
        UnaryOp::Exponent => |x| exponent(x).into(),
        _ => return None,
    })
}

/// The power of two that leaves 0.5 to 1 of a number.
fn exponent(x: f64) -> i32 {
    if x == 0.0 || !x.is_finite() {
        0
    } else if x.is_subnormal() {
        exponent(x * 2_f64.powi(54)) - 54
    } else {
        (x.to_bits() >> 52 & 0x7ff) as i32 - 1022
    }
}

/// Reference of a function of two numbers.
pub(crate) fn binary(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    fn log_add(a: f64, b: f64, of: fn(f64) -> f64) -> f64 {
        if a == b && a.is_infinite() || a.is_nan() || b.is_nan() {
            a + b
        } else {
            a.max(b) + of(-(a - b).abs())
        }
    }
    Some(match op {
        BinaryOp::Pow => f64::powf,
        BinaryOp::Atan2 => f64::atan2,
        BinaryOp::Hypot => f64::hypot,
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

/// Returns true if a result is as close as `part` of it or `least`, or is the same zero, infinity or NaN.
fn is_close(found: f64, expected: f64, part: f64, least: f64) -> bool {
    found.to_bits() == expected.to_bits()
        || found.is_nan() && expected.is_nan()
        || (found - expected).abs() <= (expected.abs() * part).max(least)
}

/// Two units of an f32's last place, and its smallest number; the same of f64, somewhat more.
const SINGLE: (f64, f64) = (2.4e-7, 1.5e-45);
const DOUBLE: (f64, f64) = (4e-15, 5e-324);

#[test]
fn functions_are_those_of_the_host_library() {
    for &op in UnaryOp::ALL {
        let Some(exact) = unary(op) else { continue };
        let values = f32_values();
        let found: Vec<f32> = computed(&[&values], |code, tiles| code.unary(op, tiles[0]));
        for (x, found) in values.into_iter().zip(found) {
            let expected = f64::from(exact(x.into()) as f32);
            let is_fine = is_close(found.into(), expected, SINGLE.0, SINGLE.1);
            assert!(is_fine, "{op} of {x:e}f32: {found:e}, not {expected:e}");
        }
        let found: Vec<f64> = computed(&[&F64[..]], |code, tiles| code.unary(op, tiles[0]));
        for (x, found) in F64.into_iter().zip(found) {
            let is_fine = is_close(found, exact(x), DOUBLE.0, DOUBLE.1);
            assert!(is_fine, "{op} of {x:e}: {found:e}, not {:e}", exact(x));
        }
    }
}

#[test]
fn functions_of_two_are_those_of_the_host_library() {
    for &op in BinaryOp::ALL {
        let Some(exact) = binary(op) else { continue };
        let [left, right] = pairs(&f32_values());
        let act = |code: &mut spyre_artifact::ProgramBuilder, tiles: &[_]| {
            code.binary(op, tiles[0], tiles[1])
        };
        let found: Vec<f32> = computed(&[&left, &right], act);
        for ((a, b), found) in left.into_iter().zip(right).zip(found) {
            let expected = f64::from(exact(a.into(), b.into()) as f32);
            let is_fine = is_close(found.into(), expected, SINGLE.0, SINGLE.1);
            assert!(is_fine, "{op} of {a:e}f32 and {b:e}: {found:e}, not {expected:e}");
        }
        let [left, right] = pairs(&F64);
        let found: Vec<f64> = computed(&[&left, &right], act);
        for ((a, b), found) in left.into_iter().zip(right).zip(found) {
            let expected = exact(a, b);
            // The logarithm of a sum cancels near zero, in both.
            let is_fine = is_close(found, expected, DOUBLE.0, DOUBLE.1 + f64::EPSILON);
            assert!(is_fine, "{op} of {a:e} and {b:e}: {found:e}, not {expected:e}");
        }
    }
}
