"""Matrices as reflections and a triangle: Householder's."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite
from .triangles import by_columns, wide


def _reflection(column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the reflection of a column onto its first dim.

    That is the column's signed length there, the vector behind its leading one, and the factor.
    """
    head, tail = column[..., 0], column[..., 1:]
    far = torch.linalg.vector_norm(tail, dim=-1)
    length = -torch.copysign(torch.hypot(head, far), head)
    is_there = far != 0
    tau = torch.where(is_there, (length - head) / torch.where(is_there, length, 1.0), 0.0)
    vector = tail / torch.where(is_there, head - length, 1.0).unsqueeze(-1)
    return torch.where(is_there, length, head), vector, tau


def _reflected(matrix: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """A matrix, reflected: its rows are those from the vector's leading one on."""
    whole = torch.nn.functional.pad(vector, (1, 0), value=1.0).unsqueeze(-1)
    return matrix - tau[..., None, None] * (whole @ (whole.mT @ matrix))


def _factors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The triangle, with the vectors below it, and their factors."""
    matrix, taus = matrix.clone(), []
    for at in range(min(matrix.shape[-2:])):
        length, vector, tau = _reflection(matrix[..., at:, at])
        taus.append(tau)
        rest = matrix[..., at:, at + 1 :]
        if rest.numel():
            rest.copy_(_reflected(rest, vector, tau))
        matrix[..., at, at] = length
        matrix[..., at + 1 :, at] = vector
    return matrix, torch.stack(taus, -1) if taus else matrix.new_zeros((*matrix.shape[:-2], 0))


def _applied(packed: Tensor, taus: Tensor, target: Tensor, is_transposed: bool) -> Tensor:
    """The product of all reflections, times a matrix."""
    steps = range(taus.size(-1))
    batch = torch.broadcast_shapes(packed.shape[:-2], target.shape[:-2])
    target = target.expand(*batch, *target.shape[-2:]).clone()
    for at in steps if is_transposed else reversed(steps):
        rest = target[..., at:, :]
        if rest.numel():
            rest.copy_(_reflected(rest, packed[..., at + 1 :, at], taus[..., at]))
    return target


@composite("geqrf")
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    packed, taus = _factors(wide(a)[0])
    return by_columns(packed.to(a.dtype)), taus.to(a.dtype)


@composite("linalg_qr")
def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    if mode not in ("reduced", "complete", "r"):
        raise Declined(mode)
    packed, taus = _factors(wide(a)[0])
    rows, steps = a.size(-2), min(a.shape[-2:])
    columns = rows if mode == "complete" else steps
    triangle = by_columns(packed[..., :columns, :].triu().to(a.dtype))
    if mode == "r":
        return a.new_empty(0), triangle
    ones = torch.eye(rows, columns, dtype=packed.dtype, device=a.device)
    return by_columns(_applied(packed, taus, ones, False).to(a.dtype)), triangle


@composite("linalg_householder_product")
def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    (packed,) = wide(a)
    if tau.size(-1) > a.size(-1) or a.size(-1) > a.size(-2) or tau.dtype != a.dtype:
        raise Declined("factors that do not fit")
    ones = torch.eye(*a.shape[-2:], dtype=packed.dtype, device=a.device)
    return by_columns(_applied(packed, tau.double(), ones, False).to(a.dtype))


@composite("ormqr")
def ormqr(a: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    packed, target = wide(a, other)
    if tau.size(-1) > a.size(-1) or a.size(-2) != other.size(-2 if left else -1):
        raise Declined("factors that do not fit")
    if left:
        return by_columns(_applied(packed, tau.double(), target, transpose).to(a.dtype))
    return by_columns(_applied(packed, tau.double(), target.mT, not transpose).mT.to(a.dtype))
