"""Counting elements, and finding places among those that are in order."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite, real


@composite("bincount")
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    if x.is_floating_point():
        raise Declined("only whole numbers are counted")
    if x.dim() != 1 or minlength < 0 or (x.numel() and int(x.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    bins = max(int(x.max()) + 1 if x.numel() else 0, minlength)
    if weights is None:
        weights = torch.ones_like(x, dtype=torch.int64)
    elif weights.dtype not in (torch.float32, torch.float64):
        weights = weights.double()
    return torch.zeros(bins, dtype=weights.dtype, device=x.device).index_add(0, x.long(), weights)


@composite("histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002
    real(x)
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if not float("-inf") < min <= max < float("inf"):
        raise RuntimeError("torch.histc: max must be larger than min, and both finite")
    flat = x.reshape(-1)
    low = torch.full((), min, dtype=x.dtype, device=x.device)
    high = torch.full((), max, dtype=x.dtype, device=x.device)
    if min == max and flat.numel():
        low, high = flat.min(), flat.max()
        if not bool(torch.isfinite(high - low)):
            raise RuntimeError("torch.histc: the range of the elements is not finite")
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    at = ((flat - low) / (high - low) * bins).floor().clamp(0, bins - 1)
    at = torch.where(inside, at, torch.zeros_like(at)).long()
    return torch.zeros(bins, dtype=x.dtype, device=x.device).index_add(0, at, inside.to(x.dtype))


def _search(boundaries: Tensor, values: Tensor, right: bool) -> Tensor:
    """Counts the boundaries before each value, by bisection."""
    count = boundaries.size(-1)
    low = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
    high = torch.full_like(low, count)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        found = boundaries.gather(-1, middle.clamp(max=count - 1))
        is_before = ((found > values) if right else (found >= values)).logical_not() & (low < high)
        low = torch.where(is_before, middle + 1, low)
        high = torch.where(is_before, high, torch.minimum(middle, high))
    return low


@composite("searchsorted.Tensor")
def searchsorted(
    boundaries: Tensor, values: Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if boundaries.dtype != values.dtype or (side == "left" and right):
        raise RuntimeError("torch.searchsorted(): boundary tensor and input value tensor should have same dtype")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if sorter is not None and (sorter.dtype != torch.int64 or sorter.shape != boundaries.shape):
        raise RuntimeError("torch.searchsorted(): a sorter is of int64, and as large as the boundaries")
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    if boundaries.dim() != 1 and boundaries.shape[:-1] != values.shape[:-1]:
        raise RuntimeError("torch.searchsorted(): the first N-1 dimensions must be the same")
    flat = values.reshape(-1) if boundaries.dim() == 1 else values
    at = _search(boundaries, flat, right or side == "right").reshape(values.shape)
    return at.to(torch.int32) if out_int32 else at


@composite("searchsorted.Scalar")
def searchsorted_number(
    boundaries: Tensor, value: float, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    values = torch.full((), value, dtype=boundaries.dtype, device=boundaries.device)
    return searchsorted(boundaries, values, out_int32=out_int32, right=right, side=side, sorter=sorter)


@composite("bucketize.Tensor")
def bucketize(values: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    if boundaries.dim() != 1:
        raise RuntimeError("boundaries tensor must be 1 dimension")
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)


def _density(counts: Tensor, edges: Tensor, density: bool) -> Tensor:
    return counts / (counts.sum() * (edges[1:] - edges[:-1])) if density else counts


@composite("histogram.bins_tensor")
def histogram(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    flat, count = x.reshape(-1), bins.numel() - 1
    at = _search(bins, flat, True) - 1
    return _counted(flat, at, bins, count, weight, density)


@composite("histogram.bin_ct")
def histogram_of_equal_bins(
    x: Tensor, bins: int = 100, *, range: list[float] | None = None,  # noqa: A002
    weight: Tensor | None = None, density: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    flat = x.reshape(-1)
    if range is None and flat.numel():
        low, high = flat.min(), flat.max()
        if not bool(torch.isfinite(high - low)):
            raise RuntimeError("torch.histogram: the range of the elements is not finite")
    else:
        low, high = (torch.full((), end, dtype=x.dtype, device=x.device) for end in (range or (0.0, 1.0)))
    same = low == high
    low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    steps = torch.arange(bins + 1, dtype=x.dtype, device=x.device)
    step = (high - low) / bins
    edges = torch.where(steps < (bins + 1) // 2, low + step * steps, high - step * (bins - steps))
    at = ((flat - low) * bins / (high - low)).floor().clamp(-1, bins).to(torch.int64)
    return _counted(flat, at, edges, bins, weight, density)


def _counted(
    flat: Tensor, at: Tensor, edges: Tensor, count: int, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    """Counts the elements in each bin. An element at the last edge belongs to the last bin."""
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    share = inside.to(flat.dtype) if weight is None else torch.where(inside, weight.reshape(-1), 0.0)
    counts = torch.zeros(count, dtype=flat.dtype, device=flat.device)
    counts = counts.index_add(0, at.clamp(0, count - 1), share)
    return _density(counts, edges, density), edges
