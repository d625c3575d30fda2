"""Losses: gradients that PyTorch has no decomposition of, and values that are refused."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from .table import Declined, composite

_MEAN = 1


@composite("binary_cross_entropy")
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN) -> Tensor:
    if x.shape != target.shape or not bool((_is_share(x) & _is_share(target)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    return decomposition_table[torch.ops.aten.binary_cross_entropy.default](x, target, weight, reduction)


def _is_share(x: Tensor) -> Tensor:
    """Marks what is between 0 and 1, which a NaN is not."""
    return (x >= 0) & (x <= 1)


@composite("nll_loss_forward")
def nll_loss_forward(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    if x.dim() == 1 and target.dim() == 0:
        rows = torch.ops.aten.nll_loss_forward(x[None], target[None], weight, reduction, ignore_index)
        return rows[0].reshape(()), rows[1]
    function = decomposition_table[torch.ops.aten.nll_loss_forward.default]
    return function(x, target, weight, reduction, ignore_index)


@composite("nll_loss2d_forward")
def nll_loss2d_forward(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """Computes ``nll_loss_forward`` with a row for each pixel of the images."""
    if x.dim() != 4 or target.shape != (x.size(0), *x.shape[2:]):
        raise Declined("the CPU says what is wrong")
    rows, classes = x.permute(0, 2, 3, 1).reshape(-1, x.size(1)), target.reshape(-1)
    loss, total = torch.ops.aten.nll_loss_forward(rows, classes, weight, reduction, ignore_index)
    return loss if loss.dim() == 0 else loss.reshape(target.shape), total


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.size(-1) if x.dim() else 1)


@composite("multi_margin_loss")
def multi_margin_loss(
    x: Tensor, target: Tensor, p: float = 1, margin: float = 1, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    """Classes that come too close to the target's: a NaN does not."""
    if x.dim() not in (1, 2) or x.size(-1) == 0 or target.shape != x.shape[:-1] or p not in (1, 2):
        raise Declined("the CPU says what is wrong")
    rows, classes = _rows(x), target.reshape(-1, 1)
    distance = margin - rows.gather(1, classes) + rows
    counted = (distance > 0) & (torch.arange(rows.size(1), device=x.device) != classes)
    losses = torch.where(counted, distance if p == 1 else distance * distance, torch.zeros_like(distance))
    if weight is not None:
        losses = losses * weight[classes]
    losses = losses.mean(1)
    return losses.reshape(target.shape) if reduction == 0 else losses.mean() if reduction == _MEAN else losses.sum()


@composite("multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, p: float, margin: float, weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:  # fmt: skip
    """Classes that come too close to the target's push it up, and themselves down."""
    rows, classes = _rows(x), target.reshape(-1, 1)
    distance = margin - rows.gather(1, classes) + rows
    push = torch.where(distance > 0, torch.ones_like(rows) if p == 1 else 2 * distance, torch.zeros_like(rows))
    push = push.scatter(1, classes, 0.0) / rows.size(1)
    if weight is not None:
        push = push * weight[target.reshape(-1)].unsqueeze(1)
    if reduction == _MEAN:
        push = push / rows.size(0)
    push = push.scatter(1, classes, -push.sum(1, keepdim=True))
    return (push * grad.reshape(-1, 1)).reshape(x.shape)


def _labels(target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns masks and classes of the targets. A row's targets end at its first negative one."""
    rows = _rows(target)
    return (rows >= 0).to(torch.int64).cumprod(1), rows.clamp(min=0)


@composite("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Classes that are no targets and come too close to one, or pass it."""
    if target.shape != x.shape or x.dim() > 2 or x.numel() == 0:
        raise Declined("shapes that the CPU refuses, or says something else of")
    rows = _rows(x)
    counts, places = _labels(target)
    is_target = torch.zeros_like(counts).scatter_add(1, places, counts) > 0
    distance = 1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)
    counted = (counts == 1).unsqueeze(2) & ~is_target.unsqueeze(1) & (distance > 0)
    losses = torch.where(counted, distance, torch.zeros_like(distance)).sum((1, 2)) / rows.size(1)
    losses = losses.reshape(x.shape[:-1]) if reduction == 0 else losses.mean() if reduction == _MEAN else losses.sum()
    return losses, is_target.to(x.dtype).reshape(target.shape)


@composite("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    rows = _rows(x)
    counts, places = _labels(target)
    distance = 1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)
    others = (is_target.reshape(rows.shape) == 0).unsqueeze(1)
    hits = ((distance > 0) & others & (counts == 1).unsqueeze(2)).to(x.dtype)
    push = hits.sum(1).scatter_add(1, places, -hits.sum(2)) / rows.size(1)
    if reduction == _MEAN:
        push = push / rows.size(0)
    return (push * grad.reshape(-1, 1)).reshape(x.shape)
