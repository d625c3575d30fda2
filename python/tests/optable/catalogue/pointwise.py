"""Operators that give one number for each place."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import DTYPES, Case

KIND = "pointwise"
aten = torch.ops.aten


def unary(names: str, low: float = -3, high: float = 3, edges: bool = True, off: float = 0.0) -> list[Case]:
    def operands(make, size):
        return [(make.edges if edges else make)(3, size, low=low, high=high)]

    def row(make, size):
        return [make(size, low=low, high=high)]

    def single(make, size):
        return [make(low=low, high=high)]

    return [
        case
        for name in names.split()
        for case in (
            Case(name, found(name), operands, off=off),
            Case(name, found(name), row, sizes=(1, 65), off=off),
            Case(name, found(name), single, sizes=(1,), off=off),
        )
    ]


def binary(names: str, second="edges", low: float = -3, high: float = 3, first="edges") -> list[Case]:
    def operands(make, size):
        bounds = {} if second == "nonzero" else {"low": low, "high": high}
        return [getattr(make, first)(3, size, low=low, high=high), getattr(make, second)(3, size, **bounds)]

    def broadcast(make, size):
        one, two = operands(make, size)
        return [one, two[:1]]

    def columns(make, size):
        one, two = operands(make, size)
        return [one[:1], two[:, :1]] if size else [one, two]

    return [
        case
        for name in names.split()
        for case in (
            Case(name, found(name), operands),
            Case(name, found(name), broadcast, sizes=(65,)),
            Case(name, found(name), columns, sizes=(65,)),
        )
    ]


def found(name: str):
    """The function of this name: PyTorch's own, a special one, or one of networks."""
    for place in (torch, torch.special, F):
        if hasattr(place, name):
            return getattr(place, name)
    raise LookupError(f"PyTorch has no {name}")


def one(name: str, function, low: float = -3, high: float = 3) -> Case:
    return Case(name, function, lambda make, size: [make.edges(3, size, low=low, high=high)])


def two(name: str, function, second: str = "edges") -> Case:
    return Case(name, function, lambda make, size: [make.edges(3, size), getattr(make, second)(3, size)])


def three(name: str, function, third: str = "__call__") -> Case:
    return Case(name, function, lambda make, size: [make(3, size), make(3, size), getattr(make, third)(3, size)])


def gradient(name: str, function, low: float = -3, high: float = 3, grows: bool = False) -> Case:
    """The gradient of a function's operand, for one of its result."""

    def both(x, g):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, g)

    return Case(name, both, lambda make, size: [make(3, size, low=low, high=high), make(3, size)], grows=grows)


def cast(dtype: torch.dtype) -> Case:
    # Numbers that every dtype has: what is out of a dtype's range is not defined.
    return Case(f"to {str(dtype)[6:]}", lambda x: x.to(dtype), lambda make, size: [make(3, size, low=0, high=100)])


CASES: list[Case] = [
    # Functions of one number.
    *unary("abs neg sign sgn positive square relu floor ceil round trunc frac signbit isnan isinf isfinite"),
    *unary("isposinf isneginf logical_not bitwise_not reciprocal nan_to_num"),
    *unary("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh", low=-4, high=4),
    *unary("asinh acosh atanh erf erfc sigmoid sinc", low=-4, high=4),
    *unary("erfinv ndtri", low=-0.9, high=0.9),
    *unary("logit", low=0.05, high=0.95),
    *unary("lgamma digamma", low=0.1, high=9, edges=False),
    *unary("i0 i0e i1 i1e log_ndtr erfcx entr ndtr", edges=False),
    *unary("bessel_j0 bessel_j1 bessel_y0 bessel_y1", low=0.1, high=12, edges=False, off=1e-6),
    *unary("modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1", 0.1, 6, edges=False),
    *unary("scaled_modified_bessel_k0 scaled_modified_bessel_k1 airy_ai spherical_bessel_j0", 0.1, 6, edges=False),
    *unary("silu gelu hardsigmoid hardswish mish softplus elu selu celu relu6 leaky_relu hardshrink softshrink"),
    *unary("logsigmoid hardtanh tanhshrink softsign", low=-4, high=4),
    one("angle", torch.angle),
    one("conj", lambda x: x.conj().resolve_conj()),
    *unary("conj_physical"),
    one("real", lambda x: torch.real(x) + 0),
    one("gelu", lambda x: F.gelu(x, approximate="tanh")),
    one("threshold", lambda x: F.threshold(x, 1, 2)),
    one("clamp", lambda x: x.clamp(0, 2)),
    one("clamp", lambda x: x.clamp(min=1)),
    one("clamp", lambda x: x.clamp(max=1)),
    one("clamp_min", lambda x: x.clamp_min(1)),
    one("clamp_max", lambda x: x.clamp_max(1)),
    one("round", lambda x: x.round(decimals=2)),
    one("polygamma", lambda x: torch.polygamma(1, x), low=0.2, high=9),
    one("mvlgamma", lambda x: torch.mvlgamma(x, 2), low=2, high=9),
    *(cast(dtype) for dtype in DTYPES),
    # Of two.
    *binary("add sub mul maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor"),
    *binary("bitwise_and bitwise_or bitwise_xor heaviside copysign nextafter hypot atan2 logaddexp logaddexp2 rsub"),
    *binary("div true_divide", second="nonzero"),
    *binary("floor_divide fmod remainder", second="nonzero", first="__call__", low=-90, high=90),
    *binary("gcd lcm", low=-90, high=90, first="__call__", second="__call__"),
    *binary("pow", low=0, high=4, second="__call__"),
    *binary("xlogy xlog1py", low=0.1, high=4, first="__call__", second="__call__"),
    *binary("zeta", low=1.5, high=6, first="__call__", second="__call__"),
    *binary("igamma igammac", low=0.2, high=6, first="__call__", second="__call__"),
    *binary("bitwise_left_shift bitwise_right_shift", low=0, high=6, second="__call__"),
    *binary("float_power ldexp", low=1, high=4, first="__call__", second="__call__"),
    *binary("complex polar", first="__call__", second="__call__"),
    two("mul", lambda a, b: a.clone().mul_(b)),
    two("add", lambda a, b: torch.add(a, b, alpha=2)),
    two("add", lambda a, b: a + 2),
    two("add", lambda a, b: a.clone().add_(b)),
    two("sub", lambda a, b: torch.sub(a, b, alpha=2)),
    two("sub", lambda a, b: 3 - a),
    two("mul", lambda a, b: a * 3),
    two("div", lambda a, b: torch.div(a, b, rounding_mode="trunc"), "nonzero"),
    two("div", lambda a, b: torch.div(a, b, rounding_mode="floor"), "nonzero"),
    two("div", lambda a, b: a / 4, "nonzero"),
    two("lt", lambda a, b: a < 1),
    two("eq", lambda a, b: a == 1),
    two("pow", lambda a, b: a**2),
    two("pow", lambda a, b: a**3),
    Case("pow", lambda a: 2**a, lambda make, size: [make(3, size, low=0)]),
    Case("pow", lambda a: a**-1.5, lambda make, size: [make(3, size, low=0.2)]),
    two("prelu", lambda a, b: F.prelu(a, b[:1, :1].reshape(1) if b.numel() else b.new_ones(1))),
    two("mse_loss", lambda a, b: F.mse_loss(a, b, reduction="none"), "__call__"),
    two("l1_loss", lambda a, b: F.l1_loss(a, b, reduction="none"), "__call__"),
    two("smooth_l1_loss", lambda a, b: F.smooth_l1_loss(a, b, reduction="none"), "__call__"),
    two("huber_loss", lambda a, b: F.huber_loss(a, b, reduction="none"), "__call__"),
    two("glu", lambda a, b: F.glu(torch.cat([a, b], -1))),
    # Of three.
    three("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=2)),
    three("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=2), "nonzero"),
    three("lerp", torch.lerp),
    three("lerp", lambda a, b, c: torch.lerp(a, b, 0.3)),
    three("where", lambda a, b, c: torch.where(c, a, b), "truth"),
    three("where", lambda a, b, c: torch.where(a > b, a, 1)),
    three("clamp", lambda a, b, c: torch.clamp(a, b, c)),
    three("clamp_min", lambda a, b, c: torch.clamp_min(a, b)),
    three("clamp_max", lambda a, b, c: torch.clamp_max(a, b)),
    three("masked_fill", lambda a, b, c: a.masked_fill(c, 1), "truth"),
    three("masked_fill", lambda a, b, c: a.clone().masked_fill_(c[:1], 1), "truth"),
    # Polynomials.
    *(
        Case(
            name,
            lambda x, function=found(name): function(x, torch.tensor(4, device=x.device)),
            lambda make, size: [make(3, size, low=-0.9, high=0.9)],
        )
        for name in (
            *(f"{shifted}chebyshev_polynomial_{letter}" for shifted in ("", "shifted_") for letter in "tuvw"),
            *"hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p".split(),
        )
    ),
    # Gradients.
    two("sigmoid_backward", aten.sigmoid_backward, "__call__"),
    two("tanh_backward", aten.tanh_backward, "__call__"),
    gradient("threshold_backward", torch.relu),
    gradient("silu_backward", F.silu),
    two("silu_backward", lambda x, g: aten.silu_backward.grad_input(g, x, grad_input=torch.empty_like(x)), "__call__"),
    three("native_dropout_backward", lambda g, _, kept: aten.native_dropout_backward(g, kept, 2.0), "truth"),
    gradient("gelu_backward", F.gelu),
    gradient("gelu_backward", lambda x: F.gelu(x, approximate="tanh")),
    gradient("leaky_relu_backward", F.leaky_relu),
    gradient("hardsigmoid_backward", F.hardsigmoid),
    gradient("hardswish_backward", F.hardswish),
    gradient("hardtanh_backward", F.hardtanh),
    gradient("hardshrink_backward", F.hardshrink),
    gradient("softshrink_backward", F.softshrink),
    gradient("softplus_backward", F.softplus),
    gradient("log_sigmoid_backward", F.logsigmoid),
    gradient("logit_backward", torch.logit, low=0.1, high=0.9),
    gradient("elu_backward", F.elu),
    gradient("mish_backward", F.mish),
    gradient("glu_backward", lambda x: F.glu(torch.cat([x, x], -1)), grows=True),
]
