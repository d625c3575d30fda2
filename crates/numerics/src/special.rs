//! Special functions of real numbers, in f64.
//!
//! They are written out here, on the basis of `libm`, so that every machine gives the same bits:
//! what a host's own library gives depends on its version and on its CPU. Where nothing else is
//! said, they are within a few units of the last place and have PyTorch's values at the edges.

mod airy;
mod chebyshev;
mod error;
mod gamma;
mod incomplete_gamma;
mod modified_bessel;
mod orthogonal;
mod zeta;

pub use airy::airy_ai;
pub use error::{erfcx, erfinv, log_ndtr, ndtri};
pub use gamma::{digamma, lgamma};
pub use incomplete_gamma::{igamma, igammac};
pub use modified_bessel::{
    bessel_i0, bessel_i0e, bessel_i1, bessel_i1e, bessel_k0, bessel_k0e, bessel_k1, bessel_k1e,
};
pub use orthogonal::{
    MOST_DEGREE, chebyshev_t, chebyshev_u, chebyshev_v, chebyshev_w, hermite_h, hermite_he,
    laguerre_l, legendre_p,
};
pub use zeta::zeta;

/// Bessel function J of order 0.
pub fn bessel_j0(x: f64) -> f64 {
    libm::j0(x)
}

/// Bessel function J of order 1.
pub fn bessel_j1(x: f64) -> f64 {
    libm::j1(x)
}

/// Bessel function Y of order 0: minus infinity at zero, NaN below.
pub fn bessel_y0(x: f64) -> f64 {
    libm::y0(x)
}

/// Bessel function Y of order 1: minus infinity at zero, NaN below.
pub fn bessel_y1(x: f64) -> f64 {
    libm::y1(x)
}
