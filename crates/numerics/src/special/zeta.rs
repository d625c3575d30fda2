/// Hurwitz's zeta function: the sum of `(q + k)^-x` over all k from zero.
///
/// Infinity where a term is, and at x = 1; NaN for smaller x, and for negative q unless x is a whole
/// number.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x.is_nan() || q.is_nan() {
        f64::NAN
    } else if x == 1.0 {
        f64::INFINITY
    } else if x < 1.0 {
        f64::NAN
    } else if q > 0.0 {
        above_zero(x, q)
    } else if q == q.floor() {
        f64::INFINITY
    } else if x != x.floor() {
        f64::NAN
    } else {
        below_zero(x, q)
    }
}

/// The sum over all whole numbers, but for those that lie below q.
fn below_zero(x: f64, q: f64) -> f64 {
    let part = q - q.floor();
    let sign = if x % 2.0 == 0.0 { 1.0 } else { -1.0 };
    above_zero(x, part) + sign * (above_zero(x, 1.0 - part) - above_zero(x, 1.0 - q))
}

/// Terms that are added one by one, before the rest is taken together.
const TERMS: u32 = 10;

/// `B(2k) / (2k)!`: Euler's and Maclaurin's formula.
const REST: [f64; 12] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3617.0 / 10_670_622_842_880_000.0,
    43_867.0 / 5_109_094_217_170_944_000.0,
    -174_611.0 / 802_857_662_698_291_200_000.0,
    77_683.0 / 14_101_100_039_391_805_440_000.0,
    -236_364_091.0 / 1_693_824_136_731_743_669_452_800_000.0,
];

fn above_zero(x: f64, q: f64) -> f64 {
    if q.is_infinite() || x.is_infinite() {
        return libm::pow(q, -x) * if x.is_infinite() { 1.0 } else { q };
    }
    let mut sum = 0.0;
    for k in 0..TERMS {
        let term = libm::pow(q + f64::from(k), -x);
        sum += term;
        if term < sum * 1e-17 {
            return sum;
        }
    }
    let end = q + f64::from(TERMS);
    let mut power = libm::pow(end, -x);
    sum += power * end / (x - 1.0) + power / 2.0;
    let mut factor = x;
    power /= end;
    for (k, coefficient) in REST.iter().enumerate() {
        let term = factor * power * coefficient;
        sum += term;
        if term.abs() < sum.abs() * 1e-17 {
            break;
        }
        let next = x + 2.0 * k as f64;
        factor *= (next + 1.0) * (next + 2.0);
        power /= end * end;
    }
    sum
}
