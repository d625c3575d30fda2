//! Rows of polynomials, of functions of two parameters, and of gradients that few models need.

use super::entry::Entry;
use super::row::row;

/// Every row of this kind.
pub(super) fn rows() -> Vec<Entry> {
    [polynomials(), functions(), backward()].into_iter().flatten().collect()
}

fn polynomials() -> Vec<Entry> {
    vec![
        row("special_chebyshev_polynomial_t.out", "a n").in_float("chebyshev_t(a, n)"),
        row("special_chebyshev_polynomial_u.out", "a n").in_float("chebyshev_u(a, n)"),
        row("special_chebyshev_polynomial_v.out", "a n").in_float("chebyshev_v(a, n)"),
        row("special_chebyshev_polynomial_w.out", "a n").in_float("chebyshev_w(a, n)"),
        row("special_shifted_chebyshev_polynomial_t.out", "a n")
            .in_float("chebyshev_t(2 * a - 1, n)"),
        row("special_shifted_chebyshev_polynomial_u.out", "a n")
            .in_float("chebyshev_u(2 * a - 1, n)"),
        row("special_shifted_chebyshev_polynomial_v.out", "a n")
            .in_float("chebyshev_v(2 * a - 1, n)"),
        row("special_shifted_chebyshev_polynomial_w.out", "a n")
            .in_float("chebyshev_w(2 * a - 1, n)"),
        row("special_hermite_polynomial_h.out", "a n").in_float("hermite_h(a, n)"),
        row("special_hermite_polynomial_he.out", "a n").in_float("hermite_he(a, n)"),
        row("special_laguerre_polynomial_l.out", "a n").in_float("laguerre_l(a, n)"),
        row("special_legendre_polynomial_p.out", "a n").in_float("legendre_p(a, n)"),
    ]
}

fn functions() -> Vec<Entry> {
    vec![
        row("heaviside.out", "a b")
            .number("where(a > 0, 1, where(a == 0, b, 0))")
            .boolean("where(a, true, b)"),
        row(
            "bitwise_left_shift.Tensor_out __lshift__.Scalar __lshift__.Tensor \
             __ilshift__.Scalar __ilshift__.Tensor",
            "a b",
        )
        .int("where(b < 0, 0, a << max(b, 0))"),
        // A negative distance shifts everything out, as a large one does.
        row(
            "bitwise_right_shift.Tensor_out __rshift__.Scalar __rshift__.Tensor \
             __irshift__.Scalar __irshift__.Tensor",
            "a b",
        )
        .int("a >> where(b < 0, 64, b)"),
        // The series of zeta is for positive numbers; the first derivative is known by reflection.
        row("polygamma.out", "n:s a").in_float(
            "s := 3.141592653589793 / sin(3.141592653589793 * a); \
             first := where(a < 0.5, s * s - zeta(2, 1 - a), zeta(2, a)); \
             odd := 1 - 2 * ((n + 1) % 2); \
             rest := odd * exp(lgamma(n + 1)) * zeta(n + 1, a); \
             where(n == 0, digamma(a), where(a == inf, 0, where(n == 1, first, rest)))",
        ),
        row("log_sigmoid_forward.output", "a").float("z := exp(-abs(a)); min(a, 0) - log1p(z); z"),
        row("_prelu_kernel", "a w").float("where(a > 0, a, w * a)"),
    ]
}

fn backward() -> Vec<Entry> {
    vec![
        row("hardshrink_backward.grad_input", "g a limit:s")
            .float("where((a >= -limit) & (a <= limit), 0, g)"),
        row("softshrink_backward.grad_input", "g a limit:s")
            .float("where((a >= -limit) & (a <= limit), 0, g)"),
        row("logit_backward.grad_input", "g a -")
            .float("where((a < 0) | (a > 1), nan, g / (a * (1 - a)))"),
        row("logit_backward.grad_input", "g a eps:s")
            .float("where((a < eps) | (a > 1 - eps), 0, g / (a * (1 - a)))"),
        row("log_sigmoid_backward", "g a _")
            .float("z := exp(-abs(a)); q := z / (1 + z); g * where(a < 0, 1 - q, q)"),
    ]
}
