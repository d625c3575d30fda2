"""Complex numbers, where their parts have to do with each other in more than one kernel."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .table import Declined, composite, writes

_LONGEST = 1024
"""Terms that are added up one after another: sums of sums are closer."""


def of_complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function for calls with complex numbers; others have a kernel."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(a: Tensor, *args: Any, **kwargs: Any) -> Any:
            if not a.is_complex():
                raise Declined("there is no complex number")
            return function(a, *args, **kwargs)

        composite(*names)(checked)
        return function

    return keep


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """One product of real matrices: with the two parts side by side, large terms meet before they add up."""
    a, b = a.resolve_conj(), b.resolve_conj()
    left = torch.view_as_real(a).flatten(-2)
    rows = torch.stack((b, torch.complex(-b.imag, b.real)), -2)
    right = torch.view_as_real(rows).flatten(-4, -3).flatten(-2)
    pieces = zip(left.split(_LONGEST, -1), right.split(_LONGEST, -2), strict=True)
    parts = functools.reduce(torch.add, (multiply(*piece) for piece in pieces))
    return torch.view_as_complex(parts.unflatten(-1, (b.shape[-1], 2)))


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


@composite("cat")
def cat(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Real ones among complex ones become such first."""
    dtype = functools.reduce(torch.promote_types, (one.dtype for one in tensors))
    if not dtype.is_complex or all(one.dtype == dtype for one in tensors):
        raise Declined("there is nothing to convert")
    return torch.cat([one.to(dtype) for one in tensors], dim)


@of_complex("index_add")
def index_add(a: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """The kernel takes real factors."""
    if not isinstance(alpha, complex):
        raise Declined("there is nothing to multiply")
    return a.index_add(dim, index, source * alpha)


@of_complex("logsumexp")
def logsumexp(a: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    if a.numel() == 0:
        return a.exp().sum(dim, keepdim).log()
    wide = a.to(torch.complex128)
    largest = wide.real.amax(dim, keepdim=True)
    largest = torch.where(largest.isinf(), 0.0, largest)
    summed = (wide - largest).exp().sum(dim, keepdim=True).log() + largest
    every = tuple(dim) if dim else tuple(range(a.dim()))
    return (summed if keepdim else summed.squeeze(every)).to(a.dtype)


@of_complex("nan_to_num")
def nan_to_num(a: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    ends, parts = torch.finfo(a.dtype), torch.view_as_real(a)
    high, low = (end if given is None else given for given, end in ((posinf, ends.max), (neginf, ends.min)))
    parts = torch.where(parts.isnan(), nan or 0.0, parts)
    return torch.view_as_complex(torch.where(parts == math.inf, high, torch.where(parts == -math.inf, low, parts)))


def _check(dtype: torch.dtype | None) -> None:
    if dtype is not None and not dtype.is_complex:
        raise Declined(str(dtype))


@of_complex("prod.dim_int")
def prod_dim(a: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """One half times the other, until one number is left."""
    _check(dtype)
    rank, kept = a.dim(), a.dtype
    a = (a.movedim(dim, 0) if rank else a.unsqueeze(0)).to(torch.complex128)
    while len(a) > 1:
        half = len(a) // 2
        a = torch.cat([a[:half] * a[half : 2 * half], a[2 * half :]])
    a = a[0] if len(a) else torch.ones(a.shape[1:], dtype=a.dtype, device=a.device)
    return (a.unsqueeze(dim) if keepdim and rank else a).to(kept)


@of_complex("prod")
def prod(a: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return prod_dim(a.reshape(-1), 0, dtype=dtype)


@of_complex("cumprod")
def cumprod(a: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Each with what is so far before it, twice as far in every step."""
    _check(dtype)
    if a.dim() == 0:
        return a.clone()
    made, step = a.movedim(dim, 0).to(torch.complex128), 1
    while step < len(made):
        made, step = torch.cat([made[:step], made[step:] * made[:-step]]), 2 * step
    return made.movedim(0, dim).contiguous().to(a.dtype)


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
