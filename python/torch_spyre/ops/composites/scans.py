"""Sums that are carried along a dim."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import composite, real


@composite("_logcumsumexp")
def logcumsumexp(a: Tensor, dim: int) -> Tensor:
    """Scans float64, which has no wider type to add up in. Each round adds the elements ``step`` before, and
    doubles ``step``."""
    real(a)
    if a.dim() == 0:
        return a.clone()
    a, step = a.movedim(dim, 0), 1
    while step < len(a):
        a, step = torch.cat([a[:step], torch.logaddexp(a[step:], a[:-step])]), 2 * step
    return a.movedim(0, dim).contiguous()
