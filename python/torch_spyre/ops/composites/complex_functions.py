"""Functions of complex numbers, from those of their parts. They are computed in float64 and rounded once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .complexes import joined, needed, of_complex, parts_of, rounded
from .table import Declined, composite, writes

Function = Callable[..., Any]


def _in_double(*names: str) -> Callable[[Function], Function]:
    """A part for calls with complex numbers, of which it sees the double ones."""

    def keep(function: Function) -> Function:
        def wide(*args: Any, **kwargs: Any) -> Any:
            dtypes = [value.dtype for value in args if isinstance(value, Tensor)]
            dtype = functools.reduce(torch.promote_types, dtypes, torch.complex32)
            given = [rounded(value, torch.complex128) for value in args]
            return tree_map(functools.partial(rounded, dtype=dtype), function(*given, **kwargs))

        of_complex(*names)(wide)
        return function

    return keep


def _turned(a: Tensor) -> Tensor:
    """Times the imaginary unit."""
    real, imaginary = parts_of(a)
    return joined(-imaginary, real)


def _turned_back(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(imaginary, -real)


@_in_double("exp2")
def exp2(a: Tensor) -> Tensor:
    return (a * math.log(2)).exp()


@_in_double("expm1")
def expm1(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    half = (imaginary / 2).sin()
    return joined(real.expm1() * imaginary.cos() - 2 * half * half, real.exp() * imaginary.sin())


@_in_double("log2")
def log2(a: Tensor) -> Tensor:
    return a.log() * (1 / math.log(2))


@_in_double("log10")
def log10(a: Tensor) -> Tensor:
    return a.log() * (1 / math.log(10))


@_in_double("log1p")
def log1p(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined((real * (real + 2) + imaginary * imaginary).log1p() / 2, torch.atan2(imaginary, 1 + real))


@_in_double("rsqrt")
def rsqrt(a: Tensor) -> Tensor:
    return a.sqrt().reciprocal()


@_in_double("sinh")
def sinh(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.sinh() * imaginary.cos(), real.cosh() * imaginary.sin())


@_in_double("cosh")
def cosh(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.cosh() * imaginary.cos(), real.sinh() * imaginary.sin())


@_in_double("tanh")
def tanh(a: Tensor) -> Tensor:
    """Past twenty, nothing but the sign of the real part is left to tell, and its exponential would overflow."""
    real, imaginary = parts_of(a)
    twice, turn = 2 * real.clamp(-20, 20), 2 * imaginary
    below = twice.cosh() + turn.cos()
    return joined(twice.sinh() / below, turn.sin() / below)


@_in_double("tan")
def tan(a: Tensor) -> Tensor:
    return _turned_back(tanh(_turned(a)))


@_in_double("asin")
def asin(a: Tensor) -> Tensor:
    (above, up), (below, down) = (parts_of(side.sqrt()) for side in (1 + a, 1 - a))
    real, _ = parts_of(a)
    return joined(torch.atan2(real, above * below - up * down), (below * up - down * above).asinh())


@_in_double("acos")
def acos(a: Tensor) -> Tensor:
    (above, up), (below, down) = (parts_of(side.sqrt()) for side in (1 + a, 1 - a))
    return joined(2 * torch.atan2(below, above), (above * down - up * below).asinh())


@_in_double("asinh")
def asinh(a: Tensor) -> Tensor:
    return _turned_back(asin(_turned(a)))


@_in_double("acosh")
def acosh(a: Tensor) -> Tensor:
    (above, up), (below, down) = (parts_of(side.sqrt()) for side in (a + 1, a - 1))
    return joined((below * above + down * up).asinh(), 2 * torch.atan2(down, above))


@_in_double("atanh")
def atanh(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    square = imaginary * imaginary
    far, near = (1 + real) * (1 + real) + square, (1 - real) * (1 - real) + square
    turn = torch.atan2(2 * imaginary, (1 - real) * (1 + real) - square)
    return joined((far.log() - near.log()) / 4, turn / 2)


@_in_double("atan")
def atan(a: Tensor) -> Tensor:
    return _turned_back(atanh(_turned(a)))


@_in_double("sinc")
def sinc(a: Tensor) -> Tensor:
    arc = a * math.pi
    return torch.where(a == 0, 1.0, arc.sin() / torch.where(a == 0, 1.0, arc))


def _as_complex(value: Any, like: Tensor) -> Tensor:
    """A tensor or number as complex numbers: the logarithm of a negative one is such a number."""
    if not isinstance(value, Tensor):
        return torch.full_like(like, value, dtype=torch.complex128)
    return value if value.is_complex() else value.to(torch.complex128)


@_in_double("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(a: Any, b: Any) -> Tensor:
    """Computes ``a ** b`` of complex numbers. Zero to the power of zero is one."""
    like = a if isinstance(a, Tensor) else b
    base, exponent = (_as_complex(value, like) for value in (a, b))
    raised = (exponent * torch.where(base == 0, 1.0, base).log()).exp()
    return torch.where(base == 0, torch.where(exponent == 0, 1.0, torch.zeros_like(raised)), raised)


@_in_double("logaddexp")
def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    is_first = parts_of(a)[0] >= parts_of(b)[0]
    large, small = torch.where(is_first, a, b), torch.where(is_first, b, a)
    return large + log1p((small - large).exp())


@_in_double("logsumexp")
def logsumexp(a: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    if a.numel() == 0:
        return a.exp().sum(dim, keepdim).log()
    largest = parts_of(a)[0].amax(dim, keepdim=True)
    largest = torch.where(largest.isinf(), 0.0, largest)
    summed = (a - largest).exp().sum(dim, keepdim=True).log() + largest
    return summed if keepdim else _squeezed(summed, dim)


def _squeezed(a: Tensor, dim: list[int]) -> Tensor:
    return a.squeeze(tuple(dim) if dim else tuple(range(a.dim())))


@of_complex("nan_to_num")
def nan_to_num(a: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    ends = torch.finfo(a.dtype)
    high, low = (end if given is None else given for given, end in ((posinf, ends.max), (neginf, ends.min)))

    def number(value: Tensor) -> Tensor:
        value = torch.where(value.isnan(), nan or 0.0, value)
        return torch.where(value == math.inf, high, torch.where(value == -math.inf, low, value))

    return joined(*(number(value) for value in parts_of(a)))


@of_complex("var.correction")
def var(a: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    options = {"dim": dim, "correction": 1 if correction is None else correction, "keepdim": keepdim}
    real, imaginary = parts_of(a)
    return real.var(**options) + imaginary.var(**options)


@of_complex("std.correction")
def std(a: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    return var(a, dim, correction=correction, keepdim=keepdim).sqrt()


@of_complex("var_mean.correction")
def var_mean(a: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return var(a, dim, correction=correction, keepdim=keepdim), a.mean(dim, keepdim)


@of_complex("std_mean.correction")
def std_mean(a: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return std(a, dim, correction=correction, keepdim=keepdim), a.mean(dim, keepdim)


@_in_double("prod.dim_int")
def prod_dim(a: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """One half times the other, until one number is left."""
    if dtype is not None and not dtype.is_complex:
        raise Declined(str(dtype))
    rank = a.dim()
    a = a.movedim(dim, 0) if rank else a.unsqueeze(0)
    while len(a) > 1:
        half = len(a) // 2
        a = torch.cat([a[:half] * a[half : 2 * half], a[2 * half :]])
    a = a[0] if len(a) else torch.ones(a.shape[1:], dtype=a.dtype, device=a.device)
    return a.unsqueeze(dim) if keepdim and rank else a


@_in_double("prod")
def prod(a: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return prod_dim(a.reshape(-1), 0, dtype=dtype)


@_in_double("cumprod")
def cumprod(a: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Each with what is so far before it, twice as far in every step."""
    if dtype is not None and not dtype.is_complex:
        raise Declined(str(dtype))
    if a.dim() == 0:
        return a.clone()
    a, step = a.movedim(dim, 0), 1
    while step < len(a):
        a, step = torch.cat([a[:step], a[step:] * a[:-step]]), 2 * step
    return a.movedim(0, dim).contiguous()


@composite("scatter.value", "scatter.value_reduce")
def scatter_value(a: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str | None = None) -> Tensor:
    needed(a)
    numbers, options = (complex(value).real, complex(value).imag), {} if reduce is None else {"reduce": reduce}
    if reduce == "multiply":
        if numbers[1]:
            raise Declined("a factor that turns")
        numbers = (numbers[0], numbers[0])
    pairs = zip(parts_of(a), numbers, strict=True)
    return joined(*(values.scatter(dim, index, number, **options) for values, number in pairs))


@composite("scatter.reduce")
def scatter_reduce(a: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> Tensor:
    needed(a)
    if reduce != "add":
        raise Declined(reduce)
    return a.scatter_add(dim, index, source)


def _filled(a: Tensor, fill: Callable[[Tensor], Tensor]) -> Tensor:
    if not a.is_complex():
        raise Declined("there is no complex number")
    made = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    fill(torch.view_as_real(made))
    return a.copy_(made)


@composite("uniform_")
@writes
def uniform(a: Tensor, low: float = 0, high: float = 1, *, generator: torch.Generator | None = None) -> Tensor:
    return _filled(a, lambda parts: parts.uniform_(low, high, generator=generator))


@composite("normal_")
@writes
def normal(a: Tensor, mean: float = 0, std: float = 1, *, generator: torch.Generator | None = None) -> Tensor:
    """The variance is that of both parts together."""
    _filled(a, lambda parts: parts.normal_(0, std / math.sqrt(2), generator=generator))
    return a.add_(mean) if mean else a
