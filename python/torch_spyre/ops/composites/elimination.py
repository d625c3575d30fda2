"""Matrices as a permutation and two triangles: factors, determinants, inverses and solutions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .table import Declined, composite
from .triangles import by_columns, triangle_inverse, wide


class Factors(NamedTuple):
    """Both triangles in one matrix, which rows were swapped, and the first column without a pivot, from one."""

    packed: Tensor
    pivots: Tensor
    info: Tensor


def _swap(rows: int, at: int, pivot: Tensor) -> Tensor:
    """The order of rows when two have changed places."""
    places, pivot = torch.arange(rows, device=pivot.device), pivot.unsqueeze(-1)
    return torch.where(places == at, pivot, torch.where(places == pivot, at, places))


def _reordered(matrix: Tensor, order: Tensor) -> Tensor:
    return matrix.gather(-2, order.unsqueeze(-1).expand(matrix.shape))


def factors(a: Tensor) -> Factors:
    """Gauss' elimination with the largest element of each column as its pivot."""
    matrix = wide(a)[0].clone()
    rows, steps = matrix.size(-2), min(matrix.shape[-2:])
    info = torch.zeros(matrix.shape[:-2], dtype=torch.int32, device=a.device)
    pivots = []
    for at in range(steps):
        pivot = matrix[..., at:, at].abs().argmax(-1) + at
        pivots.append(pivot + 1)
        matrix = _reordered(matrix, _swap(rows, at, pivot))
        corner = matrix[..., at, at].clone()
        info = torch.where((info == 0) & (corner == 0), at + 1, info)
        column = matrix[..., at + 1 :, at]
        column.div_(torch.where(corner == 0, 1.0, corner).unsqueeze(-1))
        rest = matrix[..., at + 1 :, at + 1 :]
        rest.sub_(column.unsqueeze(-1) * matrix[..., at, at + 1 :].unsqueeze(-2))
    made = torch.stack(pivots, -1) if pivots else torch.zeros((*a.shape[:-2], 0), device=a.device)
    return Factors(matrix, made.to(torch.int32), info.to(torch.int32))


def _order(pivots: Tensor, rows: int) -> Tensor:
    """The order of rows after all swaps."""
    order = torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows)
    for at in range(pivots.size(-1)):
        order = order.gather(-1, _swap(rows, at, pivots[..., at].to(torch.int64) - 1))
    return order


def _permutation(pivots: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    places = torch.arange(rows, device=pivots.device).unsqueeze(-1)
    return (places == _order(pivots, rows).unsqueeze(-2)).to(dtype)


def _triangles(packed: Tensor) -> tuple[Tensor, Tensor]:
    steps = min(packed.shape[-2:])
    lower, upper = packed[..., :steps].tril(-1), packed[..., :steps, :].triu()
    ones = torch.eye(packed.size(-2), steps, dtype=packed.dtype, device=packed.device)
    return lower + ones, upper


def _solve(packed: Tensor, pivots: Tensor, right: Tensor, is_adjoint: bool) -> Tensor:
    """Solves ``A x = right``, or with the transpose of A, from the factors of A."""
    lower, upper = triangle_inverse(packed, False, True), triangle_inverse(packed, True)
    turn = _permutation(pivots, packed.size(-1), packed.dtype)
    if is_adjoint:
        return turn @ (lower.mT @ (upper.mT @ right))
    return upper @ (lower @ (turn.mT @ right))


def _laid(solution: Tensor, left: bool) -> Tensor:
    """A solution as the host has it: by columns, or by rows where the unknown stands on the left."""
    if solution.dim() < 2:
        return solution
    return by_columns(solution) if left else by_columns(solution.mT).mT


def _determined(a: Tensor) -> Factors:
    """Factors for a determinant: of the transpose where rows lie one after the other, as its gradient expects."""
    return factors(a.mT if a.is_contiguous() else a)


def _check(check_errors: bool, info: Tensor, name: str, a: Tensor) -> None:
    if check_errors:
        torch._linalg_check_errors(info, name, is_matrix=a.dim() == 2)


@composite("linalg_lu_factor_ex")
def lu_factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot:
        raise Declined("no pivots")
    packed, pivots, info = factors(a)
    _check(check_errors, info, "torch.linalg.lu_factor_ex", a)
    return by_columns(packed.to(a.dtype)), pivots, info


@composite("linalg_lu")
def lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot:
        raise Declined("no pivots")
    packed, pivots, _ = factors(a)
    lower, upper = _triangles(packed)
    return _permutation(pivots, a.size(-2), a.dtype), lower.to(a.dtype), upper.to(a.dtype)


@composite("lu_unpack")
def lu_unpack(
    packed: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    wide(packed)
    nothing = packed.new_empty(0)
    lower, upper = _triangles(packed) if unpack_data else (nothing, nothing)
    pivots = pivots[..., : min(packed.shape[-2:])]
    return _permutation(pivots, packed.size(-2), packed.dtype) if unpack_pivots else nothing, lower, upper


@composite("linalg_lu_solve")
def lu_solve(packed: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    matrix, right = wide(packed, b)
    if left:
        return _laid(_solve(matrix, pivots, right, adjoint).to(b.dtype), left)
    return _laid(_solve(matrix, pivots, right.mT, not adjoint).mT.to(b.dtype), left)


def _sign(pivots: Tensor) -> Tensor:
    """Returns the sign of the permutation: each swap of two rows flips it."""
    own = torch.arange(1, pivots.size(-1) + 1, device=pivots.device)
    return 1.0 - 2.0 * ((pivots != own).sum(-1) % 2).double()


@composite("_linalg_det")
def det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    packed, pivots, _ = _determined(a)
    result = packed.diagonal(dim1=-2, dim2=-1).prod(-1) * _sign(pivots)
    return result.to(a.dtype), packed.to(a.dtype), pivots


@composite("_linalg_slogdet")
def slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    packed, pivots, _ = _determined(a)
    diagonal = packed.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sign().prod(-1) * _sign(pivots)
    size = diagonal.abs().log().sum(-1)
    return sign.to(a.dtype), size.to(a.dtype), packed.to(a.dtype), pivots


@composite("linalg_inv_ex")
def inv_ex(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    packed, pivots, info = factors(a)
    _check(check_errors, info, "linalg.inv_ex", a)
    ones = torch.eye(a.size(-1), dtype=packed.dtype, device=a.device)
    return by_columns(_solve(packed, pivots, ones, False).to(a.dtype)), info


@composite("_linalg_solve_ex")
def solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    _, right = wide(a, b.unsqueeze(-1) if is_vector else b)
    packed, pivots, info = factors(a)
    _check(check_errors, info, "torch.linalg.solve_ex", a)
    result = _solve(packed, pivots, right, False) if left else _solve(packed, pivots, right.mT, True).mT
    result = (result.squeeze(-1) if is_vector else result).to(a.dtype)
    return _laid(result, left), packed.to(a.dtype), pivots, info
