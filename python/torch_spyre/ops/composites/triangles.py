"""Triangular matrices: their inverses, what they solve, and Cholesky's factors.

Sums are wider than float32 and rounded at the end, so that products with an inverse are as good as substitution.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for

from .table import Declined, composite


def wide(*matrices: Tensor) -> list[Tensor]:
    """Matrices as they are computed with; what the host has no factorisation of, it is to refuse."""
    for matrix in matrices:
        if matrix.dtype not in (torch.float32, torch.float64) or matrix.dim() < 2:
            raise Declined(f"matrices of {matrix.dtype} with {matrix.dim()} dims")
    return [matrix.double() for matrix in matrices]


def by_columns(matrix: Tensor) -> Tensor:
    """A matrix that lies column by column, as the host's factorisations leave it."""
    # Also where there is one row, whose stride nothing else tells.
    strides = make_contiguous_strides_for(matrix.shape, row_major=False)
    return matrix.mT.contiguous().as_strided(matrix.shape, strides)


def _squares(*matrices: Tensor) -> None:
    if any(matrix.size(-1) != matrix.size(-2) for matrix in matrices):
        raise Declined("a matrix that is not square")


def _blocks(matrix: Tensor, size: int) -> Tensor:
    """The blocks of so many rows along the diagonal."""
    count = matrix.size(-1) // size
    cut = matrix.reshape(*matrix.shape[:-2], count, size, count, size)
    return cut.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def lower_inverse(matrix: Tensor, is_unit: bool = False) -> Tensor:
    """Inverts lower triangles: blocks of one element, then pairs of them, until one is left."""
    count = matrix.size(-1)
    whole = 1 << max(count - 1, 0).bit_length()
    pad = whole - count
    padded = torch.nn.functional.pad(matrix, (0, pad, 0, pad))
    diagonal = padded.diagonal(dim1=-2, dim2=-1)
    beyond = torch.arange(whole, device=matrix.device) >= count
    diagonal = torch.ones_like(diagonal) if is_unit else torch.where(beyond, 1.0, diagonal)
    inverse = diagonal.reciprocal()[..., None, None]
    while inverse.size(-1) < whole:
        size = inverse.size(-1)
        below = _blocks(padded, 2 * size)[..., size:, :size]
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -(second @ below @ first)
        upper = torch.cat([first, torch.zeros_like(first)], -1)
        inverse = torch.cat([upper, torch.cat([corner, second], -1)], -2)
    return inverse[..., 0, :count, :count]


def triangle_inverse(matrix: Tensor, upper: bool, is_unit: bool = False) -> Tensor:
    return lower_inverse(matrix.mT, is_unit).mT if upper else lower_inverse(matrix, is_unit)


@composite("linalg_solve_triangular")
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:  # fmt: skip
    matrix, right = wide(a, b)
    _squares(a)
    if a.dtype != b.dtype or b.size(-2 if left else -1) != a.size(-1):
        raise Declined("matrices that do not fit")
    inverse = triangle_inverse(matrix, upper, unitriangular)
    solution = (inverse @ right if left else right @ inverse).to(a.dtype)
    return by_columns(solution)


@composite("triangular_solve")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:  # fmt: skip
    matrix, right = wide(a, b)
    inverse = triangle_inverse(matrix, upper, unitriangular)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    solution = ((inverse.mT if transpose else inverse) @ right).to(b.dtype)
    return by_columns(solution), by_columns(a.expand(*batch, *a.shape[-2:]).clone())


def _cholesky(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Column by column, from the lower triangle; and the first column that has no root, counted from one."""
    rest, columns = matrix, []
    info = torch.zeros(matrix.shape[:-2], dtype=torch.int32, device=matrix.device)
    for at in range(matrix.size(-1)):
        corner = rest[..., 0, 0]
        info = torch.where((info == 0) & (corner > 0).logical_not(), at + 1, info)
        column = rest[..., 0] / corner.sqrt().unsqueeze(-1)
        columns.append(torch.nn.functional.pad(column, (at, 0)))
        below = column[..., 1:]
        rest = rest[..., 1:, 1:] - below.unsqueeze(-1) * below.unsqueeze(-2)
    return (torch.stack(columns, -1) if columns else matrix), info


@composite("linalg_cholesky_ex")
def cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    (matrix,) = wide(a)
    factor, info = _cholesky(matrix.mT if upper else matrix)
    if check_errors:
        torch._linalg_check_errors(info, "linalg.cholesky_ex", is_matrix=a.dim() == 2)
    return by_columns((factor.mT if upper else factor).to(a.dtype)), info.to(torch.int32)


@composite("cholesky")
def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    (matrix,) = wide(a)
    _squares(a)
    factor, info = _cholesky(matrix.mT if upper else matrix)
    torch._linalg_check_errors(info.to(torch.int32), "cholesky", is_matrix=a.dim() == 2)
    return by_columns((factor.mT if upper else factor).to(a.dtype))


@composite("cholesky_inverse")
def cholesky_inverse(a: Tensor, upper: bool = False) -> Tensor:
    (matrix,) = wide(a)
    _squares(a)
    inverse = triangle_inverse(matrix, upper)
    return by_columns((inverse @ inverse.mT if upper else inverse.mT @ inverse).to(a.dtype))


@composite("_cholesky_solve_helper")
def cholesky_solve_helper(b: Tensor, a: Tensor, upper: bool) -> Tensor:
    right, matrix = wide(b, a)
    inverse = triangle_inverse(matrix, upper)
    first, second = (inverse, inverse.mT) if upper else (inverse.mT, inverse)
    return by_columns((first @ (second @ right)).to(b.dtype))
