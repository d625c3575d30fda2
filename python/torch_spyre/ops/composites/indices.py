"""Elements that indices name, where no kernel puts them together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .table import Declined, composite, writes


@composite("scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The mean: the others are kernels."""
    if reduce != "mean" or x.dtype == torch.bool:
        raise Declined(reduce)
    return _mean(x, torch.scatter_add, dim, index, source, include_self)


@composite("index_reduce")
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean" or x.dtype == torch.bool:
        raise Declined(reduce)
    return _mean(x, torch.index_add, dim, index, source, include_self)


def _mean(x: Tensor, add: Callable[..., Tensor], dim: int, index: Tensor, source: Tensor, with_x: bool) -> Tensor:
    ones = torch.ones_like(source)
    count = add(torch.ones_like(x) if with_x else torch.zeros_like(x), dim, index, ones)
    total = add(x if with_x else torch.where(count == 0, x, torch.zeros_like(x)), dim, index, source)
    count = count.clamp(min=1)
    return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")


@composite("index_fill.int_Tensor")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    if value.dim() != 0:
        raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor")
    shape = list(x.shape) or [1]
    shape[dim] = index.numel()
    # Counted from the end too: what is copied is not.
    at = index.reshape(-1)
    size = x.shape[dim] if x.dim() else 1
    at = torch.where((at < 0) & (at >= -size), at + size, at)
    return x.index_copy(dim, at, value.to(x.dtype).expand(shape if x.dim() else []))


@composite("take")
def take(x: Tensor, index: Tensor) -> Tensor:
    if index.dtype != torch.int64:
        raise RuntimeError("take(): Expected a long tensor for index")
    return torch.ops.aten.index.Tensor(x.reshape(-1), [index.reshape(-1)]).reshape(index.shape)


@composite("put")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat, at = x.clone(memory_format=torch.contiguous_format).reshape(-1), index.reshape(-1)
    return flat.index_put_((at,), source.reshape(-1), accumulate).reshape(x.shape)


@composite("nonzero")
def nonzero(x: Tensor) -> Tensor:
    """The host learns how many there are; their places never leave the device."""
    marks = (x != 0).reshape(-1)
    count = int(marks.sum())
    at = torch.where(marks, marks.to(torch.int64).cumsum(0) - 1, torch.full_like(marks, count, dtype=torch.int64))
    # What is not marked goes to one more place, which is cut off.
    flat = torch.zeros(count + 1, dtype=torch.int64, device=x.device)
    flat = flat.scatter(0, at, torch.arange(marks.numel(), device=x.device))[:count]
    coordinates = []
    for size in reversed(x.shape):
        coordinates.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    if not coordinates:
        return torch.zeros(count, 0, dtype=torch.int64, device=x.device)
    return torch.stack(coordinates[::-1], 1)


@composite("nonzero_static")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Its columns lie in memory as rows, as those of `nonzero` do."""
    found = nonzero(x)[:size].t()
    rest = torch.full((x.dim(), size - found.size(1)), fill_value, dtype=torch.int64, device=x.device)
    return torch.cat([found, rest], 1).t()


@composite("masked_select")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    x, mask = torch.broadcast_tensors(x, mask)
    return x.reshape(-1)[mask.reshape(-1).nonzero().reshape(-1)]


@composite("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Each marked element takes the next one of the source."""
    if mask.dtype != torch.bool or source.dtype != x.dtype or source.numel() == 0:
        raise Declined("the CPU says what is wrong")
    x, mask = torch.broadcast_tensors(x, mask)
    marks = mask.reshape(-1)
    at = (marks.to(torch.int64).cumsum(0) - 1).clamp(0, source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[at].reshape(x.shape), x)


@composite("equal")
def equal(x: Tensor, y: Tensor) -> bool:
    if x.dtype != y.dtype:
        raise Declined("two dtypes")
    return x.shape == y.shape and bool((x == y).all())


def _sum_and_least(ends: Tensor, repeats: Tensor) -> list[int]:
    return torch.stack([ends[-1], repeats.min().to(torch.int64)]).tolist()


@composite("repeat_interleave.Tensor")
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Returns the index of each copy's element: the number of elements whose copies have ended before it."""
    if repeats.dim() != 1 or repeats.dtype not in (torch.int32, torch.int64):
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.numel() == 0:
        return repeats.clone()
    ends = repeats.to(torch.int64).cumsum(0)
    # With a size, nothing is read back: that is what it is given for.
    total, least = (output_size, 0) if output_size is not None else _sum_and_least(ends, repeats)
    if least < 0:
        raise RuntimeError("repeats can not be negative")
    return torch.searchsorted(ends, torch.arange(total, device=repeats.device), right=True).to(repeats.dtype)


@composite("embedding_renorm_")
@writes
def embedding_renorm(table: Tensor, index: Tensor, max_norm: float, norm_type: float) -> Tensor:
    rows = index.reshape(-1)
    picked = table[rows]
    norm = torch.linalg.vector_norm(picked, norm_type, dim=1, keepdim=True)
    scaled = torch.where(norm > max_norm, picked * (max_norm / (norm + 1e-7)), picked)
    return table.index_copy_(0, rows, scaled)
