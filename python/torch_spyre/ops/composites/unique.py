"""Unique elements, and their counts."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite, real


def _runs(starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns starts, the run of each element, and lengths of the runs whose first elements are marked."""
    first = starts.nonzero().reshape(-1)
    which = starts.to(torch.int64).cumsum(0) - 1
    ends = torch.cat([first[1:], torch.full((1,), starts.numel(), dtype=torch.int64, device=starts.device)])
    return first, which, ends - first


def _differs(rows: Tensor) -> Tensor:
    """Marks each element, or row, that is not as the one before."""
    changes = rows[1:] != rows[:-1]
    if rows.dim() > 1:
        changes = changes.flatten(1).any(1)
    return torch.cat([torch.ones(1, dtype=torch.bool, device=rows.device), changes])


def _nothing(x: Tensor, inverse: torch.Size | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The inverse and the counts of no elements."""
    none = torch.empty(0, dtype=torch.int64, device=x.device)
    return none.reshape(inverse), none


def _empty_rows(x: Tensor, dim: int | None) -> torch.Size | tuple[int, ...]:
    if dim is not None and (x.size(dim) != 0 or x.shape.count(0) > 1):
        raise Declined("rows of nothing are the CPU's to refuse")
    return x.shape if dim is None else (0,)


@composite("_unique2")
def unique2(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,  # noqa: A002
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    real(x)
    if x.numel() == 0:
        return (x.reshape(-1), *_nothing(x, x.shape))
    values, places = x.reshape(-1).sort(stable=True)
    first, which, counts = _runs(_differs(values))
    inverse = torch.empty_like(which).scatter(0, places, which).reshape(x.shape)
    none = torch.empty(0, dtype=torch.int64, device=x.device)
    return values[first], inverse if return_inverse else none, counts if return_counts else none


@composite("_unique")
def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:  # noqa: A002
    return unique2(x, sorted, return_inverse)[:2]


@composite("unique_consecutive")
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    if x.numel() == 0:
        values = x.clone() if dim is not None else x.reshape(-1)
        return (values, *_nothing(x, _empty_rows(x, dim)))
    rows = x.reshape(-1) if dim is None else x.movedim(dim, 0)
    first, which, counts = _runs(_differs(rows))
    values = rows[first] if dim is None else rows[first].movedim(0, dim)
    none = torch.empty(0, dtype=torch.int64, device=x.device)
    inverse = which.reshape(x.shape) if dim is None else which
    return values, inverse if return_inverse else none, counts if return_counts else none


@composite("unique_dim")
def unique_dim(
    x: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,  # noqa: A002
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    real(x)
    if x.numel() == 0:
        return (x.clone(), *_nothing(x, _empty_rows(x, dim)))
    rows = x.movedim(dim, 0)
    columns = rows.reshape(rows.size(0), -1)
    order = torch.arange(rows.size(0), device=x.device)
    # From the last column to the first, each in order: what was equal stays as it was.
    for column in range(columns.size(1) - 1, -1, -1):
        order = order[columns[order, column].sort(stable=True)[1]]
    first, which, counts = _runs(_differs(columns[order]))
    inverse = torch.empty_like(which).scatter(0, order, which)
    return rows[order[first]].movedim(0, dim), inverse, counts
