"""Elements by their order: medians, modes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .table import Declined, composite


def _pick(values: Tensor, places: Tensor, at: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    value, place = values.gather(dim, at), places.gather(dim, at)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def _at(x: Tensor, dim: int, position: int) -> Tensor:
    shape = [1 if d == dim else size for d, size in enumerate(x.shape)]
    return torch.full(shape, position, dtype=torch.int64, device=x.device)


_SIGN = -(1 << 63)


def _in_a_row(x: Tensor) -> Tensor:
    """All elements one after another, as numbers that are ordered as kernels order them."""
    row = x.contiguous().view(-1)
    return row.view(torch.int64) ^ _SIGN if x.dtype == torch.uint64 else row


def _place(find: Callable[..., Tensor], x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if x.numel() == 0 or (dim is not None and x.dtype != torch.uint64):
        raise Declined("a dim of its own, or nothing")
    if dim is not None and x.dim() > 0:
        return find((x.contiguous().view(torch.int64) ^ _SIGN), dim, keepdim)
    place = find(_in_a_row(x), 0, False)
    return place.view([1] * x.dim()) if keepdim else place


@composite("argmax")
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Finds it in a whole tensor that is not contiguous, or of uint64. Other tensors have a kernel."""
    return _place(torch.argmax, x, dim, keepdim)


@composite("argmin")
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _place(torch.argmin, x, dim, keepdim)


@composite("kthvalue")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0 and k == 1:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    dim %= max(x.dim(), 1)
    if x.dim() == 0 or not 1 <= k <= x.size(dim):
        raise RuntimeError("selected number k out of range for dimension")
    values, places = x.sort(dim=dim, stable=True)
    return _pick(values, places, _at(x, dim, k - 1), dim, keepdim)


def _first_nan(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Returns masks of a NaN along a dim, and the index of the first."""
    nan = x.isnan()
    return nan.any(dim, keepdim=True), nan.to(torch.int64).argmax(dim, keepdim=True)


def _median(x: Tensor, dim: int, keepdim: bool, ignores_nan: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    dim %= x.dim()
    if x.size(dim) == 0:
        raise IndexError("median(): Expected reduction dim to have non-zero size.")
    values, places = x.sort(dim=dim, stable=True)
    at = _at(x, dim, (x.size(dim) - 1) // 2)
    if not x.is_floating_point():
        return _pick(values, places, at, dim, keepdim)
    has_nan, first = _first_nan(x, dim)
    if ignores_nan:
        count = x.isnan().logical_not().sum(dim, keepdim=True)
        at = (count - 1).clamp(min=0) // 2
    else:
        # NaNs are last in order: the first of them.
        at = torch.where(has_nan, x.isnan().logical_not().sum(dim, keepdim=True), at)
    value, place = _pick(values, places, at, dim, True)
    if not ignores_nan:
        place = torch.where(has_nan, first, place)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@composite("median.dim")
def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _median(x, dim, keepdim, False)


@composite("nanmedian.dim")
def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _median(x, dim, keepdim, True)


@composite("median")
def median(x: Tensor) -> Tensor:
    if x.numel() == 0 and x.is_floating_point():
        return torch.full((), float("nan"), dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        raise Declined("nothing has no middle")
    return _median(x.reshape(-1), 0, False, False)[0]


@composite("nanmedian")
def nanmedian(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0, False, True)[0]


@composite("mode")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The value with the longest run among those in order, and the last place of that run."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    dim %= x.dim()
    values, places = x.sort(dim=dim, stable=True)
    index = torch.arange(x.size(dim), device=x.device).reshape([-1 if d == dim else 1 for d in range(x.dim())])
    starts = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool),
                        values.narrow(dim, 1, x.size(dim) - 1) != values.narrow(dim, 0, x.size(dim) - 1)], dim)  # fmt: skip
    start = torch.where(starts, index, torch.zeros_like(index)).cummax(dim)[0]
    at = (index - start).argmax(dim, keepdim=True)
    return _pick(values, places, at, dim, keepdim)
