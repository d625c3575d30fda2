use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

/// `erfc(x)` times e to the square of x.
pub fn erfcx(x: f64) -> f64 {
    match x {
        // The power alone is past every f64.
        _ if x < -26.7 => f64::INFINITY,
        _ if x < 25.0 => exp_of_square(x) * libm::erfc(x),
        f64::INFINITY => 0.0,
        _ => {
            let square = 1.0 / (2.0 * x * x);
            let series =
                1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square * (1.0 - 7.0 * square)));
            FRAC_2_SQRT_PI / 2.0 / x * series
        }
    }
}

/// The rounding of the square is made up for: it counts many times over in the power.
fn exp_of_square(x: f64) -> f64 {
    let square = x * x;
    let rest = libm::fma(x, x, -square);
    libm::exp(square) * (1.0 + rest)
}

/// The inverse of the error function: infinities at -1 and 1, NaN beyond.
pub fn erfinv(y: f64) -> f64 {
    let magnitude = y.abs();
    match magnitude {
        1.0 => return f64::INFINITY.copysign(y),
        0.0 => return y,
        0.0..1.0 => {}
        _ => return f64::NAN,
    }
    let mut x = erfinv_start(magnitude);
    for _ in 0..3 {
        // Near one, the difference is taken of what is missing, which is exact.
        let off = if magnitude > 0.5 {
            (1.0 - magnitude) - libm::erfc(x)
        } else {
            libm::erf(x) - magnitude
        };
        let step = off * exp_of_square(x) / FRAC_2_SQRT_PI;
        x -= step / (1.0 + x * step);
    }
    x.copysign(y)
}

/// The inverse to three digits (S. Winitzki); of small ones by the series, as the formula would cancel.
fn erfinv_start(y: f64) -> f64 {
    const A: f64 = 0.147;
    if y < 0.1 {
        return y / FRAC_2_SQRT_PI * (1.0 + PI / 12.0 * y * y);
    }
    let log = libm::log1p(-y * y);
    let half = 2.0 / (PI * A) + log / 2.0;
    ((half * half - log / A).sqrt() - half).sqrt()
}

/// The inverse of the normal distribution's cumulative function: infinities at 0 and 1, NaN beyond.
pub fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        0.0..=0.5 => lower_quantile(p),
        0.5..1.0 => -lower_quantile(1.0 - p),
        _ => f64::NAN,
    }
}

/// Halley's steps from a start with three digits (Abramowitz and Stegun 26.2.23).
fn lower_quantile(p: f64) -> f64 {
    let t = (-2.0 * libm::log(p)).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut x = above / below - t;
    for _ in 0..3 {
        let off = libm::erfc(-x * FRAC_1_SQRT_2) / 2.0 - p;
        let step = off * (2.0 * PI).sqrt() * exp_of_square(x * FRAC_1_SQRT_2);
        x -= step / (1.0 + x * step / 2.0);
    }
    x
}

/// Logarithm of the normal distribution's cumulative function.
pub fn log_ndtr(x: f64) -> f64 {
    if x < -1.0 {
        libm::log(erfcx(-x / SQRT_2) / 2.0) - x * x / 2.0
    } else {
        libm::log1p(-libm::erfc(x / SQRT_2) / 2.0)
    }
}
