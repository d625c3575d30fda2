//! Functions that are written with others: those of index expressions, and PyTorch's for single numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::token::{Spot, Token, tokens};

/// A function that stands for an expression of its parameters.
#[derive(Debug)]
pub(super) struct ComposedFunction {
    pub(super) parameters: Vec<&'static str>,
    pub(super) body: Vec<Spot<'static>>,
}

pub(super) fn composed(name: &str) -> Option<&'static ComposedFunction> {
    FUNCTIONS.get(name)
}

static FUNCTIONS: LazyLock<HashMap<&'static str, ComposedFunction>> =
    LazyLock::new(|| DEFINITIONS.lines().filter_map(defined).collect());

/// The function that a line defines.
fn defined(line: &'static str) -> Option<(&'static str, ComposedFunction)> {
    let (head, body) = line.split_once(" = ")?;
    let (name, parameters) = head.trim().strip_suffix(')')?.split_once('(')?;
    let mut body = tokens(body).ok()?;
    body.retain(|spot| spot.token != Token::Newline);
    Some((name, ComposedFunction { parameters: parameters.split(", ").collect(), body }))
}

/// Random numbers have 24 bits, from 0 on and below 1; those of the normal distribution are Box's and Muller's.
const DEFINITIONS: &str = "
    square(x) = x * x
    fma(x, y, z) = x * y + z
    ldexp(x, n) = x * exp2(n)
    copysign(x, y) = copy_sign(x, y)
    fmod(x, y) = rem(x, y)
    mod(x, y) = rem(x, y)
    minimum(x, y) = min(x, y)
    maximum(x, y) = max(x, y)
    ndtr(x) = 0.5 * erfc(x * -0.7071067811865476)
    i0(x) = bessel_i0(x)
    i0e(x) = bessel_i0e(x)
    i1(x) = bessel_i1(x)
    i1e(x) = bessel_i1e(x)
    modified_bessel_i0(x) = bessel_i0(x)
    modified_bessel_i1(x) = bessel_i1(x)
    modified_bessel_k0(x) = bessel_k0(x)
    modified_bessel_k1(x) = bessel_k1(x)
    scaled_modified_bessel_k0(x) = bessel_k0e(x)
    scaled_modified_bessel_k1(x) = bessel_k1e(x)
    spherical_bessel_j0(x) = where(x == 0.0, 1.0, sin(x) / x)
    gammainc(a, x) = igamma(a, x)
    gammaincc(a, x) = igammac(a, x)
    polygamma(n, x) = where(n == 0.0, digamma(x), (n % 2.0 * 2.0 - 1.0) * exp(lgamma(n + 1.0)) * zeta(n + 1.0, x))
    chebyshev_polynomial_t(x, n) = chebyshev_t(x, n)
    chebyshev_polynomial_u(x, n) = chebyshev_u(x, n)
    chebyshev_polynomial_v(x, n) = chebyshev_v(x, n)
    chebyshev_polynomial_w(x, n) = chebyshev_w(x, n)
    shifted_chebyshev_polynomial_t(x, n) = chebyshev_t(x * 2.0 - 1.0, n)
    shifted_chebyshev_polynomial_u(x, n) = chebyshev_u(x * 2.0 - 1.0, n)
    shifted_chebyshev_polynomial_v(x, n) = chebyshev_v(x * 2.0 - 1.0, n)
    shifted_chebyshev_polynomial_w(x, n) = chebyshev_w(x * 2.0 - 1.0, n)
    legendre_polynomial_p(x, n) = legendre_p(x, n)
    hermite_polynomial_h(x, n) = hermite_h(x, n)
    hermite_polynomial_he(x, n) = hermite_he(x, n)
    laguerre_polynomial_l(x, n) = laguerre_l(x, n)
    rand(seed, at) = f32(random(seed, 0, at, 0) >> 8) * 5.960464477539063e-8
    randn(seed, at) = normal(random(seed, 0, at, 0) >> 8, random(seed, 0, at, 1) >> 8)
    normal(radius, turn) = sqrt(-2.0 * log(f32(radius + 1) * 5.960464477539063e-8)) * cos(f32(turn) * 3.7450702829239286e-7)
    randint64(seed, at, low, high) = low + random63(seed, at) % (high - low)
    random63(seed, at) = ((random(seed, 0, at, 0) & 2147483647) << 32) | random(seed, 0, at, 1)
    Identity(x) = x
    Abs(x) = abs(x)
    Not(x) = !x
    Min(x, y) = min(x, y)
    Max(x, y) = max(x, y)
    Where(condition, x, y) = where(condition, x, y)
    FloorDiv(x, y) = x // y
    CleanDiv(x, y) = x // y
    CeilDiv(x, y) = (x + y - 1) // y
    Mod(x, y) = x % y
    PythonMod(x, y) = x % y
    ModularIndexing(x, divisor, modulus) = x // divisor % modulus
    PowByNatural(x, n) = pow(x, n)
    IntTrueDiv(x, y) = f64(x) / f64(y)
    FloatTrueDiv(x, y) = x / y
    ToFloat(x) = f64(x)
    TruncToInt(x) = i64(trunc(x))
    FloorToInt(x) = i64(floor(x))
    CeilToInt(x) = i64(ceil(x))
    RoundToInt(x) = i64(round(x))
    RoundDecimal(x, digits) = round(f64(x) * pow(10.0, f64(digits))) / pow(10.0, f64(digits))
    Equality(x, y) = x == y
    Unequality(x, y) = x != y
    StrictLessThan(x, y) = x < y
    LessThan(x, y) = x <= y
    StrictGreaterThan(x, y) = x > y
    GreaterThan(x, y) = x >= y
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    #[test]
    fn every_definition_is_a_function_of_its_parameters() {
        assert_eq!(FUNCTIONS.len(), DEFINITIONS.trim().lines().count());
        for (name, function) in FUNCTIONS.iter() {
            let lanes = ["f64", "i64", "bool"].map(|lane| {
                let given = vec![format!("{lane}(x)"); function.parameters.len()].join(", ");
                let text = format!(
                    "kernel k(i) {{\n in x: float64[i]\n out y: float64[i]\n y = f64({name}({given}))\n}}"
                );
                text.parse::<Kernel>()
            });
            let made = ["Where", "where"].contains(name) || lanes.iter().any(Result::is_ok);
            assert!(made, "{name}: {:?}", lanes[0]);
        }
    }

    #[test]
    fn a_composed_function_is_the_expression_that_it_stands_for() {
        let kernel = |value: &str| {
            let text =
                format!("kernel k(i) {{\n in x: float32[i]\n out y: int64[i]\n y = {value}\n}}");
            text.parse::<Kernel>().map(|kernel| kernel.to_string())
        };
        assert_eq!(kernel("ModularIndexing(i + 3, 4, 5)"), kernel("(i + 3) // 4 % 5"));
        assert_eq!(kernel("i64(square(x))"), kernel("i64(x * x)"));
        assert!(kernel("square(i, i)").unwrap_err().to_string().contains("takes 1, not 2"));
    }
}
