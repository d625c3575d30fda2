"""Small matrices and vectors of three."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import composite


@composite("trace")
def trace(x: Tensor) -> Tensor:
    if x.dim() != 2:
        raise RuntimeError("trace: expected a matrix")
    return x.diagonal().sum()


@composite("linalg_cross")
def linalg_cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    if x.size(dim) != 3:
        raise RuntimeError("linalg.cross: inputs dimension must have length 3.")
    a, b = x.unbind(dim), y.unbind(dim)
    turns = [(1, 2), (2, 0), (0, 1)]
    return torch.stack([a[i] * b[j] - a[j] * b[i] for i, j in turns], dim)


@composite("addbmm")
def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """One product, over batches, too: a sum that is rounded once."""
    if not (x.is_floating_point() or x.is_complex()):
        beta, alpha = int(beta), int(alpha)
    rows, columns = a.transpose(0, 1).reshape(a.size(1), -1), b.reshape(-1, b.size(2))
    return torch.addmm(x, rows, columns, beta=beta, alpha=alpha)


@composite("_trilinear")
def trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand_a: list[int], expand_b: list[int], expand_c: list[int],
    sumdim: list[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """The product of three, each with new dims of one element, and a sum."""
    for dim in sorted(expand_a):
        a = a.unsqueeze(dim)
    for dim in sorted(expand_b):
        b = b.unsqueeze(dim)
    for dim in sorted(expand_c):
        c = c.unsqueeze(dim)
    product = a * b * c
    return product.sum(sumdim) if sumdim else product
