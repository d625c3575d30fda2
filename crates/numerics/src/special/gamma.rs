use std::f64::consts::PI;

/// Logarithm of the gamma function's magnitude: infinity at zero and at whole numbers below.
pub fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The derivative of [`lgamma`]. At zero it is an infinity of the other sign; at whole numbers below
/// it has no value, so it is NaN.
pub fn digamma(x: f64) -> f64 {
    match x {
        0.0 => f64::INFINITY.copysign(-x),
        _ if x > 0.0 => above_zero(x),
        _ if x == x.floor() => f64::NAN,
        // The reflection. What is left of x keeps the tangent exact for large ones.
        _ => above_zero(1.0 - x) - PI / libm::tan(PI * (x - x.floor())),
    }
}

/// Bernoulli's numbers, divided: what the asymptotic series is made of.
const SERIES: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

/// Least argument for which the series has all digits.
const LARGE: f64 = 10.0;

fn above_zero(x: f64) -> f64 {
    let mut x = x;
    let mut below = 0.0;
    while x < LARGE {
        below += 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = SERIES.iter().rev().fold(0.0, |sum, term| (sum + term) * square);
    libm::log(x) - 0.5 / x - series - below
}

/// The logarithm of what Stirling's formula leaves out: `gamma(x + 1)` over
/// `sqrt(2 pi x) (x / e)^x`, for x of 10 and more.
pub(super) fn stirling_rest(x: f64) -> f64 {
    const SERIES: [f64; 6] =
        [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    let square = 1.0 / (x * x);
    SERIES.iter().rev().fold(0.0, |sum, term| sum * square + term) / x
}
