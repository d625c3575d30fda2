//! The ops, one row each: overloads, arguments, what they are computed in, and the expression.
//!
//! An expression is of the kernel IR. Steps before it are separated by `;` and have names (`t := ..`);
//! an op of several results has several expressions. `float`, `int` and `boolean` are for the lanes
//! that an op computes in; a row without one declines such a call.

use std::sync::LazyLock;

use super::entry::Entry;
use super::row::row;

/// Every row.
pub(crate) fn entries() -> &'static [Entry] {
    &ENTRIES
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let rows = [
        arithmetic(),
        comparisons(),
        bits(),
        functions(),
        activations(),
        backward(),
        super::special::rows(),
        super::complex::rows(),
    ];
    let mut entries: Vec<Entry> = rows.into_iter().flatten().collect();
    for (number, entry) in entries.iter_mut().enumerate() {
        entry.number = number as u16;
    }
    entries
});

fn arithmetic() -> Vec<Entry> {
    vec![
        row("add.out", "a b alpha:s").number("a + alpha * b").boolean("a | alpha & b").wraps(),
        row("sub.out", "a b alpha:s").number("a - alpha * b").wraps(),
        row("rsub.Tensor rsub.Tensor_out", "a b alpha:s").number("b - alpha * a").wraps(),
        row("mul.out", "a b").number("a * b").boolean("a & b").wraps(),
        row("div.out", "a b").in_float("a / b"),
        row("div.out_mode", "a b -").in_float("a / b"),
        row("div.out_mode", "a b 'trunc'").float("trunc(a / b)").int("a / b"),
        row("div.out_mode", "a b 'floor'").number("a // b"),
        row("floor_divide floor_divide_.Tensor floor_divide.out", "a b").number("a // b"),
        row("fmod.Tensor_out", "a b").number("rem(a, b)"),
        row("remainder.Tensor_out", "a b").number("a % b"),
        row("maximum.out", "a b").number("max(a, b)").boolean("a | b"),
        row("minimum.out", "a b").number("min(a, b)").boolean("a & b"),
        row("fmax.out", "a b").float("fmax(a, b)").int("max(a, b)").boolean("a | b"),
        row("fmin.out", "a b").float("fmin(a, b)").int("min(a, b)").boolean("a & b"),
        row("pow.Tensor_Tensor_out pow.Tensor_Scalar_out pow.Scalar_out", "a b")
            .number("pow(a, b)"),
        row("atan2.out", "a b").in_float("atan2(a, b)"),
        row("copysign.out", "a b").in_float("copy_sign(a, b)"),
        row("neg.out", "a").number("-a"),
        row("abs.out", "a").number("abs(a)"),
        // NaN has no sign: it gives zero.
        row("sign.out sgn.out", "a")
            .float("where(a > 0, 1, where(a < 0, -1, 0))")
            .int("sign(a)")
            .boolean("a"),
        row("reciprocal.out", "a").in_float("reciprocal(a)"),
        row("angle angle.out", "a")
            .in_float("where(a < 0, 3.141592653589793, where(is_nan(a), a, 0))"),
        row("addcmul.out", "a b c value:s").number("a + value * b * c"),
        row("addcdiv.out", "a b c value:s").float("a + value * (b / c)"),
        row("lerp.Scalar_out", "a b weight:s")
            .float("where(abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1 - weight))"),
        row("lerp.Tensor_out", "a b weight")
            .float("where(abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1 - weight))"),
        row("clamp.out", "a lo hi").number("min(max(a, lo), hi)"),
        row("clamp.out", "a lo -").number("max(a, lo)"),
        row("clamp.out", "a - hi").number("min(a, hi)"),
        row("clamp.Tensor_out", "a lo hi").number("min(max(a, lo), hi)"),
        row("clamp.Tensor_out", "a lo -").number("max(a, lo)"),
        row("clamp.Tensor_out", "a - hi").number("min(a, hi)"),
        row("clamp_min.out clamp_min.Tensor_out", "a lo").number("max(a, lo)"),
        row("clamp_max.out clamp_max.Tensor_out", "a hi").number("min(a, hi)"),
        row("where.self where.self_out", "c:bool a b")
            .number("where(c, a, b)")
            .boolean("where(c, a, b)")
            .wraps(),
        row("masked_fill_.Scalar masked_fill_.Tensor", "a c:bool v:s")
            .number("where(c, v, a)")
            .boolean("where(c, v, a)")
            .wraps(),
    ]
}

fn comparisons() -> Vec<Entry> {
    let compared = |names, expression| row(names, "a b").number(expression).asks();
    vec![
        compared("eq.Tensor_out eq.Scalar_out", "a == b").boolean("!(a ^ b)").wraps(),
        compared("ne.Tensor_out ne.Scalar_out", "a != b").boolean("a ^ b").wraps(),
        compared("lt.Tensor_out lt.Scalar_out", "a < b").boolean("!a & b"),
        compared("le.Tensor_out le.Scalar_out", "a <= b").boolean("!a | b"),
        compared("gt.Tensor_out gt.Scalar_out", "a > b").boolean("a & !b"),
        compared("ge.Tensor_out ge.Scalar_out", "a >= b").boolean("a | !b"),
        row("logical_and.out", "a:bool b:bool").boolean("a & b").asks(),
        row("logical_or.out", "a:bool b:bool").boolean("a | b").asks(),
        row("logical_xor.out", "a:bool b:bool").boolean("a ^ b").asks(),
        row("isnan isnan.out", "a")
            .float("is_nan(a)")
            .int("a != a")
            .boolean("a & !a")
            .wraps()
            .asks(),
        row("isinf isinf.out", "a")
            .float("is_inf(a)")
            .int("a != a")
            .boolean("a & !a")
            .wraps()
            .asks(),
        row("isposinf.out", "a").float("a == inf").int("a != a").boolean("a & !a").wraps().asks(),
        row("isneginf.out", "a").float("a == -inf").int("a != a").boolean("a & !a").wraps().asks(),
        row("signbit.out", "a")
            .float("copy_sign(1, a) < 0")
            .int("a < 0")
            .boolean("a & !a")
            .unsigned("a != a")
            .asks(),
    ]
}

fn bits() -> Vec<Entry> {
    vec![
        row("bitwise_and.Tensor_out", "a b").int("a & b").boolean("a & b").wraps(),
        row("bitwise_or.Tensor_out", "a b").int("a | b").boolean("a | b").wraps(),
        row("bitwise_xor.Tensor_out", "a b").int("a ^ b").boolean("a ^ b").wraps(),
        row("bitwise_not.out", "a").int("~a").boolean("!a"),
        row("logical_not.out", "a:bool").boolean("!a").asks(),
    ]
}

fn functions() -> Vec<Entry> {
    vec![
        row("sqrt.out", "a").in_float("sqrt(a)"),
        row("rsqrt.out", "a").in_float("rsqrt(a)"),
        row("exp.out", "a").in_float("exp(a)"),
        row("exp2.out", "a").in_float("exp2(a)"),
        row("expm1.out", "a").in_float("expm1(a)"),
        row("log.out", "a").in_float("log(a)"),
        row("log2.out", "a").in_float("log2(a)"),
        row("log10.out", "a").in_float("log10(a)"),
        row("log1p.out", "a").in_float("log1p(a)"),
        row("sin.out", "a").in_float("sin(a)"),
        row("cos.out", "a").in_float("cos(a)"),
        row("tan.out", "a").in_float("tan(a)"),
        row("asin.out", "a").in_float("asin(a)"),
        row("acos.out", "a").in_float("acos(a)"),
        row("atan.out", "a").in_float("atan(a)"),
        row("sinh.out", "a").in_float("sinh(a)"),
        row("cosh.out", "a").in_float("cosh(a)"),
        row("tanh.out", "a").in_float("tanh(a)"),
        row("erf.out", "a").in_float("erf(a)"),
        row("sigmoid.out", "a").in_float("sigmoid(a)"),
        row("floor.out", "a").float("floor(a)").int("a").wraps(),
        row("ceil.out", "a").float("ceil(a)").int("a").wraps(),
        row("round.out", "a").float("round(a)").int("a").wraps(),
        row("trunc.out", "a").float("trunc(a)").int("a").wraps(),
        row("frac.out", "a").float("a - trunc(a)"),
        row("asinh.out", "a").in_float("asinh(a)"),
        row("acosh.out", "a").in_float("acosh(a)"),
        row("atanh.out", "a").in_float("atanh(a)"),
        row("erfc.out", "a").in_float("erfc(a)"),
        row("erfinv.out", "a").in_float("erfinv(a)"),
        row("lgamma.out", "a").in_float("lgamma(a)"),
        row("digamma.out", "a").in_float("digamma(a)"),
        row("i0.out", "a").in_float("bessel_i0(a)"),
        row("special_i0e.out", "a").in_float("bessel_i0e(a)"),
        row("special_i1.out", "a").in_float("bessel_i1(a)"),
        row("special_i1e.out", "a").in_float("bessel_i1e(a)"),
        row("special_bessel_j0.out", "a").in_float("bessel_j0(a)"),
        row("special_bessel_j1.out", "a").in_float("bessel_j1(a)"),
        row("special_bessel_y0.out", "a").in_float("bessel_y0(a)"),
        row("special_bessel_y1.out", "a").in_float("bessel_y1(a)"),
        row("special_modified_bessel_i0.out", "a").in_float("bessel_i0(a)"),
        row("special_modified_bessel_i1.out", "a").in_float("bessel_i1(a)"),
        row("special_modified_bessel_k0.out", "a").in_float("bessel_k0(a)"),
        row("special_modified_bessel_k1.out", "a").in_float("bessel_k1(a)"),
        row("special_scaled_modified_bessel_k0.out", "a").in_float("bessel_k0e(a)"),
        row("special_scaled_modified_bessel_k1.out", "a").in_float("bessel_k1e(a)"),
        row("special_airy_ai.out", "a").in_float("airy_ai(a)"),
        row("special_ndtri.out", "a").in_float("ndtri(a)"),
        row("special_log_ndtr.out", "a").in_float("log_ndtr(a)"),
        row("special_erfcx.out", "a").in_float("erfcx(a)"),
        row("special_entr.out", "a").in_float("where(a > 0, -a * log(a), where(a < 0, -inf, a))"),
        row("sinc.out", "a").in_float("p := a * 3.141592653589793; where(a == 0, 1, sin(p) / p)"),
        row("special_spherical_bessel_j0.out", "a")
            .in_float("where(is_inf(a), 0, where(a == 0, 1, sin(a) / a))"),
        row("logit.out", "a -").in_float("log(a / (1 - a))"),
        row("logit.out", "a eps:s").in_float("p := min(max(a, eps), 1 - eps); log(p / (1 - p))"),
        row("hypot.out", "a b").in_float("hypot(a, b)"),
        row("nextafter.out", "a b").wide("next_after(a, b)"),
        row("logaddexp.out", "a b").float("log_add_exp(a, b)"),
        row("logaddexp2.out", "a b").float("log_add_exp2(a, b)"),
        row("special_zeta.out", "a b").in_float("zeta(a, b)"),
        row("igamma.out", "a b").float("igamma(a, b)"),
        row("igammac.out", "a b").float("igammac(a, b)"),
        row("gcd.out", "a b").int("gcd(a, b)"),
        row("lcm.out", "a b").int("d := gcd(a, b); abs(a // where(d == 0, 1, d) * b)"),
        row("xlogy.OutTensor", "a b").in_float("where(is_nan(b), b, where(a == 0, 0, a * log(b)))"),
        row("special_xlog1py.out", "a b")
            .in_float("where(is_nan(b), b, where(a == 0, 0, a * log1p(b)))"),
        row("hardshrink.out", "a limit:s").float("where((a >= -limit) & (a <= limit), 0, a)"),
        row("softshrink.out", "a limit:s")
            .float("where(a > limit, a - limit, where(a < -limit, a + limit, a * 0))"),
    ]
}

fn activations() -> Vec<Entry> {
    vec![
        row("relu relu_ relu.out", "a").float("relu(a)").int("max(a, 0)"),
        row("silu.out", "a").float("silu(a)"),
        row("gelu.out", "a 'none'").float("gelu(a)"),
        row("gelu.out", "a 'tanh'").float("gelu_tanh(a)"),
        row("leaky_relu.out", "a slope:s").float("where(a > 0, a, a * slope)"),
        row("hardsigmoid.out", "a").float("min(max(a + 3, 0), 6) / 6"),
        row("hardswish hardswish.out hardswish_", "a").float("a * min(max(a + 3, 0), 6) / 6"),
        row("hardtanh hardtanh.out hardtanh_", "a lo:s hi:s").number("min(max(a, lo), hi)"),
        row("mish.out", "a").float("a * tanh(softplus(a))"),
        row("softplus.out", "a beta:s limit:s")
            .float("t := a * beta; where(t > limit, a, softplus(t) / beta)"),
        row("elu.out", "a alpha:s scale:s input_scale:s")
            .float("where(a > 0, a * scale, expm1(a * input_scale) * alpha * scale)"),
        row("threshold.out", "a limit:s value:s").number("where(a <= limit, value, a)"),
    ]
}

fn backward() -> Vec<Entry> {
    vec![
        row("sigmoid_backward.grad_input", "g y").float("g * (1 - y) * y"),
        row("tanh_backward.grad_input", "g y").float("g * (1 - y * y)"),
        row("threshold_backward.grad_input", "g a limit:s").number("where(a <= limit, 0, g)"),
        // Their parts would round in between: for these two, PyTorch has no other backward of a backend's.
        row("silu_backward silu_backward.grad_input", "g a")
            .float("s := sigmoid(a); g * s * (1 + a * (1 - s))"),
        row("mish_backward", "g a")
            .float("t := tanh(softplus(a)); g * (t + a * sigmoid(a) * (1 - t * t))"),
        row("gelu_backward.grad_input", "g a 'none'").float(
            "g * (0.5 * (1 + erf(a * 0.7071067811865476)) \
             + a * 0.3989422804014327 * exp(-0.5 * a * a))",
        ),
        row("gelu_backward.grad_input", "g a 'tanh'").float(
            "t := tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)); \
             g * (0.5 * (1 + t) \
             + 0.5 * a * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * a * a))",
        ),
        row("leaky_relu_backward.grad_input", "g a slope:s _").float("where(a > 0, g, g * slope)"),
        row("hardsigmoid_backward.grad_input", "g a").float("where((a > -3) & (a < 3), g / 6, 0)"),
        row("hardswish_backward hardswish_backward.out", "g a")
            .float("where(a <= -3, 0, where(a < 3, g * (a / 3 + 0.5), g))"),
        row("hardtanh_backward hardtanh_backward.grad_input", "g a lo:s hi:s")
            .float("where((a <= lo) | (a >= hi), 0, g)"),
        row("native_dropout_backward", "g kept:bool scale:s").float("where(kept, g * scale, 0)"),
        row("softplus_backward.grad_input", "g a beta:s limit:s")
            .float("t := a * beta; z := exp(t); where(t > limit, g, g * z / (z + 1))"),
    ]
}

#[cfg(test)]
mod tests {
    use spyre_compiler::{CompileOptions, Kernel};
    use spyre_numerics::DType::{
        Bool, Complex32, Complex64, Complex128, Float16, Float32, Float64, Int32, Int64,
    };

    use super::*;
    use crate::pointwise::parameter::Parameter;
    use crate::{Argument, Call, TensorView};

    fn argument(parameter: Parameter, tensor: Argument<'static>) -> Argument<'static> {
        match parameter {
            Parameter::Silent(_) => 2.into(),
            Parameter::Value(_) | Parameter::Of(..) => tensor,
            Parameter::Word(word) => Argument::String(word),
            Parameter::Nothing | Parameter::Any => Argument::None,
        }
    }

    #[test]
    fn every_row_compiles_for_every_dtype_that_it_takes() {
        for entry in entries() {
            let mut compiled = 0;
            let real = [Bool, Int32, Int64, Float16, Float32, Float64];
            for dtype in real.into_iter().chain([Complex32, Complex64, Complex128]) {
                let result = TensorView { dtype, size: &[3, 70], stride: &[70, 1], offset: 0 };
                let tensor = Argument::Tensor(result);
                let mut arguments: Vec<Argument<'_>> =
                    entry.parameters.iter().map(|&known| argument(known, tensor)).collect();
                let result = TensorView { dtype: entry.result_dtype(dtype), ..result };
                arguments.push(Argument::Tensor(result));
                let written = [arguments.len() - 1];
                let call = Call { arguments: &arguments, written: &written, default: Float32 };
                let Ok(recipe) = entry.recipe(&call) else { continue };
                let text = recipe.launches[0].kernel.text();
                let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
                let plan = kernel.compile(&CompileOptions::default());
                plan.unwrap_or_else(|error| panic!("{error}\n{text}"));
                compiled += 1;
            }
            assert!(compiled > 0, "{:?} takes nothing", entry.names);
        }
    }
}
