"""Hashes: the bits of all elements, one half with the other until one number is left."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite


@composite("hash_tensor")
def hash_tensor(x: Tensor, dim: list[int] = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:  # type: ignore[assignment]
    if mode != 0 or x.is_complex() or x.numel() == 0:
        raise Declined("there is no such hash, or nothing to take it of")
    rank = x.dim()
    dims = [at % rank for at in dim] if dim and rank else list(range(rank))
    if len(set(dims)) != len(dims) or any(not -rank <= at < rank for at in dim if rank):
        raise Declined("dims that are none, or named twice")
    kept = [at for at in range(rank) if at not in dims]
    found = _combined(_bits(x).permute(dims + kept).reshape([-1, *(x.size(at) for at in kept)]))
    sizes = [1 if at in dims else x.size(at) for at in range(rank)] if keepdim else found.shape
    return found.reshape(sizes).view(torch.uint64)


def _bits(x: Tensor) -> Tensor:
    """Floats as the bits of a double, whole numbers as they are."""
    return x.double().view(torch.int64) if x.is_floating_point() else x.long()


def _combined(rows: Tensor) -> Tensor:
    """All rows as one."""
    while len(rows) > 1:
        half = len(rows) // 2
        first = rows[:half] ^ rows[half : 2 * half]
        rows = torch.cat([first, rows[2 * half :]]) if len(rows) % 2 else first
    return rows[0]
