"""Pooling undone: each element goes back to the place that an index names."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import Declined, composite


@composite("max_unpool2d")
def max_unpool2d(x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    return _unpooled(x, indices, output_size, 2)


@composite("max_unpool3d")
def max_unpool3d(x: Tensor, indices: Tensor, output_size: list[int], stride: list[int], padding: list[int]) -> Tensor:
    if len(stride) != 3 or len(padding) != 3 or min(stride) <= 0:
        raise Declined("stride and padding of three dims")
    return _unpooled(x, indices, output_size, 3)


def _unpooled(x: Tensor, indices: Tensor, output_size: list[int], dims: int) -> Tensor:
    """Planes of zeros with the elements of each plane in their places. An index is one into its own plane: one below
    zero or past its end is refused, as on the CPU."""
    is_one = (
        indices.dtype == torch.int64
        and x.ndim in (dims + 1, dims + 2)
        and x.shape == indices.shape
        and x.numel() > 0
        and len(output_size) == dims
        and min(output_size) > 0
    )
    if not is_one:
        raise Declined("what the CPU refuses, or says of nothing")
    planes = x.shape[:-dims]
    empty = x.new_zeros(math.prod(planes), math.prod(output_size))
    rows = empty.shape[0]
    filled = empty.scatter(1, indices.reshape(rows, -1), x.reshape(rows, -1))
    return filled.view(*planes, *output_size)
