"""Sums that are carried along a dim."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import part, real


@part("_logcumsumexp")
def logcumsumexp(a: Tensor, dim: int) -> Tensor:
    """Of float64, which has nothing wider to add up in: each with what is so far before it, twice as far in every
    step."""
    real(a)
    if a.dim() == 0:
        return a.clone()
    a, step = a.movedim(dim, 0), 1
    while step < len(a):
        a, step = torch.cat([a[:step], torch.logaddexp(a[step:], a[:-step])]), 2 * step
    return a.movedim(0, dim).contiguous()
