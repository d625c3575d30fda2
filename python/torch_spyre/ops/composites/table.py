"""The table of composite operations, and what its files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions by the overload's name, such as ``"aten::trace"``."""

_KERNELS = """
    abs acos acosh add.Tensor asin asinh atan atanh complex conj_physical cos cosh cumsum div.Tensor eq.Scalar eq.Tensor
    exp exp2 expm1 fill_.Scalar flip index_copy index_select log log10 log1p log2 logaddexp masked_fill.Scalar
    masked_fill.Tensor mean.dim mul.Tensor ne.Scalar ne.Tensor neg polar pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor
    reciprocal reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward roll rsqrt sgn sin sinc sinh
    sqrt std.correction std_mean.correction sub.Tensor sum.dim_IntList tan tanh tril triu var.correction
    var_mean.correction where.self zero_
"""
CPU_ONLY: frozenset[str] = frozenset(f"aten::{name}" for name in _KERNELS.split())
"""Operations that have kernels. What those decline is the CPU's to do or to refuse: PyTorch decomposes them into what is
further from the CPU's numbers, or into themselves, and refuses less."""


class Declined(NotImplementedError):
    """A function does not take what it was given: the CPU is to be asked."""


def composite(*names: str, namespace: str = "aten") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Has a function do these overloads of ``aten``, or of another package's operators."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update({f"{namespace}::{name}": function for name in names})
        return function

    return keep


def writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Says that a function fills what it is given as ``out``."""
    function._writes = True  # type: ignore[attr-defined]
    return function


def real(*tensors: Tensor) -> None:
    """Refuses complex numbers: they have no order."""
    if any(tensor.is_complex() for tensor in tensors):
        raise Declined("complex numbers have no order")
