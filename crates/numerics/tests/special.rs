//! Special functions against tables of 30 digits, and at their edges.

use std::collections::BTreeMap;

use spyre_numerics::special as s;

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;

const UNARY: [(&str, Unary); 19] = [
    ("lgamma", s::lgamma),
    ("digamma", s::digamma),
    ("erfcx", s::erfcx),
    ("erfinv", s::erfinv),
    ("ndtri", s::ndtri),
    ("log_ndtr", s::log_ndtr),
    ("bessel_i0", s::bessel_i0),
    ("bessel_i0e", s::bessel_i0e),
    ("bessel_i1", s::bessel_i1),
    ("bessel_i1e", s::bessel_i1e),
    ("bessel_k0", s::bessel_k0),
    ("bessel_k0e", s::bessel_k0e),
    ("bessel_k1", s::bessel_k1),
    ("bessel_k1e", s::bessel_k1e),
    ("bessel_j0", s::bessel_j0),
    ("bessel_j1", s::bessel_j1),
    ("bessel_y0", s::bessel_y0),
    ("bessel_y1", s::bessel_y1),
    ("airy_ai", s::airy_ai),
];

const BINARY: [(&str, Binary); 11] = [
    ("zeta", s::zeta),
    ("igamma", s::igamma),
    ("igammac", s::igammac),
    ("chebyshev_t", s::chebyshev_t),
    ("chebyshev_u", s::chebyshev_u),
    ("chebyshev_v", s::chebyshev_v),
    ("chebyshev_w", s::chebyshev_w),
    ("hermite_h", s::hermite_h),
    ("hermite_he", s::hermite_he),
    ("laguerre_l", s::laguerre_l),
    ("legendre_p", s::legendre_p),
];

/// Distance of a value from the table's, in parts of it; near a zero, in parts of one.
fn error(found: f64, expected: f64) -> f64 {
    let off = (found - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
    if expected.abs() < 1.0 { off.min((found - expected).abs()) } else { off }
}

#[test]
fn the_tables_hold() {
    let unary = BTreeMap::from(UNARY);
    let binary = BTreeMap::from(BINARY);
    let mut worst: BTreeMap<&str, (f64, &str)> = BTreeMap::new();
    let table = include_str!("data/special.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let numbers: Vec<f64> = words.map(|word| word.parse().expect("a number")).collect();
        let (found, expected) = match numbers[..] {
            [x, expected] => (unary[name](x), expected),
            [x, y, expected] => (binary[name](x, y), expected),
            _ => panic!("{line}"),
        };
        let of = worst.entry(name).or_default();
        let error = error(found, expected);
        if error.is_nan() || error > of.0 {
            *of = (error, line);
        }
    }
    assert_eq!(worst.len(), UNARY.len() + BINARY.len(), "each function has lines");
    let far: Vec<_> =
        worst.iter().filter(|(_, (error, _))| error.is_nan() || *error > 2e-13).collect();
    assert!(far.is_empty(), "{far:#?}");
}

#[test]
fn edges_are_those_of_pytorch() {
    const INF: f64 = f64::INFINITY;
    let is = |name: &str, found: f64, expected: f64| {
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{name} is {found}, not {expected}"
        );
    };
    is("lgamma(-3)", s::lgamma(-3.0), INF);
    is("lgamma(-inf)", s::lgamma(-INF), INF);
    is("digamma(0)", s::digamma(0.0), -INF);
    is("digamma(-0)", s::digamma(-0.0), INF);
    is("digamma(-1)", s::digamma(-1.0), f64::NAN);
    is("digamma(inf)", s::digamma(INF), INF);
    is("digamma(-inf)", s::digamma(-INF), f64::NAN);
    is("erfinv(1)", s::erfinv(1.0), INF);
    is("erfinv(-1)", s::erfinv(-1.0), -INF);
    is("erfinv(2)", s::erfinv(2.0), f64::NAN);
    is("erfinv(-0)", s::erfinv(-0.0), -0.0);
    is("ndtri(0)", s::ndtri(0.0), -INF);
    is("ndtri(1)", s::ndtri(1.0), INF);
    is("ndtri(-0.1)", s::ndtri(-0.1), f64::NAN);
    is("log_ndtr(-inf)", s::log_ndtr(-INF), -INF);
    is("erfcx(-inf)", s::erfcx(-INF), INF);
    is("erfcx(inf)", s::erfcx(INF), 0.0);
    is("k0(0)", s::bessel_k0(0.0), INF);
    is("k1(-1)", s::bessel_k1(-1.0), f64::NAN);
    is("k0(inf)", s::bessel_k0(INF), 0.0);
    is("y0(0)", s::bessel_y0(0.0), -INF);
    is("y1(-1)", s::bessel_y1(-1.0), f64::NAN);
    is("i0(inf)", s::bessel_i0(INF), INF);
    is("i1(-inf)", s::bessel_i1(-INF), -INF);
    is("zeta(1, 2)", s::zeta(1.0, 2.0), INF);
    is("zeta(0.5, 2)", s::zeta(0.5, 2.0), f64::NAN);
    is("zeta(2, -1)", s::zeta(2.0, -1.0), INF);
    is("zeta(2.5, -1.5)", s::zeta(2.5, -1.5), f64::NAN);
    is("igamma(0, 1)", s::igamma(0.0, 1.0), 1.0);
    is("igamma(0, 0)", s::igamma(0.0, 0.0), f64::NAN);
    is("igamma(1, inf)", s::igamma(1.0, INF), 1.0);
    is("igammac(1, 0)", s::igammac(1.0, 0.0), 1.0);
    is("igammac(-1, 1)", s::igammac(-1.0, 1.0), f64::NAN);
    is("laguerre_l(1, -1)", s::laguerre_l(1.0, -1.0), 0.0);
}

#[test]
fn nan_gives_nan_and_no_argument_takes_long() {
    let hostile = [f64::NAN, 1e300, -1e300, 5e-324, -5e-324, f64::MAX, f64::INFINITY, -1.5e9, 0.1];
    for (name, function) in UNARY {
        assert!(function(f64::NAN).is_nan(), "{name}");
        hostile.iter().for_each(|&x| _ = function(x));
    }
    for (name, function) in BINARY {
        assert!(function(f64::NAN, 2.0).is_nan(), "{name}");
        for &x in &hostile {
            hostile.iter().for_each(|&y| _ = function(x, y));
        }
    }
}
