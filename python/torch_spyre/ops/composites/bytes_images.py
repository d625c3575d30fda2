"""Images of bytes, resampled as the host does it: with whole weights, and rounded after each dim."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import Declined, composite

_MOST_BITS = 22


def _place(at: int, scale: float, aligns_corners: bool) -> float:
    return scale * at if aligns_corners else max(scale * (at + 0.5) - 0.5, 0.0)


def _scale(size: int, count: int, given: float | None, aligns_corners: bool) -> float:
    if aligns_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / given if given else size / count


def _neighbours(size: int, count: int, scale: float, aligns_corners: bool) -> tuple[list[int], list[float]]:
    """The first of two neighbours of each place, and how much the second counts."""
    firsts, weights = [], []
    for at in range(count):
        place = _place(at, scale, aligns_corners)
        first = min(math.floor(place), size - 1)
        firsts.append(first)
        weights.append(min(max(place - first, 0.0), 1.0) if first < size - 1 else 0.0)
    return firsts, weights


def bits_of_weights(largest: float) -> int:
    """Returns the number of fraction bits with which weights up to ``largest`` fit into an int16."""
    return next((bits for bits in range(_MOST_BITS) if int(0.5 + largest * (1 << (bits + 1))) >= 1 << 15), _MOST_BITS)


def _along(x: Tensor, dim: int, count: int, scale: float, aligns_corners: bool) -> Tensor:
    size = x.size(dim)
    if size == count:
        return x
    firsts, seconds = _neighbours(size, count, scale, aligns_corners)
    bits = bits_of_weights(max(max(weight, 1 - weight) for weight in seconds))
    shape = [-1 if at == dim else 1 for at in range(x.dim())]
    total: Tensor | int = 1 << (bits - 1)
    for step, weights in ((0, [1 - weight for weight in seconds]), (1, seconds)):
        at = torch.tensor([min(first + step, size - 1) for first in firsts], device=x.device)
        whole = torch.tensor([int(0.5 + weight * (1 << bits)) for weight in weights], dtype=torch.int32)
        total = total + x.index_select(dim, at).to(torch.int32) * whole.view(shape).to(x.device)
    return (total >> bits).clamp(0, 255).to(torch.uint8)


@composite("upsample_bilinear2d")
def bilinear(
    x: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:  # fmt: skip
    if x.dtype != torch.uint8 or x.dim() != 4 or x.numel() == 0:
        raise Declined("no images of bytes")
    for dim, given in ((3, scales_w), (2, scales_h)):
        count = output_size[dim - 2]
        x = _along(x, dim, count, _scale(x.size(dim), count, given, align_corners), align_corners)
    return x
