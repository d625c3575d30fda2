//! Orthogonal polynomials by their recurrences. The degree is a float, as PyTorch has it: rounded
//! towards zero, and no polynomial below zero.

/// Beyond this degree they are NaN, but for Chebyshev's between -1 and 1: a degree is data, and must
/// not keep a card busy forever.
pub const MOST_DEGREE: f64 = 65_536.0;

/// Past this degree, Chebyshev polynomials between -1 and 1 are computed as waves.
const WAVES: f64 = 6.0;

/// Chebyshev polynomial of the first kind.
pub fn chebyshev_t(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if n < 0.0 {
        0.0
    } else if x.abs() == 1.0 {
        ends(x, n, 1.0)
    } else if n > WAVES && x.abs() < 1.0 {
        libm::cos(n * libm::acos(x))
    } else {
        recur(n, x, |_, p, q| 2.0 * x * q - p)
    }
}

/// Chebyshev polynomial of the second kind.
pub fn chebyshev_u(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if n < 0.0 {
        0.0
    } else if x.abs() == 1.0 {
        ends(x, n, n + 1.0)
    } else if n > WAVES + 2.0 && x.abs() < 1.0 {
        let angle = libm::acos(x);
        libm::sin((n + 1.0) * angle) / libm::sin(angle)
    } else {
        recur(n, 2.0 * x, |_, p, q| 2.0 * x * q - p)
    }
}

/// Chebyshev polynomial of the third kind.
pub fn chebyshev_v(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if n < 0.0 {
        0.0
    } else if x == 1.0 {
        1.0
    } else if x == -1.0 {
        ends(x, n, 2.0 * n + 1.0)
    } else if n > WAVES + 2.0 && x.abs() < 1.0 {
        let angle = libm::acos(x);
        libm::cos((n + 0.5) * angle) / libm::cos(angle / 2.0)
    } else {
        recur(n, 2.0 * x - 1.0, |_, p, q| 2.0 * x * q - p)
    }
}

/// Chebyshev polynomial of the fourth kind.
pub fn chebyshev_w(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if n < 0.0 {
        0.0
    } else if x == 1.0 {
        2.0 * n + 1.0
    } else if x == -1.0 {
        ends(x, n, 1.0)
    } else if n > WAVES + 2.0 && x.abs() < 1.0 {
        let angle = libm::acos(x);
        libm::sin((n + 0.5) * angle) / libm::sin(angle / 2.0)
    } else {
        recur(n, 2.0 * x + 1.0, |_, p, q| 2.0 * x * q - p)
    }
}

/// Hermite polynomial, as physicists have it.
pub fn hermite_h(x: f64, n: f64) -> f64 {
    recur(n.trunc(), 2.0 * x, |k, p, q| 2.0 * (x * q - k * p))
}

/// Hermite polynomial, as statisticians have it.
pub fn hermite_he(x: f64, n: f64) -> f64 {
    recur(n.trunc(), x, |k, p, q| x * q - k * p)
}

/// Laguerre polynomial.
pub fn laguerre_l(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if x == 0.0 && n >= 0.0 {
        1.0
    } else {
        recur(n, 1.0 - x, |k, p, q| ((2.0 * k + 1.0 - x) * q - k * p) / (k + 1.0))
    }
}

/// Legendre polynomial.
pub fn legendre_p(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    if n < 0.0 {
        0.0
    } else if x.abs() == 1.0 {
        ends(x, n, 1.0)
    } else {
        recur(n, x, |k, p, q| ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0))
    }
}

/// Value of a polynomial of degree n at `x` of 1 or -1: its magnitude there, with the right sign.
fn ends(x: f64, n: f64, value: f64) -> f64 {
    if x > 0.0 || n % 2.0 == 0.0 { value } else { -value }
}

/// The polynomial of degree n, where the first two are 1 and `first`, and `next` makes that of
/// degree k + 1 from k and the two before it. Once one is NaN, all that follow are.
fn recur(n: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    if n < 0.0 {
        return 0.0;
    }
    if n > MOST_DEGREE || n.is_nan() {
        return f64::NAN;
    }
    let mut before = 1.0;
    let mut last = first;
    if n == 0.0 {
        return before;
    }
    let mut k = 1.0;
    while k < n && !last.is_nan() {
        (before, last) = (last, next(k, before, last));
        k += 1.0;
    }
    last
}
