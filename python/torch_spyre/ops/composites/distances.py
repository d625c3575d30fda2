"""Distances between rows, and their gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import composite


def _distance(difference: Tensor, p: float) -> Tensor:
    if p == 0:
        # The number of elements that differ; NaN if one of them is.
        return torch.where(difference.isnan(), difference, (difference != 0).to(difference.dtype)).sum(-1)
    return torch.linalg.vector_norm(difference, p, dim=-1)


@composite("_cdist_forward")
def cdist_forward(x: Tensor, y: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    return _distance(x.unsqueeze(-2) - y.unsqueeze(-3), p)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """Returns the derivative of the distance by each difference."""
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return difference.sign()
    if math.isinf(p):
        return difference.sign() * (difference.abs() == distance)
    if p < 1:
        slope = difference.sign() * difference.abs().pow(p - 1) / distance.pow(p - 1)
        return torch.where((difference == 0) | (distance == 0), torch.zeros_like(slope), slope)
    slope = difference * difference.abs().pow(p - 2) / distance.pow(p - 1)
    gone = (distance == 0) | ((difference == 0) & (p < 2))
    return torch.where(gone, torch.zeros_like(slope), slope)


@composite("_cdist_backward")
def cdist_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, distance: Tensor) -> Tensor:
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    return (grad.unsqueeze(-1) * _slope(difference, distance.unsqueeze(-1), p)).sum(-2)


@composite("_pdist_forward")
def pdist_forward(x: Tensor, p: float = 2) -> Tensor:
    rows, columns = torch.triu_indices(x.size(0), x.size(0), 1, device=x.device)
    return _distance(x[rows] - x[columns], p)


@composite("_pdist_backward")
def pdist_backward(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    rows, columns = torch.triu_indices(x.size(0), x.size(0), 1, device=x.device)
    change = grad.unsqueeze(-1) * _slope(x[rows] - x[columns], distance.unsqueeze(-1), p)
    return torch.zeros_like(x).index_add(0, rows, change).index_add(0, columns, -change)
