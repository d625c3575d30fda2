/// A sum of Chebyshev polynomials at `t` of -1 to 1, by Clenshaw's rule.
pub(super) fn sum(coefficients: &[f64], t: f64) -> f64 {
    let Some((first, rest)) = coefficients.split_first() else { return 0.0 };
    let step = |(b1, b2): (f64, f64), &c: &f64| (2.0 * t * b1 - b2 + c, b1);
    let (b1, b2) = rest.iter().rev().fold((0.0, 0.0), step);
    t * b1 - b2 + first
}
