/// The error function, to a few units of the last place.
pub(super) fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    let result = match magnitude {
        _ if x.is_nan() => return x,
        0.0..2.0 => series(magnitude),
        2.0..6.0 => 1.0 - fraction(magnitude),
        _ => 1.0, // what is missing is less than half of the last place
    };
    result.copysign(x)
}

/// 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): no term is negative.
fn series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-17 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// One minus it, as a continued fraction, from the inside out.
fn fraction(x: f64) -> f64 {
    let inner = (1..=60).rev().fold(x, |inner, n| x + 0.5 * f64::from(n) / inner);
    0.5 * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() / inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_values_of_the_tables() {
        let table = [
            (0.0, 0.0),
            (1e-9, 1.128_379_167_095_512_6e-9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
            (7.0, 1.0),
        ];
        for (x, expected) in table {
            assert!((erf(x) - expected).abs() <= 4e-16 * expected, "erf({x}) is {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
    }
}
