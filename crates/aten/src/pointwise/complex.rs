//! Rows of complex numbers: expressions of the two parts of each result, or of a real one.
//!
//! Steps that several rows share are functions here. Each names the parts of its result: the steps of
//! `sqrt("p", ..)` give `p_re` and `p_im`.

use super::entry::Entry;
use super::row::row;

/// Every row of this kind.
pub(super) fn rows() -> Vec<Entry> {
    [arithmetic(), comparisons(), functions(), inverse_functions()].into_iter().flatten().collect()
}

impl Entry {
    /// Expressions that are computed in the width of the parts, or in float32.
    fn complex(self, expression: impl Into<String>) -> Self {
        Self { complex: Some(expression.into()), ..self }
    }

    /// Declines numbers of 16-bit parts: PyTorch has none of these.
    fn wide_complex(self, expression: impl Into<String>) -> Self {
        Self { is_wide: true, ..self.complex(expression) }
    }

    /// Steps that are computed in float64.
    fn in_double(self, steps: &[String], result: &str) -> Self {
        let steps: String = steps.iter().map(|step| format!("{step}; ")).collect();
        Self { is_double: true, ..self.wide_complex(steps + result) }
    }
}

/// Expressions of the two parts of a number.
type Parts<'a> = [&'a str; 2];

const A: Parts<'static> = ["a_re", "a_im"];
const B: Parts<'static> = ["b_re", "b_im"];
/// `a` times the imaginary unit.
const TURNED: Parts<'static> = ["-a_im", "a_re"];

fn arithmetic() -> Vec<Entry> {
    vec![
        row("add.out", "a b alpha:s").complex(
            "a_re + (b_re * alpha_re - b_im * alpha_im); \
             a_im + (b_re * alpha_im + b_im * alpha_re)",
        ),
        row("sub.out", "a b alpha:s").complex(
            "a_re - (b_re * alpha_re - b_im * alpha_im); \
             a_im - (b_re * alpha_im + b_im * alpha_re)",
        ),
        row("rsub.Tensor rsub.Tensor_out", "a b alpha:s").complex(
            "b_re - (a_re * alpha_re - a_im * alpha_im); \
             b_im - (a_re * alpha_im + a_im * alpha_re)",
        ),
        row("mul.out", "a b").complex("a_re * b_re - a_im * b_im; a_re * b_im + a_im * b_re"),
        row("div.out", "a b").wide_complex(quotient("q", A, B) + "; q_re; q_im"),
        row("div.out_mode", "a b -").wide_complex(quotient("q", A, B) + "; q_re; q_im"),
        row("reciprocal.out", "a").wide_complex(quotient("q", ["1", "0"], A) + "; q_re; q_im"),
        row("neg.out", "a").complex("-a_re; -a_im"),
        row("conj_physical.out", "a").complex("a_re; -a_im"),
        row("abs.out", "a").complex("hypot(a_re, a_im)"),
        row("angle angle.out", "a").wide_complex("atan2(a_im, a_re)"),
        row("sgn.out", "a").complex(
            "length := hypot(a_re, a_im); below := where(length == 0, 1, length); \
             a_re / below; a_im / below",
        ),
        row("where.self where.self_out", "c:bool a b")
            .complex("where(c, a_re, b_re); where(c, a_im, b_im)"),
        row("masked_fill_.Scalar masked_fill_.Tensor", "a c:bool v:s")
            .complex("where(c, v_re, a_re); where(c, v_im, a_im)"),
        row("complex.out", "a b").complex("a_re; b_re").strict(),
        row("polar.out", "a b").wide_complex("a_re * cos(b_re); a_re * sin(b_re)").strict(),
    ]
}

fn comparisons() -> Vec<Entry> {
    vec![
        row("eq.Tensor_out eq.Scalar_out", "a b").complex("(a_re == b_re) & (a_im == b_im)").asks(),
        row("ne.Tensor_out ne.Scalar_out", "a b").complex("(a_re != b_re) | (a_im != b_im)").asks(),
        row("isnan isnan.out", "a").complex("is_nan(a_re) | is_nan(a_im)").asks(),
        row("isinf isinf.out", "a").complex("is_inf(a_re) | is_inf(a_im)").asks(),
    ]
}

fn functions() -> Vec<Entry> {
    let by = |scale: f64| format!("re := a_re * {scale}; im := a_im * {scale}");
    vec![
        row("exp.out", "a").wide_complex(exp("y", A) + "; y_re; y_im"),
        row("sqrt.out", "a").wide_complex(sqrt("y", A) + "; y_re; y_im"),
        row("log.out", "a").wide_complex(log("y", A) + "; y_re; y_im"),
        row("sin.out", "a").wide_complex(sin("y", A) + "; y_re; y_im"),
        row("cos.out", "a").wide_complex("cos(a_re) * cosh(a_im); -(sin(a_re) * sinh(a_im))"),
        row("exp2.out", "a")
            .in_double(&[by(std::f64::consts::LN_2), exp("y", ["re", "im"])], "y_re; y_im"),
        row("expm1.out", "a").in_double(
            &[],
            "half := sin(a_im / 2); \
             expm1(a_re) * cos(a_im) - 2 * half * half; exp(a_re) * sin(a_im)",
        ),
        row("log2.out", "a").in_double(&[log("y", A)], &scaled(1.0 / std::f64::consts::LN_2)),
        row("log10.out", "a").in_double(&[log("y", A)], &scaled(1.0 / std::f64::consts::LN_10)),
        row("log1p.out", "a").in_double(&[log1p("y", A)], "y_re; y_im"),
        row("rsqrt.out", "a").in_double(
            &[sqrt("root", A), quotient("y", ["1", "0"], ["root_re", "root_im"])],
            "y_re; y_im",
        ),
        row("sinh.out", "a").in_double(&[], "sinh(a_re) * cos(a_im); cosh(a_re) * sin(a_im)"),
        row("cosh.out", "a").in_double(&[], "cosh(a_re) * cos(a_im); sinh(a_re) * sin(a_im)"),
        row("tanh.out", "a").in_double(&[tanh("y", A)], "y_re; y_im"),
        row("tan.out", "a").in_double(&[tanh("y", TURNED)], "y_im; -y_re"),
        row("sinc.out", "a").in_double(
            &[
                by(std::f64::consts::PI),
                sin("s", ["re", "im"]),
                quotient("y", ["s_re", "s_im"], ["re", "im"]),
            ],
            "is_zero := (a_re == 0) & (a_im == 0); \
             where(is_zero, 1, y_re); where(is_zero, 0, y_im)",
        ),
        // Zero to the power of zero is one.
        row("pow.Tensor_Tensor_out pow.Tensor_Scalar_out pow.Scalar_out", "a b").in_double(
            &[
                "is_zero := (a_re == 0) & (a_im == 0); base := where(is_zero, 1, a_re)".to_owned(),
                log("l", ["base", "a_im"]),
                "re := b_re * l_re - b_im * l_im; im := b_re * l_im + b_im * l_re".to_owned(),
                exp("y", ["re", "im"]),
            ],
            "is_one := is_zero & (b_re == 0) & (b_im == 0); \
             where(is_one, 1, where(is_zero, 0, y_re)); where(is_zero, 0, y_im)",
        ),
        row("logaddexp.out", "a b").in_double(
            &[
                "first := a_re >= b_re; \
                 large_re := where(first, a_re, b_re); large_im := where(first, a_im, b_im); \
                 re := where(first, b_re, a_re) - large_re; \
                 im := where(first, b_im, a_im) - large_im"
                    .to_owned(),
                exp("e", ["re", "im"]),
                log1p("y", ["e_re", "e_im"]),
            ],
            "large_re + y_re; large_im + y_im",
        ),
    ]
}

fn inverse_functions() -> Vec<Entry> {
    vec![
        row("asin.out", "a").in_double(&[asin("y", A)], "y_re; y_im"),
        row("asinh.out", "a").in_double(&[asin("y", TURNED)], "y_im; -y_re"),
        row("acos.out", "a").in_double(
            &[sqrt("p", ["(1 + a_re)", "a_im"]), sqrt("q", ["(1 - a_re)", "(-a_im)"])],
            "2 * atan2(q_re, p_re); asinh(p_re * q_im - p_im * q_re)",
        ),
        row("acosh.out", "a").in_double(
            &[sqrt("p", ["(a_re + 1)", "a_im"]), sqrt("q", ["(a_re - 1)", "a_im"])],
            "asinh(q_re * p_re + q_im * p_im); 2 * atan2(q_im, p_re)",
        ),
        row("atanh.out", "a").in_double(&[atanh("y", A)], "y_re; y_im"),
        row("atan.out", "a").in_double(&[atanh("y", TURNED)], "y_im; -y_re"),
    ]
}

/// `a / b`. The smaller part of the divisor is divided by the larger one, so that no square overflows.
fn quotient(y: &str, [a_re, a_im]: Parts<'_>, [b_re, b_im]: Parts<'_>) -> String {
    format!(
        "{y}_flat := !(abs({b_re}) < abs({b_im})); \
         {y}_big := where({y}_flat, {b_re}, {b_im}); \
         {y}_ratio := where({y}_flat, {b_im}, {b_re}) / {y}_big; \
         {y}_none := ({b_re} == 0) & ({b_im} == 0); \
         {y}_below := where({y}_none, 0, {y}_big + where({y}_flat, {b_im}, {b_re}) * {y}_ratio); \
         {y}_first := where({y}_flat, {a_re} + {a_im} * {y}_ratio, {a_re} * {y}_ratio + {a_im}); \
         {y}_second := where({y}_flat, {a_im} - {a_re} * {y}_ratio, {a_im} * {y}_ratio - {a_re}); \
         {y}_re := where({y}_none, {a_re}, {y}_first) / {y}_below; \
         {y}_im := where({y}_none, {a_im}, {y}_second) / {y}_below"
    )
}

fn exp(y: &str, [re, im]: Parts<'_>) -> String {
    format!(
        "{y}_size := exp({re}); {y}_re := {y}_size * cos({im}); \
         {y}_im := where({im} == 0, {im}, {y}_size * sin({im}))"
    )
}

fn sqrt(y: &str, [re, im]: Parts<'_>) -> String {
    format!(
        "{y}_size := sqrt(hypot({re}, {im})); {y}_turn := atan2({im}, {re}) / 2; \
         {y}_re := {y}_size * cos({y}_turn); {y}_im := {y}_size * sin({y}_turn)"
    )
}

fn log(y: &str, [re, im]: Parts<'_>) -> String {
    format!("{y}_re := log(hypot({re}, {im})); {y}_im := atan2({im}, {re})")
}

fn log1p(y: &str, [re, im]: Parts<'_>) -> String {
    format!("{y}_re := log1p({re} * ({re} + 2) + {im} * {im}) / 2; {y}_im := atan2({im}, 1 + {re})")
}

fn sin(y: &str, [re, im]: Parts<'_>) -> String {
    format!("{y}_re := sin({re}) * cosh({im}); {y}_im := cos({re}) * sinh({im})")
}

/// Past twenty, nothing but the sign of the real part is left to tell, and its exponential would
/// overflow.
fn tanh(y: &str, [re, im]: Parts<'_>) -> String {
    format!(
        "{y}_twice := 2 * min(max({re}, -20), 20); {y}_turn := 2 * ({im}); \
         {y}_below := cosh({y}_twice) + cos({y}_turn); \
         {y}_re := sinh({y}_twice) / {y}_below; {y}_im := sin({y}_turn) / {y}_below"
    )
}

fn asin(y: &str, [re, im]: Parts<'_>) -> String {
    let above = sqrt("p", [&format!("(1 + {re})"), im]);
    let below = sqrt("q", [&format!("(1 - ({re}))"), &format!("(-({im}))")]);
    format!(
        "{above}; {below}; \
         {y}_re := atan2({re}, p_re * q_re - p_im * q_im); \
         {y}_im := asinh(q_re * p_im - q_im * p_re)"
    )
}

fn atanh(y: &str, [re, im]: Parts<'_>) -> String {
    format!(
        "{y}_more := 1 + ({re}); {y}_less := 1 - ({re}); {y}_square := ({im}) * ({im}); \
         {y}_far := log({y}_more * {y}_more + {y}_square); \
         {y}_near := log({y}_less * {y}_less + {y}_square); \
         {y}_turn := atan2(2 * ({im}), {y}_less * {y}_more - {y}_square); \
         {y}_re := ({y}_far - {y}_near) / 4; {y}_im := {y}_turn / 2"
    )
}

/// The result `y`, times a number.
fn scaled(by: f64) -> String {
    format!("y_re * {by}; y_im * {by}")
}
