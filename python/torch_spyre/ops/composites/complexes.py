"""Complex numbers as pairs of real ones: the device computes with the parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from .table import Declined, composite, writes

Pair = tuple[Tensor, Tensor]

_LONGEST = 1024
"""Terms that are added up one after another: sums of sums are closer."""


def joined(real: Tensor, imaginary: Tensor | float) -> Tensor:
    """The complex numbers of two parts."""
    if not isinstance(imaginary, Tensor):
        imaginary = torch.full_like(real, imaginary)
    real, imaginary = torch.broadcast_tensors(real, imaginary)
    made = torch.empty_like(real, dtype=real.dtype.to_complex())
    pairs = torch.view_as_real(made)
    pairs[..., 0].copy_(real)
    pairs[..., 1].copy_(imaginary)
    return made


def parts_of(value: Any) -> tuple[Any, Any]:
    """The two parts of a tensor or number; of a real one, the second is zero."""
    if not isinstance(value, Tensor):
        number = complex(value)
        return number.real, number.imag
    if not value.is_complex():
        return value, 0.0
    if value.numel() == 0:
        # The strides of no elements are kept, and those of parts are twice as far.
        real = torch.empty_like(value, dtype=value.dtype.to_real())
        return real, real.clone()
    is_conjugate = value.is_conj()
    pairs = torch.view_as_real(value.conj() if is_conjugate else value)
    # Every second element is slow to read: the parts are copied apart.
    real, imaginary = (pairs[..., at].clone(memory_format=torch.preserve_format) for at in (0, 1))
    return real, -imaginary if is_conjugate else imaginary


def needed(*values: Any) -> None:
    if not any(isinstance(value, Tensor) and value.is_complex() or isinstance(value, complex) for value in values):
        raise Declined("there is no complex number")


def of_complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A part for calls with complex numbers; others have a kernel."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            needed(*args, *kwargs.values())
            return _common(function, args, kwargs)

        return composite(*names)(checked)

    return keep


def _common(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls it with tensors of the dtype that all have together, real ones as their parts are. Narrow ones are
    computed with as float32, and rounded once, at the end."""
    given = [value for value in args if isinstance(value, (Tensor, complex, float, int))]
    tensors = [value for value in given if isinstance(value, Tensor)]
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if any(isinstance(value, complex) for value in given):
        dtype = torch.promote_types(dtype, torch.complex32)
    wide = torch.complex128 if dtype == torch.complex128 else torch.complex64
    result = function(*(_in(value, wide) for value in args), **kwargs)
    return tree_map(functools.partial(rounded, dtype=torch.complex32), result) if dtype == torch.complex32 else result


def _in(value: Any, dtype: torch.dtype) -> Any:
    """A tensor of numbers in a complex dtype, or in that of its parts; truth values stay."""
    if not isinstance(value, Tensor) or value.dtype == torch.bool:
        return value
    return value.to(dtype if value.is_complex() else dtype.to_real())


def rounded(value: Any, dtype: torch.dtype) -> Any:
    """A tensor in a complex dtype, or in that of its parts."""
    is_number = isinstance(value, Tensor) and (value.is_complex() or value.is_floating_point())
    return _in(value, dtype) if is_number else value


def _sum(a: Any, b: Any, alpha: Any) -> Tensor:
    (ar, ai), (br, bi), (sr, si) = parts_of(a), parts_of(b), parts_of(alpha)
    return joined(ar + (br * sr - bi * si), ai + (br * si + bi * sr))


@of_complex("add.Tensor")
def add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(a, b, alpha)


@of_complex("sub.Tensor")
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(a, b, -alpha)


@of_complex("mul.Tensor")
def mul(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return joined(ar * br - ai * bi, ar * bi + ai * br)


@of_complex("div.Tensor")
def div(a: Any, b: Any) -> Tensor:
    """The smaller part of the divisor is divided by the larger one: no square overflows."""
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    if isinstance(bi, float) and bi == 0:
        # An infinite part leaves nothing of the other one, as in every product.
        return joined((ar + ai * 0.0) / br, (ai - ar * 0.0) / br)
    br, bi = (_as_tensor(half, ar) for half in (br, bi))
    is_flat = br.abs() >= bi.abs()
    large, small = torch.where(is_flat, br, bi), torch.where(is_flat, bi, br)
    is_nothing, ratio = large == 0, small / large
    below = torch.where(is_nothing, 0.0, large + small * ratio)
    real = torch.where(is_flat, ar + ai * ratio, ar * ratio + ai)
    imaginary = torch.where(is_flat, ai - ar * ratio, ai * ratio - ar)
    return joined(torch.where(is_nothing, ar, real) / below, torch.where(is_nothing, ai, imaginary) / below)


def _as_tensor(half: Any, like: Tensor) -> Tensor:
    return half if isinstance(half, Tensor) else torch.full((), half, dtype=like.dtype, device=like.device)


@of_complex("reciprocal")
def reciprocal(a: Tensor) -> Tensor:
    return div(1.0, a)


@of_complex("neg")
def neg(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(-real, -imaginary)


@of_complex("conj_physical", "_conj_physical")
def conj_physical(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real, -imaginary)


@of_complex("abs")
def magnitude(a: Tensor) -> Tensor:
    return torch.hypot(*parts_of(a))


@composite("angle")
def angle(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    if a.is_complex():
        return torch.atan2(imaginary, real).contiguous()
    real = real if real.is_floating_point() else real.to(torch.get_default_dtype())
    turned = torch.where(real < 0, torch.full_like(real, torch.pi), torch.zeros_like(real))
    return torch.where(real.isnan(), real, turned)


@of_complex("sgn")
def sgn(a: Tensor) -> Tensor:
    (real, imaginary), length = parts_of(a), magnitude(a)
    nowhere = torch.where(length == 0, torch.ones_like(length), length)
    return joined(real / nowhere, imaginary / nowhere)


@of_complex("exp")
def exp(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    size = real.exp()
    return joined(size * imaginary.cos(), torch.where(imaginary == 0, imaginary, size * imaginary.sin()))


@of_complex("sqrt")
def sqrt(a: Tensor) -> Tensor:
    size, turn = magnitude(a).sqrt(), angle(a) / 2
    return joined(size * turn.cos(), size * turn.sin())


@of_complex("sin")
def sin(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.sin() * imaginary.cosh(), real.cos() * imaginary.sinh())


@of_complex("cos")
def cos(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.cos() * imaginary.cosh(), -(real.sin() * imaginary.sinh()))


@of_complex("log")
def log(a: Tensor) -> Tensor:
    return joined(magnitude(a).log(), angle(a))


@composite("fill_.Scalar", "zero_")
@writes
def fill(a: Tensor, value: Any = 0) -> Tensor:
    needed(a)
    number = complex(value)
    whole = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    pairs = torch.view_as_real(whole)
    pairs[..., 0].fill_(number.real)
    pairs[..., 1].fill_(number.imag)
    return a.copy_(whole)


@composite("flip")
def flip(a: Tensor, dims: list[int]) -> Tensor:
    needed(a)
    rank = a.dim()
    if a.is_conj() or a.is_neg() or not all(-rank <= dim < rank for dim in dims):
        raise Declined("bits of its own, or no such dims")
    return torch.view_as_complex(torch.view_as_real(a).flip([dim % rank for dim in dims]))


@composite("complex")
def from_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    if real.dtype != imaginary.dtype or not real.is_floating_point():
        raise RuntimeError("Expected object of scalar type Float")
    return joined(real, imaginary)


@composite("polar")
def polar(length: Tensor, turn: Tensor) -> Tensor:
    if length.dtype != turn.dtype or not length.is_floating_point():
        raise RuntimeError("Expected object of scalar type Float")
    return joined(length * turn.cos(), length * turn.sin())


@of_complex("sum.dim_IntList")
def total(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is not None and dtype.is_complex:
        a = a.to(dtype)
    elif dtype is not None:
        return a.to(dtype).sum(dim, keepdim)
    real, imaginary = parts_of(a)
    return joined(real.sum(dim, keepdim), imaginary.sum(dim, keepdim))


@of_complex("mean.dim")
def mean(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is not None and dtype != a.dtype:
        raise Declined(str(dtype))
    summed = total(a, dim, keepdim)
    return div(summed, a.numel() / summed.numel() if summed.numel() else 1.0)


def _pairs(a: Tensor) -> Pair:
    real, imaginary = parts_of(a)
    return real, torch.zeros_like(real) if isinstance(imaginary, float) else imaginary


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """One product of real matrices: with the two parts side by side, large terms meet before they add up."""
    real, imaginary = _pairs(b)
    left = torch.stack(_pairs(a), -1).flatten(-2)
    rows = torch.stack((torch.stack((real, imaginary), -1), torch.stack((-imaginary, real), -1)), -3)
    right = rows.flatten(-4, -3).flatten(-2)
    pieces = zip(left.split(_LONGEST, -1), right.split(_LONGEST, -2), strict=True)
    parts = functools.reduce(torch.add, (multiply(*piece) for piece in pieces)).unflatten(-1, (real.shape[-1], 2))
    return joined(parts[..., 0], parts[..., 1])


@of_complex("mm")
def mm(a: Tensor, b: Tensor) -> Tensor:
    return _product(torch.mm, a, b)


@of_complex("bmm")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    return _product(torch.bmm, a, b)


@of_complex("dot")
def dot(a: Tensor, b: Tensor) -> Tensor:
    # Not a product: a sum of many has partial sums, and rounds less.
    return (a * b).sum()


def _apart(name: str) -> Callable[..., Tensor]:
    """An operation that moves elements, or adds them up, does so with each of the two parts."""

    def each(*args: Any, **kwargs: Any) -> Tensor:
        needed(*tree_flatten((args, kwargs))[0])
        packet, _, overload = name.partition(".")
        function = getattr(getattr(torch.ops.aten, packet), overload or "default")
        done = []
        for at in (0, 1):
            given, named = tree_map(functools.partial(_half, at=at), (args, kwargs))
            done.append(function(*given, **named))
        return joined(*done)

    return composite(name)(each)


def _half(value: Any, at: int) -> Any:
    return parts_of(value)[at] if isinstance(value, Tensor) and value.is_complex() else value


for _name in (
    "_index_put_impl", "cumsum", "gather", "index.Tensor", "index_copy", "index_select",
    "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward",
    "roll", "scatter.src", "scatter_add", "tril", "triu",
):  # fmt: skip
    _apart(_name)

_index_add = _apart("index_add")


@composite("cat")
def cat(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Real ones among complex ones have an imaginary part of zeros."""
    needed(*tensors)
    dtype = functools.reduce(torch.promote_types, (one.dtype for one in tensors)).to_real()
    halves = [parts_of(one) for one in tensors]
    real = torch.cat([one.to(dtype) for one, _ in halves], dim)
    pairs = zip(halves, tensors, strict=True)
    zeros = [torch.zeros_like(one, dtype=dtype) if isinstance(half, float) else half.to(dtype) for (_, half), one in pairs]
    return joined(real, torch.cat(zeros, dim))


@composite("constant_pad_nd")
def constant_pad_nd(a: Tensor, pad: list[int], value: Any = 0) -> Tensor:
    needed(a)
    halves = zip(parts_of(a), parts_of(value), strict=True)
    return joined(*(torch.constant_pad_nd(half, pad, number) for half, number in halves))


@composite("index_add")
def index_add(a: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    needed(a, source)
    return _index_add(a, dim, index, source if alpha == 1 else source * alpha)


@of_complex("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(a: Tensor, mask: Tensor, value: Any) -> Tensor:
    return where(mask, value, a)


@of_complex("eq.Tensor", "eq.Scalar")
def eq(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return torch.eq(ar, br) & torch.eq(ai, bi)


@of_complex("ne.Tensor", "ne.Scalar")
def ne(a: Any, b: Any) -> Tensor:
    return eq(a, b).logical_not()


@of_complex("where.self")
def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return joined(torch.where(condition, ar, br), torch.where(condition, ai, bi))
