"""Complex numbers as pairs of real ones: the device computes with the parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from ...layouts import device_tensor_layout
from .table import Declined, part, writes

Pair = tuple[Tensor, Tensor]


def joined(real: Tensor, imaginary: Tensor) -> Tensor:
    """The complex numbers of two parts."""
    real, imaginary = torch.broadcast_tensors(real, imaginary)
    made = _room(real.shape, real.dtype.to_complex(), real.device)
    pairs = torch.view_as_real(made)
    pairs[..., 0].copy_(real)
    pairs[..., 1].copy_(imaginary)
    return made


def _room(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory in which the parts of a number are neighbours: not so in sticks of one number each."""
    if shape and shape[-1] == 1:
        return torch.empty(shape.numel(), dtype=dtype, device=device).view(shape)
    return torch.empty(shape, dtype=dtype, device=device)


def _paired(value: Tensor) -> Tensor:
    """The tensor, or a copy whose sticks can be seen as pairs of parts."""
    layout = device_tensor_layout(value)
    if layout is None or layout.stride_map[-1] == 1 or value.numel() < 2:
        return value
    return _room(value.shape, value.dtype, value.device).copy_(value)


def parts_of(value: Any) -> tuple[Any, Any]:
    """The two parts of a tensor or number; of a real one, the second is zero."""
    if not isinstance(value, Tensor):
        number = complex(value)
        return number.real, number.imag
    if not value.is_complex():
        return value, 0.0
    is_conjugate = value.is_conj()
    pairs = torch.view_as_real(_paired(value.conj() if is_conjugate else value))
    # Every second element is slow to read: the parts are copied apart.
    real, imaginary = (pairs[..., at].clone(memory_format=torch.contiguous_format) for at in (0, 1))
    return real, -imaginary if is_conjugate else imaginary


def _needed(*values: Any) -> None:
    if not any(isinstance(value, Tensor) and value.is_complex() or isinstance(value, complex) for value in values):
        raise Declined("there is no complex number")


def _complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A part for calls with complex numbers; others have a kernel."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            _needed(*args, *kwargs.values())
            return _common(function, args, kwargs)

        return part(*names)(checked)

    return keep


def _common(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls it with tensors of the dtype that all have together, real ones as their parts are."""
    given = [value for value in args if isinstance(value, (Tensor, complex, float, int))]
    tensors = [value for value in given if isinstance(value, Tensor)]
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if any(isinstance(value, complex) for value in given):
        dtype = torch.promote_types(dtype, torch.complex32)
    wide = torch.float64 if dtype == torch.complex128 else torch.float32
    made = [v.to(wide) if isinstance(v, Tensor) and not v.is_complex() else v for v in args]
    return function(*made, **kwargs)


def _sum(a: Any, b: Any, alpha: Any) -> Tensor:
    (ar, ai), (br, bi), (sr, si) = parts_of(a), parts_of(b), parts_of(alpha)
    return joined(ar + (br * sr - bi * si), ai + (br * si + bi * sr))


@_complex("add.Tensor")
def add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(a, b, alpha)


@_complex("sub.Tensor")
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(a, b, -alpha)


@_complex("mul.Tensor")
def mul(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return joined(ar * br - ai * bi, ar * bi + ai * br)


@_complex("div.Tensor")
def div(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    if isinstance(bi, float) and bi == 0:
        return joined(ar / br, ai / br)
    square = br * br + bi * bi
    return joined((ar * br + ai * bi) / square, (ai * br - ar * bi) / square)


@_complex("reciprocal")
def reciprocal(a: Tensor) -> Tensor:
    return div(1.0, a)


@_complex("neg")
def neg(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(-real, -imaginary)


@_complex("conj_physical", "_conj_physical")
def conj_physical(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real, -imaginary)


@_complex("abs")
def magnitude(a: Tensor) -> Tensor:
    return torch.hypot(*parts_of(a))


@part("angle")
def angle(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    if a.is_complex():
        return torch.atan2(imaginary, real)
    real = real if real.is_floating_point() else real.to(torch.get_default_dtype())
    turned = torch.where(real < 0, torch.full_like(real, torch.pi), torch.zeros_like(real))
    return torch.where(real.isnan(), real, turned)


@_complex("sgn")
def sgn(a: Tensor) -> Tensor:
    (real, imaginary), length = parts_of(a), magnitude(a)
    nowhere = torch.where(length == 0, torch.ones_like(length), length)
    return joined(real / nowhere, imaginary / nowhere)


@_complex("exp")
def exp(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    size = real.exp()
    return joined(size * imaginary.cos(), size * imaginary.sin())


@_complex("sqrt")
def sqrt(a: Tensor) -> Tensor:
    size, turn = magnitude(a).sqrt(), angle(a) / 2
    return joined(size * turn.cos(), size * turn.sin())


@_complex("sin")
def sin(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.sin() * imaginary.cosh(), real.cos() * imaginary.sinh())


@_complex("cos")
def cos(a: Tensor) -> Tensor:
    real, imaginary = parts_of(a)
    return joined(real.cos() * imaginary.cosh(), -(real.sin() * imaginary.sinh()))


@_complex("log")
def log(a: Tensor) -> Tensor:
    return joined(magnitude(a).log(), angle(a))


@part("fill_.Scalar", "zero_")
@writes
def fill(a: Tensor, value: Any = 0) -> Tensor:
    _needed(a)
    number = complex(value)
    whole = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    pairs = torch.view_as_real(whole)
    pairs[..., 0].fill_(number.real)
    pairs[..., 1].fill_(number.imag)
    return a.copy_(whole)


@part("flip")
def flip(a: Tensor, dims: list[int]) -> Tensor:
    _needed(a)
    rank = a.dim()
    if a.is_conj() or a.is_neg() or not all(-rank <= dim < rank for dim in dims):
        raise Declined("bits of its own, or no such dims")
    return torch.view_as_complex(torch.view_as_real(a).flip([dim % rank for dim in dims]))


@part("complex")
def from_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    if real.dtype != imaginary.dtype or not real.is_floating_point():
        raise RuntimeError("Expected object of scalar type Float")
    return joined(real, imaginary)


@part("polar")
def polar(length: Tensor, turn: Tensor) -> Tensor:
    if length.dtype != turn.dtype or not length.is_floating_point():
        raise RuntimeError("Expected object of scalar type Float")
    return joined(length * turn.cos(), length * turn.sin())


@_complex("sum.dim_IntList")
def total(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is not None and dtype != a.dtype:
        raise Declined(str(dtype))
    real, imaginary = parts_of(a)
    return joined(real.sum(dim, keepdim), imaginary.sum(dim, keepdim))


@_complex("mean.dim")
def mean(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is not None and dtype != a.dtype:
        raise Declined(str(dtype))
    real, imaginary = parts_of(a)
    return joined(real.mean(dim, keepdim), imaginary.mean(dim, keepdim))


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    ai, bi = (torch.zeros_like(r) if isinstance(i, float) else i for r, i in ((ar, ai), (br, bi)))
    return joined(multiply(ar, br) - multiply(ai, bi), multiply(ar, bi) + multiply(ai, br))


@_complex("mm")
def mm(a: Tensor, b: Tensor) -> Tensor:
    return _product(torch.mm, a, b)


@_complex("bmm")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    return _product(torch.bmm, a, b)


@_complex("dot")
def dot(a: Tensor, b: Tensor) -> Tensor:
    return _product(torch.dot, a, b)


def _apart(name: str) -> Callable[..., Tensor]:
    """An operation that moves elements, or adds them up, does so with each of the two parts."""

    def each(*args: Any, **kwargs: Any) -> Tensor:
        _needed(*tree_flatten((args, kwargs))[0])
        packet, _, overload = name.partition(".")
        function = getattr(getattr(torch.ops.aten, packet), overload or "default")
        done = []
        for at in (0, 1):
            given, named = tree_map(functools.partial(_half, at=at), (args, kwargs))
            done.append(function(*given, **named))
        return joined(*done)

    return part(name)(each)


def _half(value: Any, at: int) -> Any:
    return parts_of(value)[at] if isinstance(value, Tensor) and value.is_complex() else value


for _name in (
    "_index_put_impl", "cat", "constant_pad_nd", "cumsum", "gather", "index.Tensor", "index_copy", "index_select",
    "roll", "scatter.src", "scatter_add", "tril", "triu",
):  # fmt: skip
    _apart(_name)

_index_add = _apart("index_add")


@part("index_add")
def index_add(a: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """Kernels know no factor, of real numbers neither."""
    if alpha != 1:
        if torch.result_type(source, alpha) != source.dtype or source.dtype == torch.bool:
            raise Declined(f"{source.dtype} times {alpha}")
        source = source * alpha
    if a.is_complex() or source.is_complex():
        return _index_add(a, dim, index, source)
    return torch.index_add(a, dim, index, source)


@_complex("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(a: Tensor, mask: Tensor, value: Any) -> Tensor:
    return where(mask, value, a)


@_complex("eq.Tensor")
def eq(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return torch.eq(ar, br) & torch.eq(ai, bi)


@_complex("ne.Tensor")
def ne(a: Any, b: Any) -> Tensor:
    return eq(a, b).logical_not()


@_complex("where.self")
def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    return joined(torch.where(condition, ar, br), torch.where(condition, ai, bi))
