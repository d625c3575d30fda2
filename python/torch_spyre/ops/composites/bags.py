"""Sums, means and largest elements of bags of rows, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite

_SUM, _MEAN, _MAX = 0, 1, 2

Bags = tuple[Tensor, Tensor, Tensor, Tensor]


def _bags_of(indices: Tensor, offsets: Tensor, bags: int) -> Tensor:
    """Returns the bag of each index: the last one that has started by then."""
    at = torch.arange(indices.numel(), dtype=offsets.dtype, device=indices.device)
    return torch.searchsorted(offsets[:bags].contiguous(), at, right=True) - 1


def _check(weight: Tensor, indices: Tensor, offsets: Tensor) -> None:
    """Has the CPU refuse bags that are none, and rows that the table does not have: the host reads once."""
    if not weight.is_floating_point():
        raise Declined("the CPU says what is wrong")
    if offsets.numel() == 0:
        return
    is_wrong = (offsets[0] != 0) | (offsets[-1] > indices.numel()) | (offsets[1:] < offsets[:-1]).any()
    if indices.numel() > 0:
        is_wrong = is_wrong | (indices.min() < 0) | (indices.max() >= weight.size(0))
    if bool(is_wrong):
        raise RuntimeError("offsets begin with 0 and do not fall, up to the number of indices; indices are rows")


@composite("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Bags:  # fmt: skip
    bags = offsets.numel() - include_last_offset
    _check(weight, indices, offsets)
    bag = _bags_of(indices, offsets, bags)
    counts = indices != padding_idx
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    lengths = torch.zeros(bags, dtype=torch.int64, device=weight.device).index_add(0, bag, counts.to(torch.int64))
    nothing = torch.zeros(bags, weight.size(1), dtype=weight.dtype, device=weight.device)
    if mode == _MAX:
        result, largest = _largest(rows, indices, bag, counts, lengths, nothing)
    else:
        result = nothing.index_add(0, bag, rows * counts.unsqueeze(1))
        largest = lengths
        if mode == _MEAN:
            result = result / lengths.clamp(min=1).unsqueeze(1)
    kept = lengths.to(offsets.dtype)
    return result, bag.to(offsets.dtype), kept, largest.to(offsets.dtype)


def _largest(
    rows: Tensor, indices: Tensor, bag: Tensor, counts: Tensor, lengths: Tensor, nothing: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest of each column, and the row of the table that it is from: the first, if there are several."""
    if rows.size(0) == 0:
        return nothing, torch.full_like(nothing, -1, dtype=torch.int64)
    low = torch.finfo(rows.dtype).min
    seen = torch.where(counts.unsqueeze(1), rows, low)
    top = torch.full_like(nothing, low).index_reduce(0, bag, seen, "amax")
    is_top = (rows == top.index_select(0, bag)) & counts.unsqueeze(1)
    at = torch.arange(rows.size(0), device=rows.device).unsqueeze(1).expand(rows.shape)
    last = torch.full_like(nothing, rows.size(0), dtype=torch.int64)
    first = last.index_reduce(0, bag, torch.where(is_top, at, rows.size(0)), "amin")
    has_one = (lengths > 0).unsqueeze(1)
    places = indices.to(torch.int64)[first.clamp(max=rows.size(0) - 1).reshape(-1)].reshape(first.shape)
    return torch.where(has_one, top, nothing), torch.where(has_one, places, -1)


@composite("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    grad: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor, num_weights: int,
    scale_grad_by_freq: bool, mode: int, per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    table = torch.zeros(num_weights, grad.size(1), dtype=grad.dtype, device=grad.device)
    if mode == _MAX:
        is_there = maximum_indices >= 0
        return table.scatter_add(0, maximum_indices.clamp(min=0).to(torch.int64), torch.where(is_there, grad, 0.0))
    if mode == _MEAN:
        grad = grad / bag_size.clamp(min=1).unsqueeze(1)
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        often = torch.zeros(num_weights, dtype=grad.dtype, device=grad.device)
        often = often.index_add(0, indices, torch.ones_like(indices, dtype=grad.dtype))
        rows = rows / often.index_select(0, indices).unsqueeze(1)
    return table.index_add(0, indices, rows * (indices != padding_idx).unsqueeze(1))


@composite("_embedding_bag_backward")
def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    if sparse:
        raise Declined("a sparse gradient")
    return embedding_bag_dense_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
        per_sample_weights, padding_idx,
    )  # fmt: skip


@composite("_embedding_bag_per_sample_weights_backward")
def embedding_bag_per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    product = (grad.index_select(0, offset2bag) * weight.index_select(0, indices)).sum(1)
    return product * (indices != padding_idx)
